/* results.h - the record of everything a run measured, kept on disk as DIR/run.json.
 *
 * Measuring writes it; tables, plots, CSV and comparison read it. Only what was observed is
 * stored: samples, counts, sizes. Means, rates and percentages are derived when shown.
 *
 *   run:   verb, arguments, environment, cells
 *   cell:  one point of a sweep: parameters, status, metrics, samples, breakdowns
 *
 * A run and all it holds belong to its owner; texts are copied in. Structures are open for
 * reading, the functions below write. Texts that are not UTF-8 (an argument can be) have their
 * foreign bytes replaced by '?', because JSON cannot hold them. */
#ifndef MEASURE_RESULTS_H
#define MEASURE_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { RESULTS_VERSION = 1 };

typedef enum results_kind { RESULTS_TEXT, RESULTS_INTEGER, RESULTS_REAL } results_kind;

typedef struct results_value {
    results_kind kind;
    const char *text; /* only the member that `kind` names is set */
    int64_t integer;
    double real;
} results_value;

typedef struct results_entry {
    const char *key;
    results_value value;
} results_entry;

/* Keys in the order they were first set. */
typedef struct results_map {
    results_entry *entries;
    int count, capacity;
} results_map;

/* A cell is INCOMPLETE until its measurement says otherwise. */
typedef enum results_status {
    RESULTS_INCOMPLETE, /* started or planned, not finished: nothing may be derived from it */
    RESULTS_OK,
    RESULTS_OOM,
    RESULTS_SKIP, /* not tried, for the reason given */
    RESULTS_FAILED
} results_status;

typedef struct results_metric {
    const char *name, *unit;
    results_value value; /* integer or real */
} results_metric;

/* Integers until a real sample joins them, reals from then on. */
typedef struct results_series {
    const char *name, *unit;
    results_kind kind;
    int64_t count, capacity;
    union {
        int64_t *integers;
        double *reals;
    };
} results_series;

typedef struct results_column {
    const char *name, *unit;
} results_column;

typedef struct results_row {
    const char **keys;     /* one text per key of the breakdown */
    results_value *values; /* one integer or real per column */
} results_row;

/* Where a total went, e.g. time per op class: keys {"class"}, columns {time ns, count, flops}. */
typedef struct results_breakdown {
    const char *name;
    const char **keys;
    results_column *columns;
    results_row *rows;
    int key_count, column_count;
    int64_t row_count, row_capacity;
    arena *strings; /* the run's */
} results_breakdown;

typedef struct results_cell {
    results_map parameters;
    results_status status;
    const char *reason; /* "" when there is nothing to say */
    results_metric *metrics;
    results_series **series;
    results_breakdown **breakdowns;
    int metric_count, metric_capacity;
    int series_count, series_capacity;
    int breakdown_count, breakdown_capacity;
    arena *strings; /* the run's */
} results_cell;

typedef struct results {
    const char *verb;
    const char **argv;
    int argc;
    const char *started;   /* ISO 8601, UTC */
    bool is_complete;      /* false until the verb says so: an interrupted run stays false */
    int64_t planned_cells; /* 0: as many as there are */
    results_map environment;
    results_cell **cells;
    int64_t cell_count, cell_capacity;
    arena *strings;
} results;

/* A run that starts now, not complete, with no cells. */
results *results_create(const char *verb, int argc, const char *const *argv);
void results_destroy(results *run);

/* The cell belongs to the run and stays where it is. */
results_cell *results_add_cell(results *run);

/* Setting a key again replaces its value. A real that is not finite becomes the text "nan",
 * "inf" or "-inf". */
void results_set_environment_text(results *run, const char *key, const char *value);
void results_set_environment_integer(results *run, const char *key, int64_t value);
void results_set_environment_real(results *run, const char *key, double value);

void cell_set_text(results_cell *cell, const char *key, const char *value);
void cell_set_integer(results_cell *cell, const char *key, int64_t value);
void cell_set_real(results_cell *cell, const char *key, double value);
/* `reason` may be NULL. */
void cell_set_status(results_cell *cell, results_status status, const char *reason);

void cell_set_metric(results_cell *cell, const char *name, const char *unit, int64_t value);
void cell_set_metric_real(results_cell *cell, const char *name, const char *unit, double value);
void cell_add_sample(results_cell *cell, const char *name, const char *unit, int64_t value);
void cell_add_sample_real(results_cell *cell, const char *name, const char *unit, double value);
/* The series of that name, made when there is none; it stays where it is. */
results_series *cell_series(results_cell *cell, const char *name, const char *unit);
void series_add(results_series *series, int64_t value);
void series_add_real(results_series *series, double value);

/* A new breakdown, or the one of that name (with the same shape) emptied. `keys` and `columns`
 * are copied. Rows then take exactly key_count texts and column_count numbers. */
results_breakdown *cell_add_breakdown(results_cell *cell, const char *name, const char *const *keys,
                                      int key_count, const results_column *columns,
                                      int column_count);
void breakdown_add_row(results_breakdown *breakdown, const char *const *keys,
                       const results_value *values);
results_value results_integer(int64_t value);
results_value results_real(double value);

/* Sets the value of `key` in the environment or in a cell's parameters; texts are copied to `strings`,
 * the run's. */
void results_map_set(results_map *map, arena *strings, const char *key, results_value value);

/* Each answers NULL when there is none of that name. */
const results_value *results_find_environment(const results *run, const char *key);
const results_value *results_map_find(const results_map *map, const char *key);
const results_value *cell_find_parameter(const results_cell *cell, const char *key);
const results_metric *cell_find_metric(const results_cell *cell, const char *name);
const results_series *cell_find_series(const results_cell *cell, const char *name);
const results_breakdown *cell_find_breakdown(const results_cell *cell, const char *name);

/* The number as a double; NAN for a text or NULL. */
double results_number(const results_value *value);
double results_series_at(const results_series *series, int64_t index);
/* "OK", "OOM", ... */
const char *results_status_name(results_status status);
/* Cells that came to an end, whichever: all but the INCOMPLETE ones. */
int64_t results_finished_cells(const results *run);

/* Writes DIRECTORY/run.json in one step: the old file or the new one, never half of one. The
 * directory must exist (file_make_output_directory). */
NODISCARD dyno_status results_write(const results *run, const char *directory);

/* Reads a run.json, or the one in a directory. The file may be anybody's: every field is
 * checked. On failure *out is NULL. */
NODISCARD dyno_status results_read(const char *path, results **out);

#endif
