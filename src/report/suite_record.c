/* suite_record.c - suite.json, the record of what became of a suite's parts: written, read again by a report, and
 * taken over by the same command.
 *
 * What was measured is never lost to a file that is gone or damaged: then nothing is run, and the message says what to
 * move away. */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "measure/results.h"
#include "report/suite_fields.h"

static const char RECORD_FORMAT[] = "dyno-suite-record";

/* ---- writing ---- */

static json_t *part_to_json(const suite_part *part) {
    json_t *arguments = json_array();
    for (int i = 0; i < part->argument_count; i++)
        json_array_append_new(arguments, json_string(part->arguments[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:i, s:i, s:i, s:s, s:s, s:f}", "name",
                     part->experiment, "number", part->number, "title", part->title, "question",
                     part->question, "verb", part->verb, "arguments", arguments, "directory",
                     part->directory, "priority", part->priority, "part", part->part, "parts",
                     part->parts, "status", suite_status_name(part->status), "reason", part->reason,
                     "seconds", part->seconds);
}

dyno_status suite_write(const suite *s, const char *directory) {
    json_t *parts = json_array();
    for (int i = 0; i < s->count; i++)
        json_array_append_new(parts, part_to_json(&s->parts[i]));
    json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:o}", "format", RECORD_FORMAT, "version", 1,
                             "name", s->name, "title", s->title, "parts", parts);
    text path = {0};
    text_format(&path, "%s/suite.json", directory);
    dyno_status status = json_write_file(text_string(&path), root);
    text_release(&path);
    json_decref(root);
    return status;
}

/* ---- reading ---- */

/* "name" or "name/part-01": of a record it is where a run is read, which must be below the study. */
static bool is_plain_directory(const char *path) {
    size_t first = strcspn(path, "/");
    const char *part = path + first + 1;
    return suite_is_plain(path, first) && (!path[first] || suite_is_plain(part, strlen(part)));
}

static dyno_status take_integer(const char *where, const json_t *object, const char *field,
                                int *out) {
    const json_t *value = json_object_get(object, field);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > SUITE_MOST_PARTS)
        return suite_bad_field(where, field, "a count");
    *out = (int)json_integer_value(value);
    return DYNO_OK;
}

static dyno_status take_record_part(suite *s, const char *where, const json_t *object) {
    suite_part part = {.needs = ""};
    const char *status = "";
    if (!json_is_object(object))
        return dyno_fail(DYNO_CORRUPT, "%s: a part must be an object", where);
    RETURN_IF_FAILED(suite_take_text(s, where, object, "name", NULL, &part.experiment));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "number", "", &part.number));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "title", "", &part.title));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "question", "", &part.question));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "verb", NULL, &part.verb));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "directory", NULL, &part.directory));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "reason", "", &part.reason));
    RETURN_IF_FAILED(suite_take_text(s, where, object, "status", NULL, &status));
    RETURN_IF_FAILED(take_integer(where, object, "priority", &part.priority));
    RETURN_IF_FAILED(take_integer(where, object, "part", &part.part));
    RETURN_IF_FAILED(take_integer(where, object, "parts", &part.parts));
    RETURN_IF_FAILED(suite_take_arguments(s, where, object, &part));
    if (!suite_is_plain(part.experiment, strlen(part.experiment)))
        return suite_bad_field(where, "name", "small letters, digits and -");
    if (!is_plain_directory(part.directory))
        return suite_bad_field(where, "directory", "one below the study, as \"steps/part-01\"");
    int known = 0;
    while (known <= SUITE_FAILED && strcmp(status, suite_status_name((suite_status)known)) != 0)
        known++;
    if (known > SUITE_FAILED)
        return suite_bad_field(where, "status", "PENDING, OK, SKIP or FAILED");
    part.status = (suite_status)known;
    part.seconds = json_number_value(json_object_get(object, "seconds"));
    MEMORY_GROW(s->parts, s->count, s->capacity);
    s->parts[s->count++] = part;
    return DYNO_OK;
}

static dyno_status fill_record(suite *s, const char *source, const json_t *root) {
    size_t i;
    json_t *part;
    RETURN_IF_FAILED(suite_check_format(source, root, RECORD_FORMAT));
    RETURN_IF_FAILED(suite_take_text(s, source, root, "name", NULL, &s->name));
    RETURN_IF_FAILED(suite_take_text(s, source, root, "title", s->name, &s->title));
    const json_t *parts = json_object_get(root, "parts");
    if (!json_is_array(parts) || json_array_size(parts) > SUITE_MOST_PARTS)
        return suite_bad_field(source, "parts", "an array of 10000 parts at most");
    json_array_foreach((json_t *)parts, i, part)
        RETURN_IF_FAILED(take_record_part(s, source, part));
    return DYNO_OK;
}

dyno_status suite_read_record(const char *directory, suite **out) {
    text path = {0};
    json_t *root = NULL;
    *out = NULL;
    text_format(&path, "%s/suite.json", directory);
    dyno_status status = file_exists(text_string(&path))
                             ? json_read_file(text_string(&path), &root)
                             : dyno_fail(DYNO_NOT_FOUND, "there is no '%s'", text_string(&path));
    if (status == DYNO_OK) {
        suite *s = suite_create();
        status = fill_record(s, text_string(&path), root);
        if (status == DYNO_OK)
            *out = s;
        else
            suite_destroy(s);
        json_decref(root);
    }
    text_release(&path);
    return status;
}

/* ---- going on ---- */

static bool are_same_parts(const suite_part *a, const suite_part *b) {
    if (strcmp(a->directory, b->directory) != 0 || strcmp(a->verb, b->verb) != 0 ||
        a->argument_count != b->argument_count)
        return false;
    for (int i = 0; i < a->argument_count; i++)
        if (strcmp(a->arguments[i], b->arguments[i]) != 0)
            return false;
    return true;
}

bool suite_has_record(const suite_part *part, const char *directory) {
    text path = {0};
    text_format(&path, "%s/%s/run.json", directory, part->directory);
    bool has = file_exists(text_string(&path));
    text_release(&path);
    return has;
}

/* What is damaged may be worth more than the time to measure it again: it is never replaced. */
static dyno_status check_record(const suite_part *part, const char *directory) {
    text path = {0};
    results *run = NULL;
    text_format(&path, "%s/%s/run.json", directory, part->directory);
    dyno_status status = results_read(text_string(&path), &run);
    results_destroy(run);
    if (status != DYNO_OK)
        status = dyno_fail_within(status,
                                  "a part that was finished cannot be read (move '%s/%s' away, and "
                                  "it is measured again)",
                                  directory, part->directory);
    text_release(&path);
    return status;
}

static dyno_status take_over(suite *s, int index, const suite_part *before, const char *directory) {
    if (!suite_has_record(before, directory)) {
        suite_settle(s, index, SUITE_PENDING, SUITE_RECORD_IS_GONE, 0);
        return DYNO_OK;
    }
    RETURN_IF_FAILED(check_record(before, directory));
    suite_settle(s, index, SUITE_OK, "", before->seconds);
    return DYNO_OK;
}

/* Without suite.json nobody knows what the parts that are there were measured with. */
static dyno_status check_that_no_part_is_there(const suite *s, const char *directory) {
    for (int i = 0; i < s->count; i++)
        if (suite_has_record(&s->parts[i], directory))
            return dyno_fail(
                DYNO_INVALID,
                "'%s/%s' holds a record, but '%s' has no suite.json that says what of; "
                "move it away, or give another --out",
                directory, s->parts[i].directory, directory);
    return DYNO_OK;
}

dyno_status suite_resume(suite *s, const char *directory) {
    suite *before;
    dyno_status status = suite_read_record(directory, &before);
    if (status == DYNO_NOT_FOUND)
        return check_that_no_part_is_there(s, directory);
    RETURN_IF_FAILED(status);
    if (strcmp(before->name, s->name) != 0)
        status = dyno_fail(DYNO_INVALID,
                           "'%s' holds the suite '%s', not '%s'; use another output directory",
                           directory, text_quote(before->name).text, text_quote(s->name).text);
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < before->count && status == DYNO_OK; j++)
            if (before->parts[j].status == SUITE_OK &&
                are_same_parts(&s->parts[i], &before->parts[j]))
                status = take_over(s, i, &before->parts[j], directory);
    suite_destroy(before);
    return status;
}
