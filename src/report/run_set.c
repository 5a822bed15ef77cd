#include "report/run_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "measure/keys.h"
#include "report/view_parts.h"

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

/* What stands directly in it is not all of it. */
static dyno_status check_is_no_study(const char *path) {
    text record = {0};
    text_format(&record, "%s/suite.json", path);
    bool is_study = file_exists(text_string(&record));
    text_release(&record);
    if (!is_study)
        return DYNO_OK;
    return dyno_fail(
        DYNO_INVALID,
        "'%s' is a study of several verbs; name the directory of one of its experiments, "
        "or make a page of all: dyno report",
        path);
}

static dyno_status read_directory(const char *path, run_set *out) {
    RETURN_IF_FAILED(check_is_no_study(path));
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

static void copy_map(const results_map *from, results_map *to, arena *strings) {
    for (int i = 0; i < from->count; i++)
        results_map_set(to, strings, from->entries[i].key, from->entries[i].value);
}

/* What an earlier part says stays. */
static void add_environment(results *to, const results *part) {
    for (int i = 0; i < part->environment.count; i++) {
        const results_entry *entry = &part->environment.entries[i];
        if (!results_find_environment(to, entry->key))
            results_map_set(&to->environment, to->strings, entry->key, entry->value);
    }
}

/* A cell keeps the peak that was measured with its part: another part may have measured another one, or
 * none for this cell's math. */
static void copy_peak(const results *part, const results_cell *from, results_cell *to) {
    double peak = view_peak_gflops(part, from);
    if (!cell_find_metric(from, METRIC_PEAK_GFLOPS) && peak > 0)
        cell_set_metric_real(to, METRIC_PEAK_GFLOPS, "GFLOP/s", peak);
}

static void copy_cell(results *to, const results *part, const results_cell *from) {
    results_cell *cell = results_add_cell(to);
    copy_map(&from->parameters, &cell->parameters, to->strings);
    cell_set_status(cell, from->status, from->reason);
    for (int i = 0; i < from->metric_count; i++) {
        const results_metric *m = &from->metrics[i];
        if (m->value.kind == RESULTS_INTEGER)
            cell_set_metric(cell, m->name, m->unit, m->value.integer);
        else
            cell_set_metric_real(cell, m->name, m->unit, results_number(&m->value));
    }
    copy_peak(part, from, cell);
    for (int i = 0; i < from->series_count; i++) {
        const results_series *s = from->series[i];
        results_series *copy = cell_series(cell, s->name, s->unit);
        for (int64_t j = 0; j < s->count; j++)
            if (s->kind == RESULTS_INTEGER)
                series_add(copy, s->integers[j]);
            else
                series_add_real(copy, s->reals[j]);
    }
    for (int i = 0; i < from->breakdown_count; i++) {
        const results_breakdown *b = from->breakdowns[i];
        results_breakdown *copy =
            cell_add_breakdown(cell, b->name, b->keys, b->key_count, b->columns, b->column_count);
        for (int64_t j = 0; j < b->row_count; j++)
            breakdown_add_row(copy, b->rows[j].keys, b->rows[j].values);
    }
}

dyno_status run_set_merge(const run_set *set, const char *path, results **out) {
    const results *first = set->runs[0];
    *out = NULL;
    for (int i = 1; i < set->count; i++)
        if (strcmp(set->runs[i]->verb, first->verb) != 0)
            return dyno_fail(
                DYNO_INVALID,
                "'%s' holds runs of several verbs ('%s' is of `dyno %s`, '%s' of `dyno "
                "%s`); name one of its directories, or make a page of all: dyno report",
                path, text_quote(set->names[0]).text, text_quote(first->verb).text,
                text_quote(set->names[i]).text, text_quote(set->runs[i]->verb).text);
    results *run = results_create(first->verb, first->argc, first->argv);
    run->started = arena_copy_string(run->strings, first->started);
    run->is_complete = true;
    for (int i = 0; i < set->count; i++) {
        const results *part = set->runs[i];
        add_environment(run, part);
        run->is_complete = run->is_complete && part->is_complete;
        run->planned_cells +=
            part->planned_cells > part->cell_count ? part->planned_cells : part->cell_count;
        for (int64_t j = 0; j < part->cell_count; j++)
            copy_cell(run, part, part->cells[j]);
    }
    *out = run;
    return DYNO_OK;
}
