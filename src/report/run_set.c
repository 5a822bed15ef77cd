#include "report/run_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add(run_set *set, results *run, const char *name) {
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? set->capacity * 2 : 16;
        set->runs = memory_resize(set->runs, (size_t)set->capacity, sizeof *set->runs);
        set->names = memory_resize(set->names, (size_t)set->capacity, sizeof *set->names);
    }
    set->runs[set->count] = run;
    set->names[set->count++] = memory_copy_string(name);
}

/* The record in `directory`/`name`, if it has one. */
static dyno_status add_from(run_set *set, const char *directory, const char *name) {
    text path = {0};
    text_format(&path, *name ? "%s/%s/run.json" : "%s%s/run.json", directory, name);
    dyno_status status = DYNO_OK;
    results *run;
    if (file_exists(text_string(&path))) {
        status = results_read(text_string(&path), &run);
        if (status == DYNO_OK)
            add(set, run, name);
    }
    text_release(&path);
    return status;
}

static dyno_status list_subdirectories(const char *path, char ***names, int *count) {
    int capacity = 0;
    DIR *directory = opendir(path);
    if (!directory)
        return dyno_fail(errno == ENOENT ? DYNO_NOT_FOUND : DYNO_IO, "reading '%s': %s", path,
                         strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) && *count < RUN_SET_MOST * 2;) {
        if (entry->d_name[0] == '.')
            continue;
        MEMORY_GROW(*names, *count, capacity);
        (*names)[(*count)++] = memory_copy_string(entry->d_name);
    }
    closedir(directory);
    if (*count)
        qsort(*names, (size_t)*count, sizeof **names, compare_names);
    return DYNO_OK;
}

static dyno_status read_directory(const char *path, run_set *out) {
    char **names = NULL;
    int count = 0;
    dyno_status status = add_from(out, path, "");
    if (status == DYNO_OK)
        status = list_subdirectories(path, &names, &count);
    for (int i = 0; i < count; i++) {
        if (status == DYNO_OK)
            status = add_from(out, path, names[i]);
        if (status == DYNO_OK && out->count > RUN_SET_MOST)
            status =
                dyno_fail(DYNO_UNSUPPORTED, "'%s' holds more than %d runs; take a part of them",
                          path, RUN_SET_MOST);
        free(names[i]);
    }
    free(names);
    if (status == DYNO_OK && out->count == 0)
        return dyno_fail(DYNO_NOT_FOUND,
                         "'%s' holds no run: neither run.json nor a directory with one; measuring "
                         "verbs write it with --out DIR",
                         path);
    return status;
}

dyno_status run_set_read(const char *path, run_set *out) {
    struct stat found;
    results *run;
    *out = (run_set){0};
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return read_directory(path, out);
    RETURN_IF_FAILED(results_read(path, &run));
    add(out, run, "");
    return DYNO_OK;
}

void run_set_release(run_set *set) {
    for (int i = 0; i < set->count; i++) {
        results_destroy(set->runs[i]);
        free(set->names[i]);
    }
    free(set->runs);
    free(set->names);
    *set = (run_set){0};
}
