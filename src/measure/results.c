#define _POSIX_C_SOURCE 200809L
/* results.c - building a run in memory and looking things up in it; results_json.c is its
 * file.
 *
 * Every text lives in the run's arena. Cells, series and breakdowns are allocated one by one,
 * so that a pointer to one survives the arrival of the next. */
#include "measure/results.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

static const char *copy_text(arena *strings, const char *string) {
    char *copy = arena_copy_string(strings, string);
    json_t *probe = json_string(copy);
    if (!probe)
        for (char *p = copy; *p; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
    json_decref(probe);
    return copy;
}

static const char *now_as_iso_time(arena *strings) {
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32] = "";
    if (gmtime_r(&now, &parts))
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return arena_copy_string(strings, stamp);
}

results *results_create(const char *verb, int argc, const char *const *argv) {
    results *run = memory_allocate(1, sizeof *run);
    run->strings = arena_create();
    run->verb = copy_text(run->strings, verb);
    run->argc = argc;
    run->argv = memory_allocate((size_t)argc, sizeof *run->argv);
    for (int i = 0; i < argc; i++)
        run->argv[i] = copy_text(run->strings, argv[i]);
    run->started = now_as_iso_time(run->strings);
    return run;
}

static void free_rows(results_breakdown *breakdown) {
    for (int64_t i = 0; i < breakdown->row_count; i++) {
        free(breakdown->rows[i].keys);
        free(breakdown->rows[i].values);
    }
    breakdown->row_count = 0;
}

static void destroy_cell(results_cell *cell) {
    for (int i = 0; i < cell->series_count; i++) {
        free(cell->series[i]->integers);
        free(cell->series[i]);
    }
    for (int i = 0; i < cell->breakdown_count; i++) {
        results_breakdown *breakdown = cell->breakdowns[i];
        free_rows(breakdown);
        free(breakdown->rows);
        free(breakdown->keys);
        free(breakdown->columns);
        free(breakdown);
    }
    free(cell->parameters.entries);
    free(cell->metrics);
    free(cell->series);
    free(cell->breakdowns);
    free(cell);
}

void results_destroy(results *run) {
    if (!run)
        return;
    for (int64_t i = 0; i < run->cell_count; i++)
        destroy_cell(run->cells[i]);
    free(run->cells);
    free(run->environment.entries);
    free(run->argv);
    arena_destroy(run->strings);
    free(run);
}

results_cell *results_add_cell(results *run) {
    MEMORY_GROW(run->cells, run->cell_count, run->cell_capacity);
    results_cell *cell = memory_allocate(1, sizeof *cell);
    cell->strings = run->strings;
    cell->reason = "";
    return run->cells[run->cell_count++] = cell;
}

results_value results_integer(int64_t value) {
    return (results_value){.kind = RESULTS_INTEGER, .integer = value};
}

results_value results_real(double value) {
    return (results_value){.kind = RESULTS_REAL, .real = value};
}

/* Maps say reals that JSON cannot hold in words; metrics and samples keep them as numbers. */
static results_value finite_or_text(double value) {
    if (isfinite(value))
        return results_real(value);
    const char *word = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return (results_value){.kind = RESULTS_TEXT, .text = word};
}

void results_map_set(results_map *map, arena *strings, const char *key, results_value value) {
    if (value.kind == RESULTS_TEXT)
        value.text = copy_text(strings, value.text);
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0) {
            map->entries[i].value = value;
            return;
        }
    MEMORY_GROW(map->entries, map->count, map->capacity);
    map->entries[map->count++] = (results_entry){copy_text(strings, key), value};
}

void results_set_environment_text(results *run, const char *key, const char *value) {
    results_map_set(&run->environment, run->strings, key,
                    (results_value){.kind = RESULTS_TEXT, .text = value});
}

void results_set_environment_integer(results *run, const char *key, int64_t value) {
    results_map_set(&run->environment, run->strings, key, results_integer(value));
}

void results_set_environment_real(results *run, const char *key, double value) {
    results_map_set(&run->environment, run->strings, key, finite_or_text(value));
}

void cell_set_text(results_cell *cell, const char *key, const char *value) {
    results_map_set(&cell->parameters, cell->strings, key,
                    (results_value){.kind = RESULTS_TEXT, .text = value});
}

void cell_set_integer(results_cell *cell, const char *key, int64_t value) {
    results_map_set(&cell->parameters, cell->strings, key, results_integer(value));
}

void cell_set_real(results_cell *cell, const char *key, double value) {
    results_map_set(&cell->parameters, cell->strings, key, finite_or_text(value));
}

void cell_set_status(results_cell *cell, results_status status, const char *reason) {
    cell->status = status;
    cell->reason = reason ? copy_text(cell->strings, reason) : "";
}

static void set_metric(results_cell *cell, const char *name, const char *unit,
                       results_value value) {
    for (int i = 0; i < cell->metric_count; i++)
        if (strcmp(cell->metrics[i].name, name) == 0) {
            cell->metrics[i].unit = copy_text(cell->strings, unit);
            cell->metrics[i].value = value;
            return;
        }
    MEMORY_GROW(cell->metrics, cell->metric_count, cell->metric_capacity);
    cell->metrics[cell->metric_count++] =
        (results_metric){copy_text(cell->strings, name), copy_text(cell->strings, unit), value};
}

void cell_set_metric(results_cell *cell, const char *name, const char *unit, int64_t value) {
    set_metric(cell, name, unit, results_integer(value));
}

void cell_set_metric_real(results_cell *cell, const char *name, const char *unit, double value) {
    set_metric(cell, name, unit, results_real(value));
}

/* An existing series keeps the unit of its first sample; mixing units is a bug. */
results_series *cell_series(results_cell *cell, const char *name, const char *unit) {
    for (int i = 0; i < cell->series_count; i++)
        if (strcmp(cell->series[i]->name, name) == 0) {
            assert(strcmp(cell->series[i]->unit, unit) == 0);
            return cell->series[i];
        }
    MEMORY_GROW(cell->series, cell->series_count, cell->series_capacity);
    results_series *series = memory_allocate(1, sizeof *series);
    series->name = copy_text(cell->strings, name);
    series->unit = copy_text(cell->strings, unit);
    series->kind = RESULTS_INTEGER;
    return cell->series[cell->series_count++] = series;
}

static void series_become_real(results_series *series) {
    double *reals = memory_allocate((size_t)series->capacity, sizeof *reals);
    for (int64_t i = 0; i < series->count; i++)
        reals[i] = (double)series->integers[i];
    free(series->integers);
    series->reals = reals;
    series->kind = RESULTS_REAL;
}

void series_add(results_series *series, int64_t value) {
    if (series->kind == RESULTS_REAL) {
        series_add_real(series, (double)value);
        return;
    }
    MEMORY_GROW(series->integers, series->count, series->capacity);
    series->integers[series->count++] = value;
}

void series_add_real(results_series *series, double value) {
    if (series->kind == RESULTS_INTEGER)
        series_become_real(series);
    MEMORY_GROW(series->reals, series->count, series->capacity);
    series->reals[series->count++] = value;
}

void cell_add_sample(results_cell *cell, const char *name, const char *unit, int64_t value) {
    series_add(cell_series(cell, name, unit), value);
}

void cell_add_sample_real(results_cell *cell, const char *name, const char *unit, double value) {
    series_add_real(cell_series(cell, name, unit), value);
}

results_breakdown *cell_add_breakdown(results_cell *cell, const char *name, const char *const *keys,
                                      int key_count, const results_column *columns,
                                      int column_count) {
    for (int i = 0; i < cell->breakdown_count; i++)
        if (strcmp(cell->breakdowns[i]->name, name) == 0) {
            results_breakdown *old = cell->breakdowns[i];
            assert(old->key_count == key_count && old->column_count == column_count);
            free_rows(old);
            return old;
        }
    MEMORY_GROW(cell->breakdowns, cell->breakdown_count, cell->breakdown_capacity);
    results_breakdown *breakdown = memory_allocate(1, sizeof *breakdown);
    breakdown->strings = cell->strings;
    breakdown->name = copy_text(cell->strings, name);
    breakdown->key_count = key_count;
    breakdown->column_count = column_count;
    breakdown->keys = memory_allocate((size_t)key_count, sizeof *breakdown->keys);
    breakdown->columns = memory_allocate((size_t)column_count, sizeof *breakdown->columns);
    for (int i = 0; i < key_count; i++)
        breakdown->keys[i] = copy_text(cell->strings, keys[i]);
    for (int i = 0; i < column_count; i++)
        breakdown->columns[i] = (results_column){copy_text(cell->strings, columns[i].name),
                                                 copy_text(cell->strings, columns[i].unit)};
    return cell->breakdowns[cell->breakdown_count++] = breakdown;
}

void breakdown_add_row(results_breakdown *breakdown, const char *const *keys,
                       const results_value *values) {
    MEMORY_GROW(breakdown->rows, breakdown->row_count, breakdown->row_capacity);
    results_row row = {.keys = memory_allocate((size_t)breakdown->key_count, sizeof *row.keys),
                       .values =
                           memory_allocate((size_t)breakdown->column_count, sizeof *row.values)};
    for (int i = 0; i < breakdown->key_count; i++)
        row.keys[i] = copy_text(breakdown->strings, keys[i]);
    for (int i = 0; i < breakdown->column_count; i++) {
        assert(values[i].kind != RESULTS_TEXT);
        row.values[i] = values[i];
    }
    breakdown->rows[breakdown->row_count++] = row;
}

const results_value *results_map_find(const results_map *map, const char *key) {
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return &map->entries[i].value;
    return NULL;
}

const results_value *results_find_environment(const results *run, const char *key) {
    return results_map_find(&run->environment, key);
}

const results_value *cell_find_parameter(const results_cell *cell, const char *key) {
    return results_map_find(&cell->parameters, key);
}

const results_metric *cell_find_metric(const results_cell *cell, const char *name) {
    for (int i = 0; i < cell->metric_count; i++)
        if (strcmp(cell->metrics[i].name, name) == 0)
            return &cell->metrics[i];
    return NULL;
}

const results_series *cell_find_series(const results_cell *cell, const char *name) {
    for (int i = 0; i < cell->series_count; i++)
        if (strcmp(cell->series[i]->name, name) == 0)
            return cell->series[i];
    return NULL;
}

const results_breakdown *cell_find_breakdown(const results_cell *cell, const char *name) {
    for (int i = 0; i < cell->breakdown_count; i++)
        if (strcmp(cell->breakdowns[i]->name, name) == 0)
            return cell->breakdowns[i];
    return NULL;
}

double results_number(const results_value *value) {
    if (!value || value->kind == RESULTS_TEXT)
        return NAN;
    return value->kind == RESULTS_INTEGER ? (double)value->integer : value->real;
}

double results_series_at(const results_series *series, int64_t index) {
    assert(index >= 0 && index < series->count);
    return series->kind == RESULTS_INTEGER ? (double)series->integers[index] : series->reals[index];
}

const char *results_status_name(results_status status) {
    switch (status) {
    case RESULTS_INCOMPLETE:
        return "INCOMPLETE";
    case RESULTS_OK:
        return "OK";
    case RESULTS_OOM:
        return "OOM";
    case RESULTS_SKIP:
        return "SKIP";
    case RESULTS_FAILED:
        return "FAILED";
    }
    return "?";
}

int64_t results_finished_cells(const results *run) {
    int64_t finished = 0;
    for (int64_t i = 0; i < run->cell_count; i++)
        finished += run->cells[i]->status != RESULTS_INCOMPLETE;
    return finished;
}
