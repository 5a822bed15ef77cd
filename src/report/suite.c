/* suite.c - reading suites, and showing what became of their parts.
 *
 * Parts are run in the order of their priority; among equals, the first parts of all experiments come
 * before the second ones. A budget that ends early then leaves every table with rows. */
#include "report/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/suite_fields.h"

enum { MOST_FLAGS = 64, LAST_PRIORITY = 9, USUAL_PRIORITY = 5 };

static const char SUITE_FORMAT[] = "dyno-suite";
static const char *const STATUS_NAMES[] = {"PENDING", "OK", "SKIP", "FAILED"};

const char *suite_status_name(suite_status status) { return STATUS_NAMES[status]; }

/* A misspelt field would be ignored, and something else be measured than was meant. */
static dyno_status check_fields(const char *where, const json_t *object, const char *const *known,
                                int count) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        int at = 0;
        while (at < count && strcmp(known[at], name) != 0)
            at++;
        const char *nearest = at == count ? text_nearest(name, known, count) : NULL;
        if (at == count)
            return dyno_fail(DYNO_INVALID, "%s: there is no field \"%s\"%s%s%s", where,
                             text_quote(name).text, nearest ? "; did you mean \"" : "",
                             nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return DYNO_OK;
}

/* ---- flags, with arrays for parts ---- */

typedef struct suite_flags {
    const char *names[MOST_FLAGS];
    const json_t *values[MOST_FLAGS]; /* borrowed */
    int count;
} suite_flags;

static dyno_status add_flags(const char *where, const char *field, const json_t *object,
                             suite_flags *flags) {
    const char *name;
    json_t *value;
    if (!object)
        return DYNO_OK;
    if (!json_is_object(object))
        return suite_bad_field(where, field, "an object of flags");
    json_object_foreach((json_t *)object, name, value) {
        int at = 0;
        while (at < flags->count && strcmp(flags->names[at], name) != 0)
            at++;
        if (at == MOST_FLAGS)
            return dyno_fail(DYNO_CORRUPT, "%s: more than %d flags", where, MOST_FLAGS);
        if (json_is_object(value) || json_is_null(value) ||
            (json_is_array(value) && json_array_size(value) == 0))
            return suite_bad_field(where, name, "a text, a number, true, or an array of these");
        if (strcmp(name, "out") == 0 || strcmp(name, "format") == 0 || strcmp(name, "force") == 0)
            return dyno_fail(DYNO_CORRUPT, "%s: --%s is the suite's own matter", where, name);
        flags->names[at] = name;
        flags->values[at] = value;
        flags->count += at == flags->count;
    }
    return DYNO_OK;
}

static dyno_status add_flag(suite *s, const char *where, suite_part *part, const char *name,
                            const json_t *value) {
    char *flag = arena_format(s->memory, "--%s", name);
    if (json_is_false(value))
        return DYNO_OK;
    suite_part_add_argument(s, part, flag);
    if (json_is_string(value))
        suite_part_add_argument(s, part, json_string_value(value));
    else if (json_is_integer(value))
        suite_part_add_argument(
            s, part, arena_format(s->memory, "%lld", (long long)json_integer_value(value)));
    else if (json_is_real(value))
        suite_part_add_argument(s, part, arena_format(s->memory, "%.15g", json_real_value(value)));
    else if (!json_is_true(value))
        return suite_bad_field(where, name, "a text, a number, true, or an array of these");
    return DYNO_OK;
}

static dyno_status add_parts(suite *s, const char *where, const json_t *entry,
                             const suite_flags *flags, const suite_part *common) {
    int64_t parts = 1;
    for (int i = 0; i < flags->count; i++)
        if (json_is_array(flags->values[i])) {
            parts *= (int64_t)json_array_size(flags->values[i]);
            if (parts > SUITE_MOST_PARTS - s->count)
                return dyno_fail(DYNO_CORRUPT, "%s: a suite has %d parts at most", where,
                                 SUITE_MOST_PARTS);
        }
    for (int64_t p = 0; p < parts; p++) {
        suite_part part = *common;
        part.part = (int)p;
        part.parts = (int)parts;
        part.directory = parts == 1
                             ? part.experiment
                             : arena_format(s->memory, "%s/part-%02d", part.experiment, (int)p + 1);
        RETURN_IF_FAILED(suite_take_arguments(s, where, entry, &part));
        int64_t rest = p; /* the first array varies slowest, as nested loops would have it */
        int64_t inner = parts;
        for (int i = 0; i < flags->count; i++) {
            const json_t *value = flags->values[i];
            if (json_is_array(value)) {
                inner /= (int64_t)json_array_size(value);
                value = json_array_get(value, (size_t)(rest / inner));
                rest %= inner;
            }
            RETURN_IF_FAILED(add_flag(s, where, &part, flags->names[i], value));
        }
        MEMORY_GROW(s->parts, s->count, s->capacity);
        s->parts[s->count++] = part;
    }
    return DYNO_OK;
}

/* ---- a suite ---- */

static dyno_status check_new_name(const suite *s, const char *where, const char *name) {
    if (!suite_is_plain(name, strlen(name)))
        return suite_bad_field(where, "name", "small letters, digits and -: it names a directory");
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->parts[i].experiment, name) == 0)
            return dyno_fail(DYNO_CORRUPT, "%s: two experiments have the name '%s'", where, name);
    return DYNO_OK;
}

static dyno_status add_entry(suite *s, const char *source, size_t index, const json_t *entry,
                             const char *device) {
    char *where = arena_format(s->memory, "%s: experiment %zu", source, index + 1);
    suite_part part = {.reason = "", .priority = USUAL_PRIORITY};
    suite_flags flags = {.count = 0};
    static const char *const fields[] = {"name",   "verb",  "title",    "question",
                                         "number", "needs", "flags",    "priority",
                                         "cpu",    "gpu",   "arguments"};
    if (!json_is_object(entry))
        return dyno_fail(DYNO_CORRUPT, "%s must be an object", where);
    RETURN_IF_FAILED(check_fields(where, entry, fields, sizeof fields / sizeof *fields));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "name", NULL, &part.experiment));
    RETURN_IF_FAILED(check_new_name(s, where, part.experiment));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "verb", NULL, &part.verb));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "title", part.experiment, &part.title));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "question", "", &part.question));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "number", "", &part.number));
    RETURN_IF_FAILED(suite_take_text(s, where, entry, "needs", "", &part.needs));
    if (*part.needs && strcmp(part.needs, "gpu") != 0 && strcmp(part.needs, "cpu") != 0)
        return suite_bad_field(where, "needs", "\"gpu\" or \"cpu\"");
    const json_t *priority = json_object_get(entry, "priority");
    if (priority) {
        if (!json_is_integer(priority) || json_integer_value(priority) < 1 ||
            json_integer_value(priority) > LAST_PRIORITY)
            return suite_bad_field(where, "priority", "a number from 1, which is run first, to 9");
        part.priority = (int)json_integer_value(priority);
    }
    const char *own = strcmp(device, "cpu") == 0 ? "cpu" : "gpu";
    RETURN_IF_FAILED(add_flags(where, "flags", json_object_get(entry, "flags"), &flags));
    RETURN_IF_FAILED(add_flags(where, own, json_object_get(entry, own), &flags));
    if (*part.needs && strcmp(part.needs, own) != 0) {
        part.status = SUITE_SKIP;
        part.reason = strcmp(own, "cpu") == 0 ? "needs a GPU" : "is for a CPU";
    }
    return add_parts(s, where, entry, &flags, &part);
}

static int compare_parts(const void *a, const void *b) {
    const suite_part *x = *(const suite_part *const *)a, *y = *(const suite_part *const *)b;
    int by_priority = x->priority - y->priority, by_part = x->part - y->part;
    return by_priority ? by_priority : by_part ? by_part : (x > y) - (x < y);
}

static void put_in_order(suite *s) {
    suite_part **places = memory_allocate((size_t)s->count, sizeof *places);
    suite_part *sorted = memory_allocate((size_t)s->count, sizeof *sorted);
    for (int i = 0; i < s->count; i++)
        places[i] = &s->parts[i];
    qsort(places, (size_t)s->count, sizeof *places, compare_parts);
    for (int i = 0; i < s->count; i++)
        sorted[i] = *places[i];
    free(places);
    free(s->parts);
    s->parts = sorted;
    s->capacity = s->count;
}

void suite_destroy(suite *s) {
    if (!s)
        return;
    free(s->parts);
    arena_destroy(s->memory);
    free(s);
}

static dyno_status fill(suite *s, const char *source, const json_t *root, const char *device) {
    size_t i;
    json_t *entry;
    static const char *const fields[] = {"format", "version", "name", "title", "experiments"};
    RETURN_IF_FAILED(suite_check_format(source, root, SUITE_FORMAT));
    RETURN_IF_FAILED(check_fields(source, root, fields, sizeof fields / sizeof *fields));
    RETURN_IF_FAILED(suite_take_text(s, source, root, "name", NULL, &s->name));
    RETURN_IF_FAILED(suite_take_text(s, source, root, "title", s->name, &s->title));
    const json_t *entries = json_object_get(root, "experiments");
    if (!json_is_array(entries) || json_array_size(entries) == 0)
        return suite_bad_field(source, "experiments",
                               "an array with an object for each experiment");
    json_array_foreach((json_t *)entries, i, entry)
        RETURN_IF_FAILED(add_entry(s, source, i, entry, device));
    put_in_order(s);
    return DYNO_OK;
}

/* The name is a part of the file's, kept from the first call on. */
const char *suite_name_at(int index) {
    enum { MOST = 32, LONGEST = 64 };
    static char names[MOST][LONGEST];
    static const char folder[] = "suites/", ending[] = ".json";
    int found = 0;
    for (const embedded_file *file = EMBEDDED_FILES; file->name && index >= 0; file++)
        if (strncmp(file->name, folder, strlen(folder)) == 0 && found++ == index && index < MOST) {
            snprintf(names[index], LONGEST, "%.*s",
                     (int)(strlen(file->name) - strlen(folder) - strlen(ending)),
                     file->name + strlen(folder));
            return names[index];
        }
    return NULL;
}

static dyno_status unknown(const char *name) {
    enum { MOST = 32 };
    const char *names[MOST];
    text list = {0};
    int count = 0;
    for (; count < MOST && suite_name_at(count); count++) {
        names[count] = suite_name_at(count);
        text_format(&list, "%s%s", count ? ", " : "", names[count]);
    }
    const char *nearest = text_nearest(name, names, count);
    dyno_status status =
        dyno_fail(DYNO_INVALID,
                  "there is no suite '%s'; %s%s%s are %s, and files of your own: dyno suite "
                  "./mine.json",
                  text_quote(name).text, nearest ? "did you mean '" : "", nearest ? nearest : "",
                  nearest ? "'? There" : "there", text_string(&list));
    text_release(&list);
    return status;
}

static dyno_status read_source(const char *name, json_t **root) {
    if (strchr(name, '/') || strstr(name, ".json"))
        return json_read_file(name, root);
    text path = {0};
    text_format(&path, "suites/%s.json", name);
    const char *embedded = embedded_find(text_string(&path));
    dyno_status status =
        embedded ? json_parse(embedded, strlen(embedded), text_string(&path), root) : unknown(name);
    text_release(&path);
    return status;
}

dyno_status suite_read(const char *name, const char *device, suite **out) {
    json_t *root = NULL;
    *out = NULL;
    RETURN_IF_FAILED(read_source(name, &root));
    suite *s = suite_create();
    dyno_status status = fill(s, name, root, device);
    json_decref(root);
    if (status == DYNO_OK)
        *out = s;
    else
        suite_destroy(s);
    return status;
}

void suite_add_argument(suite *s, int part, const char *argument) {
    suite_part_add_argument(s, &s->parts[part], argument);
}

void suite_settle(suite *s, int part, suite_status status, const char *reason, double seconds) {
    s->parts[part].status = status;
    s->parts[part].reason = arena_copy_string(s->memory, reason);
    s->parts[part].seconds = seconds;
}

/* ---- shown ---- */

report_document *suite_create_document(const suite *s) {
    static const char *const importance[] = {"experiment", "status", "command",
                                             "seconds",    "reason", NULL};
    report_document *document = document_create(NULL);
    report_table *table = table_create(s->title);
    int counts[SUITE_FAILED + 1] = {0};
    table_add_column(table, "experiment", "experiment", TABLE_LEFT);
    table_add_column(table, "status", "status", TABLE_LEFT);
    table_add_column(table, "seconds", "seconds", TABLE_RIGHT);
    table_add_column(table, "command", "command", TABLE_LEFT);
    table_add_column(table, "reason", "reason", TABLE_LEFT);
    table_set_importance(table, importance);
    for (int i = 0; i < s->count; i++) {
        const suite_part *part = &s->parts[i];
        text command = {0};
        text_append(&command, part->verb);
        for (int j = 0; j < part->argument_count; j++) {
            text_append(&command, " ");
            text_append_shell_word(&command, part->arguments[j]);
        }
        table_add_row(table);
        table_add_text(table, part->experiment);
        table_add_text(table, suite_status_name(part->status));
        if (part->seconds > 0)
            table_add_real(table, part->seconds, 1);
        else
            table_add_empty(table);
        table_add_text(table, text_string(&command));
        table_add_text(table, part->reason);
        text_release(&command);
        counts[part->status]++;
    }
    document_add_table(document, table);
    document_add_note(document, "%d of %d parts are done, %d skipped, %d failed, %d to be run",
                      counts[SUITE_OK], s->count, counts[SUITE_SKIP], counts[SUITE_FAILED],
                      counts[SUITE_PENDING]);
    return document;
}

report_table *suite_create_list(void) {
    report_table *table = table_create("suites");
    table_add_column(table, "name", "name", TABLE_LEFT);
    table_add_column(table, "experiments", "experiments", TABLE_RIGHT);
    table_add_column(table, "title", "title", TABLE_LEFT);
    for (const embedded_file *file = EMBEDDED_FILES; file->name; file++) {
        json_t *root;
        if (strncmp(file->name, "suites/", strlen("suites/")) != 0 ||
            json_parse(file->text, strlen(file->text), file->name, &root) != DYNO_OK)
            continue;
        const char *name = json_string_value(json_object_get(root, "name")),
                   *title = json_string_value(json_object_get(root, "title"));
        table_add_row(table);
        table_add_text(table, name ? name : "");
        table_add_integer(table, (int64_t)json_array_size(json_object_get(root, "experiments")));
        table_add_text(table, title ? title : "");
        json_decref(root);
    }
    table_add_note(table, "dyno suite NAME --out DIR runs one; a file of your own is dyno suite "
                          "./mine.json");
    return table;
}
