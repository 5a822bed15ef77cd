/* results_json.c - run.json, version 1.
 *
 *   { "format": "dyno-run", "version": 1, "verb": "bench", "argv": [...],
 *     "started": "2025-01-31T12:00:00Z", "complete": true, "planned_cells": 12,
 *     "environment": { "cpu": "...", "cores_available": 8 },
 *     "cells": [
 *       { "parameters": { "model": "small", "context": 128 },
 *         "status": "OK", "reason": "",
 *         "metrics": { "flops": { "unit": "FLOP", "value": 123 } },
 *         "samples": { "step": { "unit": "ns", "values": [1, 2] } },
 *         "breakdowns": { "by_class": {
 *             "keys": ["class"], "columns": [{ "name": "time", "unit": "ns" }],
 *             "rows": [{ "keys": ["matmul"], "values": [5] }] } } } ] }
 *
 * Integers stay integers and reals have 17 digits, so that a run read back equals the one
 * written. Numbers that JSON has no word for stand as "nan", "inf" and "-inf". Fields that
 * this version does not know are ignored; the version grows when old readers would be wrong. */
#define _POSIX_C_SOURCE 200809L
#include "measure/results_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/printable.h"

static const char FORMAT[] = "dyno-run";

/* Writing */

static json_t *value_to_json(const results_value *value) {
    if (value->kind == RESULTS_TEXT)
        return json_string(value->text);
    if (value->kind == RESULTS_INTEGER)
        return json_integer(value->integer);
    if (isfinite(value->real))
        return json_real(value->real);
    return json_string(isnan(value->real) ? "nan" : value->real > 0 ? "inf" : "-inf");
}

static json_t *map_to_json(const results_map *map) {
    json_t *object = json_object();
    for (int i = 0; i < map->count; i++)
        json_object_set_new(object, map->entries[i].key, value_to_json(&map->entries[i].value));
    return object;
}

static json_t *series_to_json(const results_series *series) {
    json_t *values = json_array();
    for (int64_t i = 0; i < series->count; i++) {
        results_value value = series->kind == RESULTS_INTEGER ? results_integer(series->integers[i])
                                                              : results_real(series->reals[i]);
        json_array_append_new(values, value_to_json(&value));
    }
    return json_pack("{s:s, s:o}", "unit", series->unit, "values", values);
}

static json_t *texts_to_json(const char *const *texts, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(array, json_string(texts[i]));
    return array;
}

static json_t *breakdown_to_json(const results_breakdown *breakdown) {
    json_t *columns = json_array(), *rows = json_array();
    for (int i = 0; i < breakdown->column_count; i++)
        json_array_append_new(columns, json_pack("{s:s, s:s}", "name", breakdown->columns[i].name,
                                                 "unit", breakdown->columns[i].unit));
    for (int64_t i = 0; i < breakdown->row_count; i++) {
        json_t *values = json_array();
        for (int j = 0; j < breakdown->column_count; j++)
            json_array_append_new(values, value_to_json(&breakdown->rows[i].values[j]));
        json_t *keys = texts_to_json(breakdown->rows[i].keys, breakdown->key_count);
        json_array_append_new(rows, json_pack("{s:o, s:o}", "keys", keys, "values", values));
    }
    return json_pack("{s:o, s:o, s:o}", "keys",
                     texts_to_json(breakdown->keys, breakdown->key_count), "columns", columns,
                     "rows", rows);
}

static json_t *cell_to_json(const results_cell *cell) {
    json_t *metrics = json_object(), *samples = json_object();
    for (int i = 0; i < cell->metric_count; i++)
        json_object_set_new(metrics, cell->metrics[i].name,
                            json_pack("{s:s, s:o}", "unit", cell->metrics[i].unit, "value",
                                      value_to_json(&cell->metrics[i].value)));
    for (int i = 0; i < cell->series_count; i++)
        json_object_set_new(samples, cell->series[i]->name, series_to_json(cell->series[i]));
    json_t *breakdowns = cell->breakdown_count ? json_object() : NULL;
    for (int i = 0; i < cell->breakdown_count; i++)
        json_object_set_new(breakdowns, cell->breakdowns[i]->name,
                            breakdown_to_json(cell->breakdowns[i]));
    return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o*}", "parameters",
                     map_to_json(&cell->parameters), "status", results_status_name(cell->status),
                     "reason", cell->reason, "metrics", metrics, "samples", samples, "breakdowns",
                     breakdowns);
}

json_t *results_to_json(const results *run) {
    json_t *cells = json_array();
    for (int64_t i = 0; i < run->cell_count; i++)
        json_array_append_new(cells, cell_to_json(run->cells[i]));
    return json_pack("{s:s, s:i, s:s, s:o, s:s, s:b, s:I, s:o, s:o}", "format", FORMAT, "version",
                     RESULTS_VERSION, "verb", run->verb, "argv",
                     texts_to_json(run->argv, run->argc), "started", run->started, "complete",
                     run->is_complete, "planned_cells", (json_int_t)run->planned_cells,
                     "environment", map_to_json(&run->environment), "cells", cells);
}

void results_append_json(const results *run, text *out) {
    json_t *root = results_to_json(run);
    char *dump = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    text_append_printable_json(out, dump ? dump : "");
    text_append(out, "\n");
    free(dump);
    json_decref(root);
}

static char *path_of_run(const char *directory) {
    size_t bytes = strlen(directory) + sizeof "/run.json";
    char *path = memory_allocate(bytes, 1);
    snprintf(path, bytes, "%s/run.json", directory);
    return path;
}

dyno_status results_write(const results *run, const char *directory) {
    char *path = path_of_run(directory);
    json_t *root = results_to_json(run);
    dyno_status status = json_write_file(path, root);
    json_decref(root);
    free(path);
    return status;
}

/* Reading: `what` is the source, `where` the place in it, both for messages. */

static const char *json_type_name(const json_t *value) {
    if (!value)
        return "missing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "unknown";
}

/* Names in one map are looked up one by one; a file with more is not one that dyno wrote. */
enum { MOST_NAMES = 1000 };

typedef struct place {
    const char *what;
    int64_t cell; /* -1 outside cells */
} place;

static dyno_status wrong(place at, const char *field, const json_t *found, const char *wanted) {
    if (at.cell >= 0)
        return dyno_fail(DYNO_CORRUPT, "%s is not a run of dyno: cell %lld: '%s' is %s, not %s",
                         at.what, (long long)at.cell, field, json_type_name(found), wanted);
    return dyno_fail(DYNO_CORRUPT, "%s is not a run of dyno: '%s' is %s, not %s", at.what, field,
                     json_type_name(found), wanted);
}

static dyno_status read_text(place at, const json_t *object, const char *field, const char **out) {
    const json_t *value = json_object_get(object, field);
    *out = "";
    if (!json_is_string(value))
        return wrong(at, field, value, "a text");
    *out = json_string_value(value);
    return DYNO_OK;
}

static dyno_status check_size(place at, const char *field, size_t size) {
    if (size > MOST_NAMES)
        return dyno_fail(DYNO_CORRUPT,
                         "%s is not a run of dyno: '%s' has %zu entries, the limit is %d", at.what,
                         field, size, MOST_NAMES);
    return DYNO_OK;
}

static dyno_status read_member(place at, const json_t *object, const char *field, json_type type,
                               const char *wanted, json_t **out) {
    *out = json_object_get(object, field);
    if (!*out || json_typeof(*out) != type)
        return wrong(at, field, *out, wanted);
    return type == JSON_OBJECT ? check_size(at, field, json_object_size(*out)) : DYNO_OK;
}

static dyno_status read_number(place at, const char *field, const json_t *found,
                               results_value *out) {
    if (json_is_integer(found)) {
        *out = results_integer(json_integer_value(found));
        return DYNO_OK;
    }
    if (json_is_real(found)) {
        *out = results_real(json_real_value(found));
        return DYNO_OK;
    }
    if (json_is_string(found)) {
        const char *word = json_string_value(found);
        bool is_nan = strcmp(word, "nan") == 0, is_negative = strcmp(word, "-inf") == 0;
        if (is_nan || is_negative || strcmp(word, "inf") == 0) {
            *out = results_real(is_nan ? NAN : is_negative ? -INFINITY : INFINITY);
            return DYNO_OK;
        }
    }
    return wrong(at, field, found, "a number");
}

static dyno_status read_map(place at, json_t *object, arena *strings, results_map *out) {
    const char *key;
    json_t *found;
    json_object_foreach(object, key, found) {
        results_value value = {.kind = RESULTS_TEXT, .text = json_string_value(found)};
        if (!json_is_string(found) && !json_is_number(found))
            return wrong(at, key, found, "a text or a number");
        if (!json_is_string(found))
            RETURN_IF_FAILED(read_number(at, key, found, &value));
        results_map_set(out, strings, key, value);
    }
    return DYNO_OK;
}

static dyno_status read_metrics(place at, json_t *object, results_cell *cell) {
    const char *name;
    json_t *metric;
    json_object_foreach(object, name, metric) {
        const char *unit;
        results_value value;
        if (!json_is_object(metric))
            return wrong(at, name, metric, "an object");
        RETURN_IF_FAILED(read_text(at, metric, "unit", &unit));
        RETURN_IF_FAILED(read_number(at, name, json_object_get(metric, "value"), &value));
        if (value.kind == RESULTS_INTEGER)
            cell_set_metric(cell, name, unit, value.integer);
        else
            cell_set_metric_real(cell, name, unit, value.real);
    }
    return DYNO_OK;
}

static dyno_status read_samples(place at, json_t *object, results_cell *cell) {
    const char *name;
    json_t *samples;
    json_object_foreach(object, name, samples) {
        const char *unit;
        json_t *values;
        if (!json_is_object(samples))
            return wrong(at, name, samples, "an object");
        RETURN_IF_FAILED(read_text(at, samples, "unit", &unit));
        RETURN_IF_FAILED(read_member(at, samples, "values", JSON_ARRAY, "an array", &values));
        results_series *series = cell_series(cell, name, unit);
        for (size_t i = 0; i < json_array_size(values); i++) {
            results_value value;
            RETURN_IF_FAILED(read_number(at, name, json_array_get(values, i), &value));
            if (value.kind == RESULTS_INTEGER)
                series_add(series, value.integer);
            else
                series_add_real(series, value.real);
        }
    }
    return DYNO_OK;
}

/* `texts` has room for exactly `count`. */
static dyno_status read_texts(place at, const char *field, const json_t *array, int count,
                              const char **texts) {
    if (!json_is_array(array) || json_array_size(array) != (size_t)count)
        return wrong(at, field, array, "an array with one text for each key");
    for (int i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, (size_t)i);
        if (!json_is_string(item))
            return wrong(at, field, item, "a text");
        texts[i] = json_string_value(item);
    }
    return DYNO_OK;
}

static dyno_status read_row(place at, const json_t *row, results_breakdown *breakdown,
                            const char **keys, results_value *values) {
    if (!json_is_object(row))
        return wrong(at, "rows", row, "an array of objects");
    RETURN_IF_FAILED(
        read_texts(at, "keys", json_object_get(row, "keys"), breakdown->key_count, keys));
    const json_t *array = json_object_get(row, "values");
    if (!json_is_array(array) || json_array_size(array) != (size_t)breakdown->column_count)
        return wrong(at, "values", array, "an array with one number for each column");
    for (int i = 0; i < breakdown->column_count; i++)
        RETURN_IF_FAILED(read_number(at, breakdown->columns[i].name,
                                     json_array_get(array, (size_t)i), &values[i]));
    breakdown_add_row(breakdown, keys, values);
    return DYNO_OK;
}

static dyno_status read_breakdown_into(place at, const char *name, const json_t *object,
                                       results_cell *cell, const char **keys,
                                       results_column *columns, results_value *values) {
    json_t *key_array, *column_array, *rows;
    RETURN_IF_FAILED(read_member(at, object, "keys", JSON_ARRAY, "an array", &key_array));
    RETURN_IF_FAILED(read_member(at, object, "columns", JSON_ARRAY, "an array", &column_array));
    RETURN_IF_FAILED(read_member(at, object, "rows", JSON_ARRAY, "an array", &rows));
    RETURN_IF_FAILED(check_size(at, "keys", json_array_size(key_array)));
    RETURN_IF_FAILED(check_size(at, "columns", json_array_size(column_array)));
    int key_count = (int)json_array_size(key_array);
    int column_count = (int)json_array_size(column_array);
    RETURN_IF_FAILED(read_texts(at, "keys", key_array, key_count, keys));
    for (int i = 0; i < column_count; i++) {
        const json_t *column = json_array_get(column_array, (size_t)i);
        RETURN_IF_FAILED(read_text(at, column, "name", &columns[i].name));
        RETURN_IF_FAILED(read_text(at, column, "unit", &columns[i].unit));
    }
    results_breakdown *breakdown =
        cell_add_breakdown(cell, name, keys, key_count, columns, column_count);
    for (size_t i = 0; i < json_array_size(rows); i++)
        RETURN_IF_FAILED(read_row(at, json_array_get(rows, i), breakdown, keys, values));
    return DYNO_OK;
}

static dyno_status read_breakdowns(place at, json_t *object, results_cell *cell) {
    const char **keys = memory_allocate(MOST_NAMES, sizeof *keys);
    results_column *columns = memory_allocate(MOST_NAMES, sizeof *columns);
    results_value *values = memory_allocate(MOST_NAMES, sizeof *values);
    dyno_status status = DYNO_OK;
    const char *name;
    json_t *breakdown;
    json_object_foreach(object, name, breakdown) {
        status = read_breakdown_into(at, name, breakdown, cell, keys, columns, values);
        if (status != DYNO_OK)
            break;
    }
    free(keys);
    free(columns);
    free(values);
    return status;
}

static dyno_status read_status(place at, const json_t *object, results_cell *cell) {
    const char *name, *reason;
    RETURN_IF_FAILED(read_text(at, object, "status", &name));
    RETURN_IF_FAILED(read_text(at, object, "reason", &reason));
    for (results_status status = RESULTS_INCOMPLETE; status <= RESULTS_FAILED; status++)
        if (strcmp(name, results_status_name(status)) == 0) {
            cell_set_status(cell, status, reason);
            return DYNO_OK;
        }
    return dyno_fail(DYNO_CORRUPT,
                     "%s is not a run of dyno: cell %lld: unknown status '%s'; "
                     "known are OK, OOM, SKIP, FAILED and INCOMPLETE",
                     at.what, (long long)at.cell, name);
}

static dyno_status read_cell(place at, const json_t *object, results_cell *cell) {
    if (!json_is_object(object))
        return wrong(at, "cells", object, "an array of objects");
    json_t *parameters, *metrics, *samples, *breakdowns = NULL;
    RETURN_IF_FAILED(read_member(at, object, "parameters", JSON_OBJECT, "an object", &parameters));
    RETURN_IF_FAILED(read_member(at, object, "metrics", JSON_OBJECT, "an object", &metrics));
    RETURN_IF_FAILED(read_member(at, object, "samples", JSON_OBJECT, "an object", &samples));
    if (json_object_get(object, "breakdowns"))
        RETURN_IF_FAILED(
            read_member(at, object, "breakdowns", JSON_OBJECT, "an object", &breakdowns));
    RETURN_IF_FAILED(read_status(at, object, cell));
    RETURN_IF_FAILED(read_map(at, parameters, cell->strings, &cell->parameters));
    RETURN_IF_FAILED(read_metrics(at, metrics, cell));
    RETURN_IF_FAILED(read_samples(at, samples, cell));
    return breakdowns ? read_breakdowns(at, breakdowns, cell) : DYNO_OK;
}

static dyno_status check_version(place at, const json_t *root) {
    const json_t *format = json_object_get(root, "format");
    if (!json_is_string(format) || strcmp(json_string_value(format), FORMAT) != 0)
        return dyno_fail(DYNO_CORRUPT, "%s is not a run of dyno: its \"format\" is not \"%s\"",
                         at.what, FORMAT);
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return wrong(at, "version", version, "an integer from 1 up");
    if (json_integer_value(version) > RESULTS_VERSION)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "%s was written by a newer dyno: its format has version %lld, this "
                         "dyno (%s) reads up to %d; update dyno",
                         at.what, (long long)json_integer_value(version), dyno_version(),
                         RESULTS_VERSION);
    return DYNO_OK;
}

static dyno_status read_run(place at, const json_t *root, results *run) {
    const char *started;
    json_t *planned, *environment, *cells;
    const json_t *complete = json_object_get(root, "complete");
    RETURN_IF_FAILED(read_text(at, root, "started", &started));
    if (!json_is_boolean(complete))
        return wrong(at, "complete", complete, "true or false");
    RETURN_IF_FAILED(read_member(at, root, "planned_cells", JSON_INTEGER, "an integer", &planned));
    RETURN_IF_FAILED(read_member(at, root, "environment", JSON_OBJECT, "an object", &environment));
    RETURN_IF_FAILED(read_member(at, root, "cells", JSON_ARRAY, "an array", &cells));
    run->started = arena_copy_string(run->strings, started);
    run->is_complete = json_is_true(complete);
    run->planned_cells = json_integer_value(planned);
    RETURN_IF_FAILED(read_map(at, environment, run->strings, &run->environment));
    for (size_t i = 0; i < json_array_size(cells); i++) {
        at.cell = (int64_t)i;
        RETURN_IF_FAILED(read_cell(at, json_array_get(cells, i), results_add_cell(run)));
    }
    return DYNO_OK;
}

dyno_status results_from_json(const json_t *root, const char *what, results **out) {
    *out = NULL;
    place at = {what, -1};
    if (!json_is_object(root))
        return dyno_fail(DYNO_CORRUPT, "%s is not a run of dyno: the JSON is %s, not an object",
                         what, json_type_name(root));
    RETURN_IF_FAILED(check_version(at, root));
    const char *verb;
    json_t *argv;
    RETURN_IF_FAILED(read_text(at, root, "verb", &verb));
    RETURN_IF_FAILED(read_member(at, root, "argv", JSON_ARRAY, "an array", &argv));
    size_t argc = json_array_size(argv);
    const char **arguments = memory_allocate(argc, sizeof *arguments);
    dyno_status status = read_texts(at, "argv", argv, (int)argc, arguments);
    if (status == DYNO_OK) {
        results *run = results_create(verb, (int)argc, arguments);
        status = read_run(at, root, run);
        if (status == DYNO_OK)
            *out = run;
        else
            results_destroy(run);
    }
    free(arguments);
    return status;
}

dyno_status results_read(const char *path, results **out) {
    *out = NULL;
    struct stat status;
    bool is_directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    char *file = is_directory ? path_of_run(path) : memory_copy_string(path);
    json_t *root;
    dyno_status result = json_read_file(file, &root);
    if (result == DYNO_OK) {
        char *what = memory_allocate(strlen(file) + 3, 1);
        sprintf(what, "'%s'", file);
        result = results_from_json(root, what, out);
        free(what);
        json_decref(root);
    } else if (result == DYNO_NOT_FOUND && is_directory) {
        result = dyno_fail(DYNO_NOT_FOUND,
                           "'%s' has no run.json: it is not the output "
                           "directory of a run, or the run wrote nothing",
                           path);
    }
    free(file);
    return result;
}
