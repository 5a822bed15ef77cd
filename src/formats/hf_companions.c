#define _GNU_SOURCE
#include "formats/hf_companions.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/input_file.h"
#include "formats/json_text.h"

/* The largest tokenizer.json that is in use has about 35 MB. */
enum { MOST_FILES = 64, FILE_LIMIT = 128 << 20 };

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with) {
    size_t length = strlen(name), tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

bool hf_companions_include(const char *name) {
    static const char *const names[] = {"generation_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "vocab.txt",
                                        "merges.txt",
                                        "spiece.model",
                                        NULL};
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    bool is_named_so =
        begins(name, "tokenizer") || begins(name, "chat_template") || begins(name, "sentencepiece");
    bool is_text =
        ends(name, ".json") || ends(name, ".model") || ends(name, ".txt") || ends(name, ".jinja");
    return (is_named_so && is_text) || ends(name, ".tiktoken");
}

/* ---- config.json ---- */

char *hf_config_as_f32(const char *json) {
    static const char *const keys[] = {"torch_dtype", "dtype"};
    char *now = memory_copy_string(json);
    for (int i = 0; i < 2; i++) {
        const char *end, *value = json_text_find(now, keys[i], &end);
        if (value && *value == '"')
            now = json_text_set(now, keys[i], "\"float32\"");
    }
    return now;
}

/* ---- the others ---- */

static bool is_inside(const char *path, const char *directory) {
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && path[length] == '/';
}

/* A link may lead to a file of the directory itself and, from a snapshot of the Hugging Face cache,
 * to one of the blobs beside the snapshots. */
static bool leads_out(const char *directory, const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISLNK(status.st_mode))
        return false;
    char *to = realpath(path, NULL), *home = realpath(directory, NULL);
    bool is_kept = to && home && is_inside(to, home);
    char *snapshots = home ? strrchr(home, '/') : NULL;
    if (!is_kept && to && snapshots && snapshots > home) {
        *snapshots = '\0';
        char *repository = strrchr(home, '/');
        if (repository && strcmp(repository, "/snapshots") == 0) {
            text blobs = {0};
            text_format(&blobs, "%.*s/blobs", (int)(repository - home), home);
            is_kept = is_inside(to, blobs.data);
            text_release(&blobs);
        }
    }
    free(to);
    free(home);
    return !is_kept;
}

static dyno_status read_file(const char *directory, const char *path, hf_companion *out) {
    if (leads_out(directory, path))
        return dyno_fail(DYNO_INVALID, "it is a link that leads out of the directory");
    input_file file;
    RETURN_IF_FAILED(input_file_open(path, &file));
    dyno_status status = DYNO_OK;
    if (file.size > FILE_LIMIT)
        status = dyno_fail(DYNO_INVALID, "it has %s, the limit is %s", units_bytes(file.size).text,
                           units_bytes(FILE_LIMIT).text);
    char *bytes = status == DYNO_OK ? memory_try_allocate((size_t)file.size + 1) : NULL;
    if (status == DYNO_OK && !bytes)
        status = dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for %s", units_bytes(file.size).text);
    if (status == DYNO_OK)
        status = input_file_read(&file, 0, bytes, (size_t)file.size);
    if (status == DYNO_OK) {
        out->bytes = bytes;
        out->size = (size_t)file.size;
    } else {
        free(bytes);
    }
    input_file_close(&file);
    return status;
}

static void add_file(hf_companions *c, const char *directory, const char *name, text *left_out) {
    text path = {0};
    hf_companion file = {0};
    text_format(&path, "%s/%s", directory, name);
    dyno_status status = c->count == MOST_FILES
                             ? dyno_fail(DYNO_INVALID, "there are more than %d", MOST_FILES)
                             : read_file(directory, path.data, &file);
    text_release(&path);
    if (status != DYNO_OK) {
        text_format(left_out, "%s%s: %s", left_out->length ? "; " : "", text_quote(name).text,
                    dyno_error_message());
        return;
    }
    file.name = memory_copy_string(name);
    MEMORY_GROW(c->files, c->count, c->capacity);
    c->files[c->count++] = file;
}

static int compare_names(const void *left, const void *right) {
    const hf_companion *a = left, *b = right;
    return strcmp(a->name, b->name);
}

dyno_status hf_companions_read(const char *directory, const char *config, hf_companions **out) {
    *out = NULL;
    DIR *entries = opendir(directory);
    if (!entries)
        return dyno_fail(DYNO_IO, "cannot list '%s': %s", directory, strerror(errno));
    hf_companions *c = memory_allocate(1, sizeof *c);
    text left_out = {0};
    for (struct dirent *entry; (entry = readdir(entries));)
        if (hf_companions_include(entry->d_name))
            add_file(c, directory, entry->d_name, &left_out);
    closedir(entries);
    if (c->count)
        qsort(c->files, (size_t)c->count, sizeof *c->files, compare_names);
    c->config.name = memory_copy_string("config.json");
    c->config.bytes = hf_config_as_f32(config);
    c->config.size = strlen(c->config.bytes);
    c->left_out = memory_copy_string(text_string(&left_out));
    text_release(&left_out);
    *out = c;
    return DYNO_OK;
}

void hf_companions_destroy(hf_companions *c) {
    if (!c)
        return;
    for (int i = 0; i < c->count; i++) {
        free(c->files[i].name);
        free(c->files[i].bytes);
    }
    free(c->files);
    free(c->config.name);
    free(c->config.bytes);
    free(c->left_out);
    free(c);
}
