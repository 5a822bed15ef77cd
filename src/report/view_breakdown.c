/* view_breakdown.c - a cell's steps, and where their time went: one row a class or scope, and the
 * total.
 *
 * Percentages are rounded together (largest remainder), so that the column as printed adds up
 * to 100.0 and not to 99.9. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view.h"
#include "report/view_parts.h"

enum { TENTHS = 1000 }; /* of a percent, in the whole */

static int column_index(const results_breakdown *breakdown, const char *name) {
    for (int i = 0; i < breakdown->column_count; i++)
        if (strcmp(breakdown->columns[i].name, name) == 0)
            return i;
    return -1;
}

static double value_at(const results_breakdown *breakdown, int64_t row, int column) {
    return column < 0 ? (double)NAN : results_number(&breakdown->rows[row].values[column]);
}

static double total_of(const results_breakdown *breakdown, int column) {
    double total = 0;
    for (int64_t i = 0; i < breakdown->row_count; i++)
        total += value_at(breakdown, i, column);
    return total;
}

typedef struct remainder_of_row {
    double remainder;
    int64_t row;
} remainder_of_row;

static int largest_first(const void *a, const void *b) {
    const remainder_of_row *x = a, *y = b;
    if (x->remainder < y->remainder || x->remainder > y->remainder)
        return x->remainder < y->remainder ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Tenths of a percent for each row, summing to 1000; NULL when the times do not add up to
 * something positive. */
static int *share_tenths(const results_breakdown *breakdown, int column, double total) {
    if (!(total > 0) || !isfinite(total))
        return NULL;
    int64_t rows = breakdown->row_count;
    int *tenths = memory_allocate((size_t)rows, sizeof *tenths);
    remainder_of_row *order = memory_allocate((size_t)rows, sizeof *order);
    int given = 0;
    for (int64_t i = 0; i < rows; i++) {
        double exact = value_at(breakdown, i, column) / total * TENTHS;
        if (!(exact >= 0 && exact <= TENTHS)) {
            free(tenths);
            free(order);
            return NULL;
        }
        tenths[i] = (int)floor(exact);
        given += tenths[i];
        order[i] = (remainder_of_row){exact - tenths[i], i};
    }
    qsort(order, (size_t)rows, sizeof *order, largest_first);
    for (int64_t i = 0; i < rows && given < TENTHS; i++, given++)
        tenths[order[i].row]++;
    free(order);
    return tenths;
}

/* What the columns with a meaning are, and where. */
typedef struct known_columns {
    int time, count, flops, bytes;
    int running; /* where several ran at once: how long, with rates from that */
    double ms;   /* in one of the time column's unit */
} known_columns;

static known_columns find_columns(const results_breakdown *breakdown) {
    known_columns known = {
        column_index(breakdown, COLUMN_TIME),    column_index(breakdown, COLUMN_COUNT),
        column_index(breakdown, COLUMN_FLOPS),   column_index(breakdown, COLUMN_BYTES),
        column_index(breakdown, COLUMN_RUNNING), NAN};
    if (known.time >= 0)
        known.ms = view_ms_per_unit(breakdown->columns[known.time].unit);
    if (isnan(known.ms))
        known.time = -1;
    if (known.time < 0 || known.running < 0 ||
        strcmp(breakdown->columns[known.running].unit, breakdown->columns[known.time].unit) != 0)
        known.running = -1;
    return known;
}

static bool is_known(known_columns known, int column) {
    return column == known.time || column == known.count ||
           (known.time >= 0 &&
            (column == known.flops || column == known.bytes || column == known.running));
}

static void add_number(report_table *table, double value) {
    bool is_whole = value >= floor(value) && value <= floor(value) && fabs(value) < 0x1p53;
    if (is_whole)
        table_add_integer(table, (int64_t)value);
    else
        table_add_real(table, value, 3);
}

/* `row` is -1 for the total. */
static void add_numbers(report_table *table, const results_breakdown *breakdown,
                        known_columns known, int64_t row, const int *tenths) {
#define NUMBER(column)                                                                             \
    ((column) < 0 ? (double)NAN                                                                    \
     : row < 0    ? total_of(breakdown, column)                                                    \
                  : value_at(breakdown, row, column))
    if (known.time >= 0) {
        double seconds = NUMBER(known.time) * known.ms / 1e3;
        double running = known.running < 0 ? seconds : NUMBER(known.running) * known.ms / 1e3;
        double rate = running > 0 ? 1 / running / 1e9 : (double)NAN;
        table_add_real(table, seconds * 1e3, 3);
        if (tenths)
            table_add_real(table, (row < 0 ? TENTHS : tenths[row]) / 10.0, 1);
        else
            table_add_empty(table);
        if (known.running >= 0)
            table_add_real(table, running * 1e3, 3);
        if (known.count >= 0)
            add_number(table, NUMBER(known.count));
        if (known.flops >= 0)
            table_add_real(table, NUMBER(known.flops) * rate, 1);
        if (known.bytes >= 0)
            table_add_real(table, NUMBER(known.bytes) * rate, 1);
    } else if (known.count >= 0) {
        add_number(table, NUMBER(known.count));
    }
    for (int i = 0; i < breakdown->column_count; i++) {
        if (is_known(known, i))
            continue;
        /* Whether a column of another name (a median, a maximum) may be summed is not known. */
        if (row < 0 && i != known.flops && i != known.bytes)
            table_add_empty(table);
        else
            add_number(table, NUMBER(i));
    }
#undef NUMBER
}

/* How the device spent the recorded steps. */
static void note_device(report_table *table, const results_cell *cell) {
    double span = view_metric(cell, METRIC_DEVICE_SPAN_NS),
           busy = view_metric(cell, METRIC_DEVICE_BUSY_NS);
    double between = view_metric(cell, METRIC_BETWEEN_STEPS_NS),
           unseen = view_metric(cell, METRIC_LAUNCHES_UNSEEN);
    if (!(span > 0))
        return;
    table_add_note(table,
                   "from the GPU's activity records (CUPTI) of replayed steps; running: how long "
                   "launches ran, and what rates are of; time: the same with overlap divided "
                   "among those that ran");
    table_add_note(table,
                   "the GPU is busy %.3f of %.3f ms, idle %.2f %%, from a step's first launch to "
                   "its last%s",
                   busy / 1e6, span / 1e6, 100 * (1 - busy / span),
                   unseen > 0 ? "; launches without a record are not in it" : "");
    if (!isnan(between))
        table_add_note(table,
                       "%.1f us from a step's last launch to the next step's first, with the "
                       "host's cost of recording",
                       between / 1e3);
}

/* Traced steps are other steps than the timed ones; how they compare is part of the answer. */
static void note_overhead(report_table *table, const results_cell *cell) {
    const results_metric *traced = cell_find_metric(cell, METRIC_TRACED_STEP_NS);
    const results_series *timed = cell_find_series(cell, SERIES_STEP);
    if (!traced || !timed || !timed->count)
        return;
    double with = results_number(&traced->value) / 1e6;
    double without = statistics_of_series(timed).mean * view_ms_per_unit(timed->unit);
    if (with >= without)
        table_add_note(table, "mean step traced %.3f ms, untraced %.3f ms: tracing costs %.1f %%",
                       with, without, 100 * (with / without - 1));
    else
        table_add_note(table,
                       "mean step traced %.3f ms, untraced %.3f ms: steps differ by more than "
                       "tracing costs",
                       with, without);
    /* Untraced launches of a GPU overlap at their begins and ends. */
    const results_metric *launches = cell_find_metric(cell, METRIC_IN_LAUNCHES_NS);
    const results_value *device = cell_find_parameter(cell, PARAM_DEVICE);
    if (!launches || !device || device->kind != RESULTS_TEXT || strcmp(device->text, "cpu") == 0)
        return;
    double running = results_number(&launches->value) / 1e6;
    table_add_note(table,
                   "launches take %.3f ms one by one, the untraced step %.3f ms: %+.1f %% of it "
                   "is between launches",
                   running, without, 100 * (1 - running / without));
    table_add_note(table, "times are between events around each launch, which cost 2 to 3 us; "
                          "with CUPTI (dyno doctor) they are the GPU's activity records");
}

/* What a title says, for files, which have none: every row names its breakdown and its cell. */
static void add_cell_columns(const results_cell *cell, report_table *table) {
    table_add_column(table, "breakdown", "breakdown", TABLE_LEFT);
    for (int i = 0; i < cell->parameters.count; i++)
        table_add_column(table, cell->parameters.entries[i].key, cell->parameters.entries[i].key,
                         TABLE_LEFT);
}

static void add_row_of(const results_cell *cell, const results_breakdown *breakdown, bool is_full,
                       report_table *table) {
    table_add_row(table);
    if (!is_full)
        return;
    table_add_text(table, breakdown->name);
    for (int i = 0; i < cell->parameters.count; i++)
        view_add_value(table, &cell->parameters.entries[i].value);
}

report_table *view_create_breakdown_table(const results_cell *cell,
                                          const results_breakdown *breakdown, bool is_full) {
    text label = {0};
    text_format(&label, "%s: ", breakdown->name);
    view_describe_cell(cell, &label);
    report_table *table = table_create(text_string(&label));
    known_columns known = find_columns(breakdown);
    if (is_full)
        add_cell_columns(cell, table);
    for (int i = 0; i < breakdown->key_count; i++)
        table_add_column(table, breakdown->keys[i], breakdown->keys[i], TABLE_LEFT);
    if (known.time >= 0) {
        table_add_column(table, "time_ms", "time ms", TABLE_RIGHT);
        table_add_column(table, "percent", "%", TABLE_RIGHT);
    }
    if (known.running >= 0)
        table_add_column(table, "running_ms", "running ms", TABLE_RIGHT);
    if (known.count >= 0)
        table_add_column(table, "count", "count", TABLE_RIGHT);
    if (known.time >= 0 && known.flops >= 0)
        table_add_column(table, "gflops", "GFLOP/s", TABLE_RIGHT);
    if (known.time >= 0 && known.bytes >= 0)
        table_add_column(table, "gb_per_s", "GB/s", TABLE_RIGHT);
    for (int i = 0; i < breakdown->column_count; i++)
        if (!is_known(known, i)) {
            label.length = 0;
            text_format(&label, "%s %s", breakdown->columns[i].name, breakdown->columns[i].unit);
            table_add_column(table, breakdown->columns[i].name, text_string(&label), TABLE_RIGHT);
        }
    text_release(&label);
    int *tenths = known.time >= 0
                      ? share_tenths(breakdown, known.time, total_of(breakdown, known.time))
                      : NULL;
    for (int64_t i = 0; i < breakdown->row_count; i++) {
        add_row_of(cell, breakdown, is_full, table);
        for (int j = 0; j < breakdown->key_count; j++)
            table_add_text(table, breakdown->rows[i].keys[j]);
        add_numbers(table, breakdown, known, i, tenths);
    }
    table_add_rule(table);
    add_row_of(cell, breakdown, is_full, table);
    for (int j = 0; j < breakdown->key_count; j++)
        table_add_text(table, j ? "" : "total");
    add_numbers(table, breakdown, known, -1, tenths);
    free(tenths);
    if (strcmp(breakdown->name, BREAKDOWN_BY_PHASE) == 0)
        view_note_split_launches(cell, table);
    note_device(table, cell);
    note_overhead(table, cell);
    return table;
}

static void add_bars(const results_breakdown *breakdown, report_document *out) {
    known_columns known = find_columns(breakdown);
    if (known.time < 0 || breakdown->key_count == 0)
        return;
    plot_bar *bars = document_add_bars(out, "ms", breakdown->row_count);
    for (int64_t i = 0; i < breakdown->row_count; i++)
        bars[i] = (plot_bar){breakdown->rows[i].keys[breakdown->key_count - 1],
                             value_at(breakdown, i, known.time) * known.ms};
}

static void add_steps(const results_cell *cell, report_document *out) {
    const results_series *steps = view_whole_steps(cell),
                         *warmup = cell_find_series(cell, SERIES_WARMUP);
    if (view_steps_status(cell) != RESULTS_OK || isnan(view_ms_per_unit(steps->unit)))
        return;
    if (warmup && strcmp(warmup->unit, steps->unit) != 0)
        warmup = NULL;
    int64_t first = warmup ? warmup->count : 0, count = first + steps->count;
    text title = {0};
    view_describe_cell(cell, &title);
    double *values = document_add_curve(out, text_string(&title), "ms per step", count, first);
    for (int64_t i = 0; i < count; i++)
        values[i] =
            view_ms_per_unit(steps->unit) *
            (i < first ? results_series_at(warmup, i) : results_series_at(steps, i - first));
    text_release(&title);
}

void view_add_cells(const results *run, bool is_full, report_document *out) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        add_steps(cell, out);
        for (int j = 0; j < cell->breakdown_count && cell->status == RESULTS_OK; j++) {
            static const char *const elsewhere[] = {BREAKDOWN_MEMORY_STAGES, BREAKDOWN_BY_RANK,
                                                    NULL}; /* or only in the record */
            if (view_is_one_of(cell->breakdowns[j]->name, elsewhere))
                continue;
            document_add_table(out,
                               view_create_breakdown_table(cell, cell->breakdowns[j], is_full));
            add_bars(cell->breakdowns[j], out);
        }
    }
}
