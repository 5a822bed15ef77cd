#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"

enum { JSON_FILE_LIMIT = 256 << 20 };

static void *allocate(size_t bytes) { return memory_allocate(1, bytes); }

void json_use_memory(void) { json_set_alloc_funcs(allocate, free); }

dyno_status json_parse(const char *bytes, size_t size, const char *what, json_t **out) {
    json_error_t error;
    *out = NULL;
    if (size == 0)
        return dyno_fail(DYNO_CORRUPT, "%s is not valid JSON: it is empty", what);
    *out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!*out)
        return dyno_fail(DYNO_CORRUPT, "%s is not valid JSON: line %d, column %d: %s", what,
                         error.line, error.column, error.text);
    return DYNO_OK;
}

dyno_status json_read_file(const char *path, json_t **out) {
    *out = NULL;
    char *bytes;
    size_t size;
    RETURN_IF_FAILED(file_read_all(path, JSON_FILE_LIMIT, &bytes, &size));
    dyno_status status = json_parse(bytes, size, path, out);
    free(bytes);
    return status;
}

dyno_status json_write_file(const char *path, const json_t *value) {
    char *dump = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!dump)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "writing '%s': no memory for its text", path);
    file_writer *writer;
    dyno_status status = file_writer_create(path, &writer);
    if (status == DYNO_OK) {
        status = file_writer_append(writer, dump, strlen(dump));
        if (status == DYNO_OK)
            status = file_writer_append(writer, "\n", 1);
        if (status == DYNO_OK)
            status = file_writer_commit(writer);
        else
            file_writer_abandon(writer);
    }
    free(dump);
    return status;
}

void json_append_string(text *out, const char *string) {
    json_t *value = json_string(string);
    if (!value) { /* not UTF-8 */
        char *copy = memory_copy_string(string);
        for (char *p = copy; *p; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
        value = json_string(copy);
        free(copy);
    }
    char *dump = json_dumps(value, JSON_ENCODE_ANY);
    text_append_printable_json(out, dump ? dump : "\"\"");
    free(dump);
    json_decref(value);
}
