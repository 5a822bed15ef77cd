/* suite_fields.c - the fields of a file that anybody may have written. */
#include "report/suite_fields.h"

#include <string.h>

#include "base/memory.h"

suite *suite_create(void) {
    suite *s = memory_allocate(1, sizeof *s);
    s->memory = arena_create();
    return s;
}

dyno_status suite_bad_field(const char *where, const char *field, const char *wanted) {
    return dyno_fail(DYNO_CORRUPT, "%s: \"%s\" must be %s", where, field, wanted);
}

dyno_status suite_take_text(suite *s, const char *where, const json_t *object, const char *field,
                            const char *fallback, const char **out) {
    const json_t *value = json_object_get(object, field);
    if (!value && fallback) {
        *out = fallback;
        return DYNO_OK;
    }
    if (!json_is_string(value))
        return suite_bad_field(where, field, "a text");
    *out = arena_copy_string(s->memory, json_string_value(value));
    return DYNO_OK;
}

bool suite_is_plain(const char *name, size_t length) {
    return length && *name != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") >= length;
}

void suite_part_add_argument(suite *s, suite_part *part, const char *argument) {
    const char **longer =
        arena_allocate(s->memory, (size_t)part->argument_count + 1, sizeof *longer);
    if (part->argument_count)
        memcpy(longer, part->arguments, (size_t)part->argument_count * sizeof *longer);
    longer[part->argument_count++] = arena_copy_string(s->memory, argument);
    part->arguments = longer;
}

dyno_status suite_take_arguments(suite *s, const char *where, const json_t *entry,
                                 suite_part *part) {
    const json_t *list = json_object_get(entry, "arguments");
    size_t i;
    json_t *item;
    if (list && !json_is_array(list))
        return suite_bad_field(where, "arguments", "an array of texts");
    json_array_foreach((json_t *)list, i, item) {
        if (!json_is_string(item))
            return suite_bad_field(where, "arguments", "an array of texts");
        suite_part_add_argument(s, part, json_string_value(item));
    }
    return DYNO_OK;
}

dyno_status suite_check_format(const char *source, const json_t *root, const char *wanted) {
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, wanted) != 0)
        return dyno_fail(DYNO_CORRUPT, "%s: \"format\" must be \"%s\"", source, wanted);
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return dyno_fail(DYNO_UNSUPPORTED, "%s: this dyno reads version 1 of suites", source);
    return DYNO_OK;
}
