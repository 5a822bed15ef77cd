/* view_allreduce.c - collectives alone: a row for each point of the grid, in the columns of nccl-tests,
 * and how time grows with bytes and with ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/collective_times.h"
#include "report/view.h"
#include "report/view_parts.h"

static const char *const IMPORTANCE[] = {
    "time_ms", "busbw_gb_s", "wrong",      "algbw_gb_s", "note", "speedup", "min_ms",
    "max_ms",  "count",      TABLE_OTHERS, "warmup_ms",  "reps", NULL};

/* ---- one row ---- */

/* Whether two cells differ in the parameter `except` only, and in how often they were repeated. */
static bool agree(const results_cell *a, const results_cell *b, const char *const *except) {
    for (int i = 0; i < a->parameters.count; i++) {
        const char *key = a->parameters.entries[i].key;
        if (strcmp(key, PARAM_REPS) == 0 || view_is_one_of(key, except))
            continue;
        const results_value *other = cell_find_parameter(b, key);
        if (!view_values_are_equal(&a->parameters.entries[i].value, other))
            return false;
    }
    return true;
}

/* How many times as fast as the first transport with the same sizes. */
static double speedup(const results *run, const results_cell *cell) {
    static const char *const except[] = {PARAM_TRANSPORT, PARAM_OPERANDS, NULL};
    for (int64_t i = 0; i < run->cell_count; i++)
        if (agree(cell, run->cells[i], except))
            return collective_time_ms(run->cells[i]) / collective_time_ms(cell);
    return NAN;
}

static void add_note(report_table *table, const results_cell *cell) {
    text note = {0};
    view_append_note(&note, cell);
    table_add_text(table, text_string(&note));
    text_release(&note);
}

static void add_row(const results *run, const view_list *parameters, bool has_speedup,
                    const results_cell *cell, report_table *table) {
    results_status status = cell->status == RESULTS_OK && !collective_is_timed(cell)
                                ? RESULTS_INCOMPLETE
                                : cell->status;
    statistics timed = status == RESULTS_OK ? collective_times_ms(cell, SERIES_RANK_PREFIX)
                                            : statistics_of_reals(NULL, 0);
    table_add_row(table);
    for (int i = 0; i < parameters->count; i++)
        view_add_value(table, cell_find_parameter(cell, parameters->names[i]));
    table_add_text(table, results_status_name(status));
    table_add_integer(table, (int64_t)view_metric(cell, METRIC_COUNT));
    view_add_three_digits(table, timed.median);
    view_add_three_digits(table, timed.min);
    view_add_three_digits(table, timed.max);
    table_add_real(table, collective_algorithm_gb_s(cell, timed.median), 2);
    table_add_real(table, collective_bus_gb_s(cell, timed.median), 2);
    if (has_speedup)
        table_add_real(table, speedup(run, cell), 2);
    view_add_value(table, cell_find_metric(cell, METRIC_WRONG)
                              ? &cell_find_metric(cell, METRIC_WRONG)->value
                              : NULL);
    view_add_three_digits(table, status == RESULTS_OK
                                     ? collective_times_ms(cell, SERIES_WARMUP_RANK_PREFIX).median
                                     : NAN);
    view_add_value(table, cell_find_parameter(cell, PARAM_REPS));
    add_note(table, cell);
}

/* ---- the table ---- */

static void add_columns(const results *run, const view_list *parameters, bool has_speedup,
                        report_table *table) {
    for (int i = 0; i < parameters->count; i++)
        view_add_parameter_column(run, parameters->names[i], parameters->names[i], table);
    table_add_setting(table, "status", "status", TABLE_LEFT);
    table_add_column(table, "count", "count", TABLE_RIGHT);
    table_add_column(table, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(table, "min_ms", "min ms", TABLE_RIGHT);
    table_add_column(table, "max_ms", "max ms", TABLE_RIGHT);
    table_add_column(table, "algbw_gb_s", "algbw GB/s", TABLE_RIGHT);
    table_add_column(table, "busbw_gb_s", "busbw GB/s", TABLE_RIGHT);
    if (has_speedup)
        table_add_column(table, "speedup", "x first", TABLE_RIGHT);
    table_add_column(table, "wrong", "#wrong", TABLE_RIGHT);
    table_add_column(table, "warmup_ms", "warm-up ms", TABLE_RIGHT);
    table_add_column(table, "reps", "reps", TABLE_RIGHT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    table_set_importance(table, IMPORTANCE);
}

static void add_table(const results *run, bool is_full, report_document *out) {
    static const char *const always[] = {PARAM_TRANSPORT, PARAM_RANKS, PARAM_BYTES, NULL};
    static const char *const never[] = {PARAM_REPS, PARAM_WARMUP, NULL};
    view_list parameters = {0};
    text title = {0};
    text_append(&title, "collectives");
    bool has_cells = run->cell_count > 0;
    if (has_cells)
        view_choose_parameters(run, is_full, always, never, &parameters, &title);
    bool has_speedup = has_cells && (view_parameter_varies(run, PARAM_TRANSPORT) ||
                                     view_parameter_varies(run, PARAM_OPERANDS));
    report_table *table = table_create(text_string(&title));
    add_columns(run, &parameters, has_speedup, table);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_row(run, &parameters, has_speedup, run->cells[i], table);
    table_add_note(table, "time: of a repetition the slowest rank's, of a row the median; warm-up "
                          "repetitions are another set of samples");
    table_add_note(table,
                   "algbw = bytes / time; busbw = algbw x 2(n-1)/n for all-reduce, x (n-1)/n "
                   "for reduce-scatter and all-gather, x 1 for broadcast, n being the ranks");
    table_add_note(table, "bytes and count are those of nccl-tests: the larger operand, and for "
                          "reduce-scatter and all-gather the elements of one rank's part");
    document_add_table(out, table);
    text_release(&title);
}

/* ---- growth ---- */

enum { MOST_POINTS = 64 };

typedef struct growth_curve {
    double x[MOST_POINTS], y[MOST_POINTS];
    int64_t count;
} growth_curve;

/* The cells that differ from this one in `along` only. */
static growth_curve curve_of(const results *run, const results_cell *cell, const char *along) {
    const char *const except[] = {along, PARAM_HOSTS, NULL};
    growth_curve curve = {.count = 0};
    for (int64_t i = 0; i < run->cell_count && curve.count < MOST_POINTS; i++)
        if (agree(cell, run->cells[i], except) && collective_is_timed(run->cells[i])) {
            curve.x[curve.count] = (double)collective_parameter(run->cells[i], along);
            curve.y[curve.count++] = collective_time_ms(run->cells[i]);
        }
    return curve;
}

static bool is_first_of_curve(const results *run, int64_t index, const char *along) {
    const char *const except[] = {along, PARAM_HOSTS, NULL};
    for (int64_t i = 0; i < index; i++)
        if (agree(run->cells[index], run->cells[i], except))
            return false;
    return true;
}

/* "shared all-reduce fp32, 2 ranks" or "..., 1000000 bytes" */
static void add_curve_name(const results_cell *cell, const char *other, report_table *table) {
    text name = {0};
    text_format(&name, "%s, operands %s, %s %s, ", view_text(cell, PARAM_TRANSPORT),
                view_text(cell, PARAM_OPERANDS), view_text(cell, PARAM_OP),
                view_text(cell, PARAM_TYPE));
    text_format(&name, "%lld %s", (long long)collective_parameter(cell, other), other);
    table_add_text(table, text_string(&name));
    text_release(&name);
}

static void add_growth(const results *run, const char *along, const char *other,
                       report_document *out) {
    char title[128];
    snprintf(title, sizeof title,
             "time grows as %s^k (least squares on the logarithms; with two points, the slope "
             "between them)",
             along);
    report_table *table = table_create(title);
    table_add_column(table, "curve", "curve", TABLE_LEFT);
    table_add_column(table, "points", "points", TABLE_RIGHT);
    table_add_column(table, "exponent", "k", TABLE_RIGHT);
    table_add_column(table, "last_exponent", "k of the last two", TABLE_RIGHT);
    for (int64_t i = 0; i < run->cell_count; i++) {
        if (!is_first_of_curve(run, i, along))
            continue;
        growth_curve curve = curve_of(run, run->cells[i], along);
        double k = statistics_growth_exponent(curve.x, curve.y, curve.count);
        if (isnan(k))
            continue;
        table_add_row(table);
        add_curve_name(run->cells[i], other, table);
        table_add_integer(table, curve.count);
        table_add_real(table, k, 2);
        table_add_real(
            table,
            statistics_growth_exponent(curve.x + curve.count - 2, curve.y + curve.count - 2, 2), 2);
    }
    if (table_row_count(table) > 0)
        document_add_table(out, table);
    else
        table_destroy(table);
}

void view_allreduce(const results *run, bool is_full, report_document *out) {
    add_table(run, is_full, out);
    add_growth(run, PARAM_BYTES, PARAM_RANKS, out);
    add_growth(run, PARAM_RANKS, PARAM_BYTES, out);
    view_add_interruption(run, out);
}
