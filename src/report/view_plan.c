/* view_plan.c - the tables of verb "plan": a summary, FLOPs by scope, values at the peak, a map. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "measure/keys.h"
#include "report/view.h"
#include "report/view_parts.h"
#include "report/view_ways.h"

static const double MIB = 0x1p20, GIB = 0x1p30;

static double metric(const results_cell *cell, const char *name) {
    const results_metric *found = cell_find_metric(cell, name);
    return found ? results_number(&found->value) : 0;
}

static int64_t context_of(const results_cell *cell) {
    return view_parameter_number(cell, PARAM_CONTEXT);
}

static bool has_limit(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (cell_find_metric(run->cells[i], METRIC_MEMORY_BYTES))
            return true;
    return false;
}

static int64_t memory_limit(const results *run) {
    double limit = 0;
    for (int64_t i = 0; i < run->cell_count && !(limit > 0); i++)
        limit = metric(run->cells[i], METRIC_MEMORY_BYTES);
    return view_whole(limit);
}

static bool has_advice(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (cell_find_parameter(run->cells[i], PARAM_FITS_WITH))
            return true;
    return false;
}

/* Cells that could not be planned as asked have a status and a reason, and no numbers. */
static bool is_planned(const results_cell *cell) { return cell->status == RESULTS_OK; }

static bool are_all_planned(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (!is_planned(run->cells[i]))
            return false;
    return true;
}

static report_table *summary_table(const results *run) {
    static const struct {
        const char *metric, *header;
    } roles[] = {{METRIC_AT_PEAK_PREFIX "parameter", "weights"},
                 {METRIC_AT_PEAK_PREFIX "gradient", "gradients"},
                 {METRIC_AT_PEAK_PREFIX "optimizer-state", "state"},
                 {METRIC_AT_PEAK_PREFIX "saved", "saved"},
                 {METRIC_AT_PEAK_PREFIX "activation", "activations"}};
    text title = {0};
    text_append(&title, "plan: ");
    view_append_common_ways(run, &title);
    text_append(&title, "; bytes by role at the peak");
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    table_add_setting(t, "model", "model", TABLE_LEFT);
    table_add_setting(t, "context", "context", TABLE_RIGHT);
    view_add_way_columns(run, t);
    table_add_setting(t, "pass", "pass", TABLE_LEFT);
    table_add_column(t, "parameters", "parameters", TABLE_RIGHT);
    table_add_column(t, "model_gflop", "model GFLOP", TABLE_RIGHT);
    table_add_column(t, "gflop", "GFLOP", TABLE_RIGHT);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        char header[48];
        snprintf(header, sizeof header, "%s MiB", roles[i].header);
        table_add_column(t, header, header, TABLE_RIGHT);
    }
    table_add_column(t, "peak_mib", "peak MiB", TABLE_RIGHT);
    table_add_column(t, "reserved_mib", "reserved MiB", TABLE_RIGHT);
    if (has_limit(run))
        table_add_column(t, "fits", "fits", TABLE_LEFT);
    if (has_advice(run))
        table_add_column(t, "fits_with", "would fit with", TABLE_LEFT);
    table_add_column(t, "peak_at", "peak at", TABLE_LEFT);
    if (!are_all_planned(run)) {
        table_add_setting(t, "status", "status", TABLE_LEFT);
        table_add_column(t, "note", "note", TABLE_LEFT);
    }
    static const char *const importance[] = {"reserved_mib", "fits",       "fits_with", "note",
                                             "peak_mib",     "parameters", "gflop",     "launches",
                                             TABLE_OTHERS,   "peak_at",    NULL};
    table_set_importance(t, importance);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        table_add_row(t);
        table_add_text(t, view_text(cell, PARAM_MODEL));
        table_add_integer(t, context_of(cell));
        view_add_ways(cell, t);
        table_add_text(t, view_text(cell, PARAM_PASS));
        view_add_whole(t, view_metric(cell, METRIC_PARAMETERS));
        table_add_real(t, view_metric(cell, METRIC_MODEL_FLOPS) / 1e9, 1);
        table_add_real(t, view_metric(cell, METRIC_FLOPS) / 1e9, 1);
        view_add_whole(t, view_metric(cell, METRIC_LAUNCHES));
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
            table_add_real(t, view_metric(cell, roles[r].metric) / MIB, 1);
        table_add_real(t, view_metric(cell, METRIC_PEAK_BYTES) / MIB, 1);
        table_add_real(t, view_metric(cell, METRIC_RESERVED_BYTES) / MIB, 1);
        if (has_limit(run))
            table_add_text(t, view_text(cell, PARAM_FITS));
        if (has_advice(run))
            table_add_text(t, view_text(cell, PARAM_FITS_WITH));
        table_add_text(t, view_text(cell, PARAM_PEAK_AT));
        if (!are_all_planned(run)) {
            table_add_text(t, results_status_name(cell->status));
            table_add_text(t, cell->reason);
        }
    }
    table_add_note(t,
                   "model GFLOP: the model's products once, 2 M N K each, causal attention half, "
                   "backward twice the forward, the same for every way to run it (MFU). GFLOP: "
                   "every op that runs, what is computed again included (HFU)");
    table_add_note(t, "peak: bytes alive at once. reserved: what the caching allocator holds for "
                      "it, predicted by running its policy; fits compares reserved with the limit");
    return t;
}

static report_table *flops_table(const results_cell *cell, const results_breakdown *b) {
    char title[512];
    snprintf(title, sizeof title, "%s, context %lld, %s: FLOPs by scope",
             view_text(cell, PARAM_MODEL), (long long)context_of(cell),
             view_text(cell, PARAM_PASS));
    report_table *t = table_create(title);
    static const char *const headers[] = {"forward GFLOP", "backward GFLOP", "optimizer GFLOP",
                                          "all GFLOP", "moved MiB"};
    static const char *const keys[] = {"forward_gflop", "backward_gflop", "optimizer_gflop",
                                       "all_gflop", "moved_mib"};
    table_add_column(t, "scope", "scope", TABLE_LEFT);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    for (int i = 0; i < 5; i++)
        table_add_column(t, keys[i], headers[i], TABLE_RIGHT);
    table_add_column(t, "share", "% of FLOPs", TABLE_RIGHT);
    static const char *const importance[] = {"scope", "all_gflop", "share", NULL};
    table_set_importance(t, importance);
    double total[5] = {0}, all = metric(cell, METRIC_FLOPS);
    for (int64_t i = 0; i <= b->row_count; i++) {
        bool is_total = i == b->row_count;
        if (is_total)
            table_add_rule(t);
        table_add_row(t);
        table_add_text(t, is_total ? "total" : b->rows[i].keys[0]);
        table_add_integer(t, is_total ? view_whole(metric(cell, METRIC_LAUNCHES))
                                      : view_whole(results_number(&b->rows[i].values[5])));
        double flops = 0;
        for (int c = 0; c < 5; c++) {
            double value = is_total ? total[c] : results_number(&b->rows[i].values[c]);
            total[c] += is_total ? 0 : value;
            if (c == 3)
                flops = value;
            table_add_real(t, value / (c == 4 ? MIB : 1e9), c == 4 ? 1 : 3);
        }
        table_add_real(t, all > 0 ? 100 * flops / all : 0, 2);
    }
    table_add_note(t, "a product of M x K by K x N counts 2 M N K; every other op as its cost() "
                      "in src/ops says; bytes: operands read once, results written once");
    view_note_split_launches(cell, t);
    return t;
}

/* Says why a cell of the map is not there, once for each reason. */
static void add_map_note(const results *run, int64_t index, report_table *t) {
    const results_cell *cell = run->cells[index];
    for (int64_t i = 0; i < index; i++)
        if (run->cells[i]->status == cell->status &&
            strcmp(run->cells[i]->reason, cell->reason) == 0)
            return;
    table_add_note(t, "%s: %s", results_status_name(cell->status), cell->reason);
}

/* Models and passes down, contexts across, in the order of the cells. */
static report_table *map_table(const results *run) {
    text title = {0};
    text_append(&title, "memory needed, GiB (");
    view_append_common_ways(run, &title);
    text_append(&title, ")");
    if (has_limit(run))
        text_format(&title, ", x: more than %s", units_bytes(memory_limit(run)).text);
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    table_add_setting(t, "model", "model", TABLE_LEFT);
    table_add_column(t, "parameters", "parameters", TABLE_RIGHT);
    view_add_way_columns(run, t);
    table_add_setting(t, "pass", "pass", TABLE_LEFT);
    const results_cell *first = run->cells[0];
    int64_t across = 0;
    while (across < run->cell_count &&
           strcmp(view_text(run->cells[across], PARAM_MODEL), view_text(first, PARAM_MODEL)) == 0 &&
           strcmp(view_text(run->cells[across], PARAM_PASS), view_text(first, PARAM_PASS)) == 0 &&
           view_are_run_alike(run->cells[across], first)) {
        char header[48];
        snprintf(header, sizeof header, "context %lld", (long long)context_of(run->cells[across]));
        table_add_column(t, header, header, TABLE_RIGHT);
        across++;
    }
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (i % across == 0) {
            table_add_row(t);
            table_add_text(t, view_text(cell, PARAM_MODEL));
            table_add_text(t, is_planned(cell) ? units_count(metric(cell, METRIC_PARAMETERS)).text
                                               : "");
            view_add_ways(cell, t);
            table_add_text(t, view_text(cell, PARAM_PASS));
        }
        bool fits = strcmp(view_text(cell, PARAM_FITS), "no") != 0;
        if (!is_planned(cell)) {
            table_add_text(t, results_status_name(cell->status));
            add_map_note(run, i, t);
            continue;
        }
        table_add_format(t, "%s%.2f", fits ? "" : "x ", metric(cell, METRIC_RESERVED_BYTES) / GIB);
    }
    return t;
}

static bool has_flag(const results *run, const char *flag) {
    for (int i = 0; i < run->argc; i++)
        if (strcmp(run->argv[i], flag) == 0)
            return true;
    return false;
}

static void add_details(const results *run, report_document *out) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (!is_planned(cell))
            continue;
        const results_breakdown *scopes = view_breakdown_of_form(cell, BREAKDOWN_BY_SCOPE, 1, 6);
        const results_breakdown *values = view_breakdown_of_form(cell, BREAKDOWN_PEAK_VALUES, 3, 2);
        if (scopes)
            document_add_table(out, flops_table(cell, scopes));
        if (values)
            document_add_table(out, view_create_peak_table(cell, values));
    }
}

/* --map and --detail among the run's arguments decide which tables there are. */
void view_plan(const results *run, bool is_full, report_document *out) {
    if (!run->cell_count) {
        view_general(run, is_full, out);
        return;
    }
    if (has_flag(run, "--map")) {
        document_add_table(out, map_table(run));
    } else {
        document_add_table(out, summary_table(run));
        if (!is_full && (run->cell_count == 1 || has_flag(run, "--detail")))
            add_details(run, out);
    }
    view_add_interruption(run, out);
}
