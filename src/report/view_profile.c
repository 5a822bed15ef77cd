/* view_profile.c - a profile as a document: host against device for every cell of the grid, then the
 * tables of each cell, and below them what holds of it (measure/profile_check.h). */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/profile_check.h"
#include "measure/statistics.h"
#include "report/profile_rows.h"
#include "report/view.h"
#include "report/view_parts.h"

/* ---- host against device ---- */

static double series_ms(const results_cell *cell, const char *name) {
    const results_series *series = cell_find_series(cell, name);
    return series ? statistics_of_series(series).median * view_ms_per_unit(series->unit)
                  : (double)NAN;
}

static void add_overview_columns(const results *run, const view_list *chosen, report_table *t) {
    for (int i = 0; i < chosen->count; i++)
        view_add_parameter_column(run, chosen->names[i], chosen->names[i], t);
    table_add_setting(t, "status", "status", TABLE_LEFT);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, "host_ms", "host ms", TABLE_RIGHT);
    table_add_column(t, "device_ms", "device ms", TABLE_RIGHT);
    table_add_column(t, "device_mean_ms", "mean ms", TABLE_RIGHT);
    table_add_column(t, "host_device", "host / device", TABLE_RIGHT);
    table_add_column(t, "busy_percent", "busy %", TABLE_RIGHT);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    table_add_column(t, "gaps", "gaps", TABLE_RIGHT);
    table_add_column(t, "idle_ms", "in gaps ms", TABLE_RIGHT);
    table_add_column(t, "gap_median_us", "median gap us", TABLE_RIGHT);
    table_add_column(t, "gap_max_us", "longest gap us", TABLE_RIGHT);
    table_add_column(t, "enqueue_ms", "enqueue ms", TABLE_RIGHT);
    table_add_column(t, "behind_us", "device behind us", TABLE_RIGHT);
    table_add_column(t, "verdict", "verdict", TABLE_LEFT);
    table_add_column(t, "tracing_percent", "tracing costs %", TABLE_RIGHT);
    table_add_column(t, "note", "note", TABLE_LEFT);
    static const char *const IMPORTANCE[] = {
        "phase",          "host_ms",     "device_ms",       "busy_percent", "verdict",
        "note",           "host_device", "launches",        "gaps",         "idle_ms",
        "device_mean_ms", "gap_max_us",  "tracing_percent", "enqueue_ms",   "behind_us",
        "gap_median_us",  NULL};
    table_set_importance(t, IMPORTANCE);
}

static void begin_row(const view_list *chosen, const results_cell *cell, const char *status,
                      report_table *t) {
    table_add_row(t);
    for (int i = 0; i < chosen->count; i++)
        view_add_value(t, cell_find_parameter(cell, chosen->names[i]));
    table_add_text(t, status);
}

/* Cells that have nothing to show are rows all the same. */
static void add_unprofiled(const view_list *chosen, const results_cell *cell, report_table *t) {
    text note = {0};
    profile_append_note(cell, &note);
    begin_row(chosen, cell, profile_status_name(cell), t);
    for (int i = 0; i < 15; i++)
        table_add_empty(t);
    table_add_text(t, text_string(&note));
    text_release(&note);
}

static void add_device_row(const results *run, const view_list *chosen, const results_cell *cell,
                           const profile_rows *devices, int64_t row, report_table *t) {
#define NUMBER(column) profile_rows_number(devices, row, column)
    bool is_all = strcmp(profile_rows_text(devices, row, KEY_PHASE), ROW_ALL_PHASES) == 0;
    double span = NUMBER(COLUMN_SPAN), busy = NUMBER(COLUMN_BUSY), host = profile_host_ns(cell);
    double median = NUMBER(COLUMN_SPAN_MEDIAN);
    if (isnan(median)) /* a run.json of an earlier version */
        median = span;
    begin_row(chosen, cell, results_status_name(cell->status), t);
    table_add_text(t, is_all ? "all" : profile_rows_text(devices, row, KEY_PHASE));
    table_add_real(t, is_all ? host / 1e6 : (double)NAN, 3);
    table_add_real(t, median / 1e6, 3);
    table_add_real(t, span / 1e6, 3);
    table_add_real(t, is_all ? host / median : (double)NAN, 3);
    table_add_real(t, 100 * busy / span, 1);
    table_add_real(t, NUMBER(COLUMN_LAUNCHES), 0);
    table_add_real(t, NUMBER(COLUMN_GAPS), 0);
    table_add_real(t, (span - busy) / 1e6, 3);
    table_add_real(t, NUMBER(COLUMN_GAP_MEDIAN) / 1e3, 2);
    table_add_real(t, NUMBER(COLUMN_GAP_MAX) / 1e3, 2);
    table_add_real(t, is_all ? series_ms(cell, SERIES_ENQUEUE) : (double)NAN, 3);
    table_add_real(t, profile_is_on_cpu(cell) ? (double)NAN : NUMBER(COLUMN_BEHIND_MEDIAN) / 1e3,
                   2);
    table_add_text(t, is_all && profile_is_host_bound(run, cell) ? "HOST-BOUND" : "");
    table_add_real(t, is_all ? 100 * profile_check_cell(cell).overhead : (double)NAN, 1);
    table_add_text(t, "");
#undef NUMBER
}

static void note_overview(const results *run, report_table *t) {
    bool is_gpu = false, is_cpu = false;
    for (int64_t i = 0; i < run->cell_count; i++) {
        is_cpu = is_cpu || profile_is_on_cpu(run->cells[i]);
        is_gpu = is_gpu || !profile_is_on_cpu(run->cells[i]);
    }
    table_add_note(
        t, "host: the median untraced step by the host's clock; device: the median traced "
           "one, from the begin of the first launch to the end of the last; mean: of all traced "
           "steps, and so are busy, while anything ran, gaps, the rest, and the tables below");
    table_add_note(t, "phases are those of their launches: where updates run beside the backward, "
                      "their spans overlap, and a device that runs another phase is busy, too");
    if (is_gpu)
        table_add_note(t,
                       "HOST-BOUND: the device is idle for more than %.0f %% of the untraced "
                       "step, because the host does not give it work in time",
                       100 * PROFILE_IDLE_LIMIT);
    if (is_cpu)
        table_add_note(t, "on a CPU host and device are the same: gaps are what the executor does "
                          "between launches");
    table_add_note(t,
                   "tracing costs: the median traced step against the median of untraced ones in "
                   "between; below 0 where steps differ by more than that");
}

static void add_overview(const results *run, bool is_full, report_document *out) {
    static const char *const ALWAYS[] = {PARAM_MODEL, PARAM_CONTEXT, PARAM_PASS, NULL};
    static const char *const NEVER[] = {NULL};
    view_list chosen = {0};
    text title = {0};
    view_append_origin(run, &title);
    view_choose_parameters(run, is_full, ALWAYS, NEVER, &chosen, &title);
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    add_overview_columns(run, &chosen, t);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        profile_rows devices = profile_rows_find(run, cell, BREAKDOWN_DEVICES);
        if (!profile_is_shown(cell))
            add_unprofiled(&chosen, cell, t);
        for (int64_t j = 0; profile_is_shown(cell) && j < devices.count; j++)
            if (j == 0 || devices.count > 2) /* the only phase is all there is */
                add_device_row(run, &chosen, cell, &devices, j, t);
    }
    note_overview(run, t);
    view_note_contention(run, t);
    document_add_table(out, t);
}

/* ---- what holds ---- */

static void add_check(report_table *t, const char *name, double value, int decimals,
                      const char *limit, bool holds) {
    table_add_row(t);
    table_add_text(t, name);
    table_add_real(t, value, decimals);
    table_add_text(t, limit);
    table_add_text(t, isnan(value) ? "not measured" : holds ? "yes" : "NO");
}

static void add_checks(const results *run, const results_cell *cell, report_document *out) {
    profile_check check = profile_check_cell(cell);
    report_table *t = profile_create_table(run, cell, "checks", false);
    table_add_column(t, "check", "check", TABLE_LEFT);
    table_add_column(t, "value", "value", TABLE_RIGHT);
    table_add_column(t, "limit", "limit", TABLE_LEFT);
    table_add_column(t, "holds", "holds", TABLE_LEFT);
    add_check(t, "device time attributed to launches, %", 100 * check.coverage, 2, "99 at least",
              check.coverage >= PROFILE_LEAST_COVERAGE);
    add_check(t, "longest part over the step it is part of", check.largest_part, 4, "1 at most",
              check.largest_part <= 1.000001);
    add_check(t, "step by the device's clock over the host's", check.span_over_host, 4,
              "1.02 at most", check.span_over_host <= 1 + PROFILE_CLOCK_TOLERANCE);
    add_check(t, "shares of a breakdown, sum in %", 100 * check.share_sum, 2, "100",
              fabs(check.share_sum - 1) < 1e-6);
    add_check(t, "kinds of launches whose count differs between steps", check.uneven, 0, "0",
              !(check.uneven > 0));
    add_check(t, "launches without a record, of phases that did not complete", check.unseen, 0, "0",
              !(check.unseen > 0));
    add_check(t, "tracing costs, % of an untraced step", 100 * check.overhead, 1,
              "printed, not limited", true);
    const results_value *counters = results_find_environment(run, ENV_CPU_COUNTERS);
    if (counters && counters->kind == RESULTS_TEXT && strcmp(counters->text, "counted") != 0)
        table_add_note(t, "%s", counters->text);
    document_add_table(out, t);
}

/* ---- all of it ---- */

/* For people: cell by cell, what was asked for. */
static void add_cells(const results *run, const char *by, report_document *out) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (!profile_is_shown(cell))
            continue;
        profile_add_groups(run, cell, by ? by : "kernel", out);
        if (!by) {
            profile_add_classes(run, cell, false, out);
            profile_add_attention(run, cell, false, out);
            profile_add_next(run, cell, false, out);
        }
        if (!by || strcmp(by, KEY_SCOPE) == 0)
            profile_add_scopes(run, cell, false, out);
        add_checks(run, cell, out);
    }
}

/* For a file: a table that was asked for is all there is, so that a spreadsheet can read it. */
static void add_files(const results *run, const char *by, report_document *out) {
    if (!by)
        add_overview(run, true, out);
    if (by && strcmp(by, KEY_SCOPE) == 0 && profile_shows_tree(run))
        profile_add_all_scopes(run, out);
    else
        profile_add_all_groups(run, by ? by : "kernel", out);
    for (int64_t i = 0; !by && i < run->cell_count; i++) {
        if (!profile_is_shown(run->cells[i]))
            continue;
        profile_add_classes(run, run->cells[i], true, out);
        profile_add_attention(run, run->cells[i], true, out);
        profile_add_next(run, run->cells[i], true, out);
        profile_add_scopes(run, run->cells[i], true, out);
    }
}

void view_profile(const results *run, bool is_full, report_document *out) {
    const char *by = profile_shown_by(run);
    if (run->cell_count && profile_is_foreign(run->cells[0])) {
        view_profile_from(run, is_full, out);
        return;
    }
    if (!run->cell_count) {
        view_general(run, is_full, out);
        return;
    }
    if (is_full) {
        add_files(run, by, out);
    } else {
        add_overview(run, false, out);
        add_cells(run, by, out);
    }
    if (!by)
        profile_add_products(run, out);
    view_add_interruption(run, out);
}
