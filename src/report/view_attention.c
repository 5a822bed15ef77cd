/* view_attention.c - attention alone: a row for each point of the grid. view_growth.c has how time
 * grows along them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/keys.h"
#include "report/attention_table_rows.h"
#include "report/view.h"
#include "report/view_parts.h"

/* Of columns, where a terminal has no room for all. */
static const char *const IMPORTANCE[] = {"end_to_end_ms",
                                         "forward_ms",
                                         "backward_ms",
                                         "note",
                                         "best",
                                         "peak_mib",
                                         "end_to_end_speedup",
                                         "end_to_end_tflops",
                                         "forward_speedup",
                                         "backward_speedup",
                                         "before_backward_mib",
                                         "forward_tflops",
                                         "backward_tflops",
                                         TABLE_OTHERS,
                                         "launches",
                                         "reps",
                                         NULL};

typedef struct attention_view {
    const results *run;
    report_table *table;
    attention_table_rows all;
    view_list parameters; /* that have a column */
    bool has_time[ATTENTION_TIME_COUNT];
    const char *compared;            /* the parameter that speed-ups compare; NULL: none */
    bool has_tiles, has_tile_choice; /* a column for them; several at the same sizes */
    bool has_peak;                   /* it was measured: columns of MFU and HFU */
    bool is_full;                    /* every column: CSV */
} attention_view;

/* How many times as fast as the run's first impl in the same mode; of one impl, as its first mode
 * with the same tile. */
static double row_speedup(const attention_view *view, const attention_table_row *row, int which) {
    const char *except[] = {view->compared,
                            strcmp(view->compared, PARAM_IMPL) == 0 ? PARAM_TILE : NULL, NULL};
    const results_value *wanted =
        cell_find_parameter(attention_table_row_cell(&view->all.rows[0]), view->compared);
    for (int64_t i = 0; i < view->all.count; i++) {
        const attention_table_row *other = &view->all.rows[i];
        if (view_values_are_equal(
                wanted, cell_find_parameter(attention_table_row_cell(other), view->compared)) &&
            attention_table_rows_agree(row, other, except))
            return attention_table_row_time(other, which).median /
                   attention_table_row_time(row, which).median;
    }
    return (double)NAN;
}

/* Whether no row of the same but for the tile is faster. Where only some rows have a time of their tile
 * end-to-end, none is the best. */
static bool is_best_tile(const attention_view *view, const attention_table_row *row, int which) {
    static const char *const except[] = {PARAM_TILE, NULL};
    double ms = attention_table_row_time(row, which).median;
    if (!(ms > 0) || !cell_find_parameter(attention_table_row_cell(row), PARAM_TILE))
        return false;
    for (int64_t i = 0; i < view->all.count; i++)
        if (attention_table_rows_agree(row, &view->all.rows[i], except) &&
            (attention_table_row_time(&view->all.rows[i], which).median < ms ||
             (which == ATTENTION_END_TO_END && attention_table_row_is_mixed(&view->all.rows[i]))))
            return false;
    return true;
}

/* "64x128", or "auto: 128x128/64x128" with what forward and backward took. */
static void add_tile(report_table *table, const attention_table_row *row) {
    const results_cell *cell = row->whole ? row->whole : row->forward;
    const results_value *asked = cell_find_parameter(cell, PARAM_TILE);
    const results_value *used = cell_find_parameter(cell, PARAM_TILES_USED);
    text shown = {0};
    if (asked)
        view_append_value(&shown, asked);
    if (used && attention_cell_has_text(cell, PARAM_TILE, "auto")) {
        text_append(&shown, ": ");
        view_append_value(&shown, used);
    }
    table_add_text(table, text_string(&shown));
    text_release(&shown);
}

static void add_best(const attention_view *view, const attention_table_row *row) {
    text best = {0};
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++)
        if (is_best_tile(view, row, i))
            text_format(&best, "%s%s", best.length ? ", " : "", attention_time_name(i));
    table_add_text(view->table, text_string(&best));
    text_release(&best);
}

static void add_status(report_table *table, const attention_table_row *row) {
    if (!row->forward || !row->whole ||
        attention_status(row->forward) == attention_status(row->whole)) {
        table_add_text(table, results_status_name(attention_status(attention_table_row_cell(row))));
        return;
    }
    table_add_format(table, "forward %s, backward %s",
                     results_status_name(attention_status(row->forward)),
                     results_status_name(attention_status(row->whole)));
}

/* What both passes say is said once. */
static void add_note(report_table *table, const attention_table_row *row) {
    text forward = {0}, whole = {0}, both = {0};
    if (row->forward)
        view_append_note(&forward, row->forward);
    if (row->whole)
        view_append_note(&whole, row->whole);
    bool is_same = strcmp(text_string(&forward), text_string(&whole)) == 0;
    if (forward.length)
        text_format(&both, "%s%s", row->whole && !is_same ? "forward: " : "",
                    text_string(&forward));
    if (whole.length && !is_same)
        text_format(&both, "%s%s%s", forward.length ? "; " : "",
                    row->forward ? "forward+backward: " : "", text_string(&whole));
    table_add_text(table, text_string(&both));
    text_release(&forward);
    text_release(&whole);
    text_release(&both);
}

static int64_t count_reps(const results_cell *cell) {
    return attention_is_ok(cell) ? cell_find_series(cell, SERIES_STEP)->count : 0;
}

/* "100", or "100 + 12" where the passes differ. */
static void add_reps(const attention_view *view, const attention_table_row *row) {
    int64_t forward = count_reps(row->forward), whole = count_reps(row->whole);
    if (view->is_full) {
        table_add_integer(view->table, forward);
        table_add_integer(view->table, whole);
    } else if (!forward && !whole) {
        table_add_empty(view->table);
    } else if (forward == whole || !forward || !whole) {
        table_add_integer(view->table, forward ? forward : whole);
    } else {
        table_add_format(view->table, "%lld + %lld", (long long)forward, (long long)whole);
    }
}

/* Whether this time has columns: files have them all, people those that were asked for. */
static bool shows_time(const attention_view *view, int which) {
    return view->is_full || view->has_time[which];
}

static bool shows_utilization(const attention_view *view) {
    return view->is_full || view->has_peak;
}

/* Of the runs of both passes where the table has any, else of those of the forward, as the note says:
 * a tile that only the forward has is no exception. */
static void add_utilization(const attention_view *view, const attention_table_row *row) {
    const results_cell *last = row->whole ? row->whole : row->forward;
    int which = view->has_time[ATTENTION_END_TO_END] ? ATTENTION_END_TO_END : ATTENTION_FORWARD;
    double seconds = attention_table_row_time(row, which).median / 1e3;
    double peak = view_peak_gflops(view->run, last);
    table_add_real(view->table,
                   view_utilization(view_metric(last, METRIC_MODEL_FLOPS), seconds, peak), 1);
    table_add_real(view->table, view_utilization(view_metric(last, METRIC_FLOPS), seconds, peak),
                   1);
}

static void add_row(const attention_view *view, const attention_table_row *row) {
    report_table *table = view->table;
    const results_cell *cell = attention_table_row_cell(row);
    table_add_row(table);
    for (int i = 0; i < view->parameters.count; i++)
        view_add_value(table, cell_find_parameter(cell, view->parameters.names[i]));
    if (view->has_tiles)
        add_tile(table, row);
    if (view->has_tile_choice)
        add_best(view, row);
    add_status(table, row);
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++) {
        statistics s = attention_table_row_time(row, i);
        if (shows_time(view, i))
            view_add_three_digits(table, s.median);
        if (view->is_full)
            view_add_three_digits(table, s.std);
    }
    add_reps(view, row);
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++)
        if (shows_time(view, i))
            view_add_three_digits(table, attention_table_row_tflops(row, i));
    if (shows_utilization(view))
        add_utilization(view, row);
    for (int i = 0; i < ATTENTION_TIME_COUNT && view->compared; i++)
        if (shows_time(view, i))
            table_add_real(table, row_speedup(view, row, i), 2);
    for (int i = 0; i < ATTENTION_TIME_COUNT && view->is_full; i++) {
        attention_growth growth = attention_growth_of(&view->all, row, i);
        table_add_real(table, growth.fit, 2);
        table_add_real(table, growth.at_end, 2);
    }
    const results_cell *last = row->whole ? row->whole : row->forward;
    table_add_real(table, view_metric(last, METRIC_LAUNCHES), 0);
    if (shows_time(view, ATTENTION_BACKWARD))
        table_add_real(table, view_metric(last, METRIC_BEFORE_BACKWARD_BYTES) / 0x1p20, 1);
    table_add_real(
        table, attention_is_ok(last) ? view_metric(last, METRIC_PEAK_BYTES) / 0x1p20 : (double)NAN,
        1);
    table_add_real(table, view_metric(last, METRIC_PREDICTED_BYTES) / 0x1p20, 1);
    if (view->is_full)
        table_add_real(table, view_metric(last, METRIC_FIRST_STEP_NS) / 1e6, 3);
    add_note(table, row);
}

/* "end_to_end_ms", "end-to-end ms" */
static void add_time_column(const attention_view *view, int which, const char *key,
                            const char *header) {
    static const char *const keys[ATTENTION_TIME_COUNT] = {"forward", "backward", "end_to_end"};
    char whole_key[48], whole_header[48];
    snprintf(whole_key, sizeof whole_key, "%s_%s", keys[which], key);
    snprintf(whole_header, sizeof whole_header, "%s %s", attention_time_name(which), header);
    table_add_column(view->table, whole_key, whole_header, TABLE_RIGHT);
}

static void add_parameter_columns(const attention_view *view) {
    for (int i = 0; i < view->parameters.count; i++) {
        const char *name = view->parameters.names[i];
        const char *header = strcmp(name, PARAM_SEQ) == 0        ? "seq tokens"
                             : strcmp(name, PARAM_HEAD_DIM) == 0 ? "head size"
                                                                 : name;
        view_add_parameter_column(view->run, name, header, view->table);
    }
    if (view->has_tiles)
        table_add_setting(view->table, "tile", "tile", TABLE_LEFT);
    if (view->has_tile_choice)
        table_add_column(view->table, "best", "best tile", TABLE_LEFT);
}

/* In the order of add_row. */
static void add_columns(const attention_view *view) {
    report_table *table = view->table;
    add_parameter_columns(view);
    table_add_setting(table, "status", "status", TABLE_LEFT);
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++) {
        if (shows_time(view, i))
            add_time_column(view, i, "ms", "ms");
        if (view->is_full)
            add_time_column(view, i, "std_ms", "std ms");
    }
    if (view->is_full) {
        add_time_column(view, ATTENTION_FORWARD, "reps", "reps");
        add_time_column(view, ATTENTION_BACKWARD, "reps", "reps");
    } else {
        table_add_column(table, "reps", "reps", TABLE_RIGHT);
    }
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++)
        if (shows_time(view, i))
            add_time_column(view, i, "tflops", "TFLOP/s");
    if (shows_utilization(view)) {
        table_add_column(table, "mfu_percent", "MFU %", TABLE_RIGHT);
        table_add_column(table, "hfu_percent", "HFU %", TABLE_RIGHT);
    }
    for (int i = 0; i < ATTENTION_TIME_COUNT && view->compared; i++)
        if (shows_time(view, i))
            add_time_column(view, i, "speedup", "speed-up");
    for (int i = 0; i < ATTENTION_TIME_COUNT && view->is_full; i++) {
        add_time_column(view, i, "growth", "growth");
        add_time_column(view, i, "growth_at_end", "growth at the end");
    }
    table_add_column(table, "launches", "launches", TABLE_RIGHT);
    if (shows_time(view, ATTENTION_BACKWARD))
        table_add_column(table, "before_backward_mib", "before backward MiB", TABLE_RIGHT);
    table_add_column(table, "peak_mib", "peak MiB", TABLE_RIGHT);
    table_add_column(table, "predicted_mib", "predicted MiB", TABLE_RIGHT);
    if (view->is_full)
        table_add_column(table, "first_run_ms", "first run ms", TABLE_RIGHT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    table_set_importance(table, IMPORTANCE);
}

static void find_tiles(attention_view *view) {
    static const char *const except[] = {PARAM_TILE, NULL};
    for (int64_t i = 0; i < view->all.count; i++) {
        const attention_table_row *row = &view->all.rows[i];
        const results_value *tile = cell_find_parameter(attention_table_row_cell(row), PARAM_TILE);
        view->has_tiles = view->has_tiles || tile;
        for (int64_t j = 0; j < i && tile && !view->has_tile_choice; j++) {
            const attention_table_row *other = &view->all.rows[j];
            const results_value *its_tile =
                cell_find_parameter(attention_table_row_cell(other), PARAM_TILE);
            view->has_tile_choice = its_tile && attention_table_rows_agree(row, other, except) &&
                                    !view_values_are_equal(tile, its_tile);
        }
    }
}

/* "speed-up: against naive in the same mode, precision and sizes" */
static void note_speedup(const attention_view *view) {
    const results_cell *first = attention_table_row_cell(&view->all.rows[0]);
    bool is_mode = strcmp(view->compared, PARAM_MODE) == 0;
    const results_value *way = cell_find_parameter(first, view->compared);
    if (!way)
        return;
    text shown = {0};
    view_append_value(&shown, way);
    table_add_note(view->table, "speed-up: against %s in the same %sprecision and sizes",
                   text_string(&shown), is_mode ? "" : "mode, ");
    text_release(&shown);
}

/* Once, however many rows are. */
static void note_mixed(const attention_view *view) {
    for (int64_t i = 0; i < view->all.count; i++)
        if (attention_table_row_is_mixed(&view->all.rows[i])) {
            table_add_note(view->table,
                           "no end-to-end where the runs of both passes had another tile forward "
                           "than the row's: forward and backward of a tile are timed apart, each "
                           "with the other one's own tile; --tiles FORWARD/BACKWARD times a pair");
            return;
        }
}

static void note_split_products(const attention_view *view) {
    if (attention_has_split_products(view->run))
        table_add_note(view->table,
                       "flash in fp32 multiplies on tensor cores, from sm_80 on: three tf32 "
                       "products each, so that it can be faster than the peak of fp32, which "
                       "is of FMAs");
}

static void add_notes(const attention_view *view) {
    report_table *table = view->table;
    table_add_note(table, "times are medians, each measured: forward in runs of the forward alone, "
                          "backward and end-to-end in runs of both; warm-up is in none");
    if (view->has_time[ATTENTION_BACKWARD])
        table_add_note(table,
                       "before backward: bytes in use when the backward begins, from the plan");
    table_add_note(table,
                   "TFLOP/s: 4 x batch x heads x seq^2 x head size forward, half of it if causal, "
                   "2.5 times that backward, for every implementation / the median");
    view_note_utilization(view->run,
                          view->has_time[ATTENTION_END_TO_END] ? "end-to-end time" : "forward time",
                          table);
    note_split_products(view);
    if (view->has_tile_choice)
        table_add_note(table, "tile: queries x keys; best tile: fastest of those at the same "
                              "sizes, by the median");
    note_mixed(view);
    if (view->compared)
        note_speedup(view);
    view_note_contention(view->run, table);
}

report_table *view_create_attention_table(const results *run, bool is_full) {
    attention_view view = {.run = run, .all = attention_table_rows_of(run), .is_full = is_full};
    view.has_peak = view_has_peak(run);
    for (int i = 0; i < ATTENTION_TIME_COUNT; i++)
        view.has_time[i] = attention_table_rows_have_time(&view.all, i);
    if (run->cell_count)
        view.compared = view_parameter_varies(run, PARAM_IMPL)   ? PARAM_IMPL
                        : view_parameter_varies(run, PARAM_MODE) ? PARAM_MODE
                                                                 : NULL;
    find_tiles(&view);
    /* The axes of the sweep have a column whether they vary or not. */
    static const char *const always[] = {PARAM_MODE, PARAM_MATH, PARAM_SEQ, PARAM_HEAD_DIM, NULL};
    static const char *const never[] = {PARAM_PASS, PARAM_REPS, PARAM_TILE, PARAM_TILES_USED, NULL};
    text title = {0};
    view_append_origin(run, &title);
    view_choose_parameters(run, is_full, always, never, &view.parameters, &title);
    view.table = table_create(text_string(&title));
    text_release(&title);
    add_columns(&view);
    for (int64_t i = 0; i < view.all.count; i++)
        add_row(&view, &view.all.rows[i]);
    add_notes(&view);
    attention_table_rows_release(&view.all);
    return view.table;
}

/* Files have the growth in columns. */
static void add_growth(const results *run, report_document *out) {
    report_table *table = view_create_growth_table(run);
    if (table_row_count(table))
        document_add_table(out, table);
    else
        table_destroy(table);
}

void view_attention(const results *run, bool is_full, report_document *out) {
    document_add_table(out, view_create_attention_table(run, is_full));
    view_add_interruption(run, out);
    if (!is_full)
        add_growth(run, out);
    view_add_cells(run, is_full, out);
}
