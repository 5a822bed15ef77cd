/* view_profile_from.c - the profile of another program, from the trace that another profiler made
 * (`dyno profile --from`): host against device for each of its phases, kernels, classes, the share of
 * matrix products, what is inside attention, and how all of it was attributed.
 *
 * Sums are of the whole trace. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/profile_rows.h"
#include "report/view.h"
#include "report/view_parts.h"

/* A device that is idle for more of a phase than this waits for the host. */
#define HOST_BOUND_IDLE 0.10

bool profile_is_foreign(const results_cell *cell) {
    return cell_find_parameter(cell, PARAM_TRACE) != NULL;
}

static bool is_of_host(const results_cell *cell) {
    return strcmp(view_text(cell, PARAM_RECORDED), "host") == 0;
}

static double share(double part, double whole) {
    return whole > 0 ? 100 * part / whole : (double)NAN;
}

/* ---- host against device ---- */

/* How long the host was in the ranges of a phase, in its steps for all of them; NAN: not marked. */
static double host_ns(const results *run, const results_cell *cell, const char *phase) {
    if (strcmp(phase, ROW_ALL_PHASES) == 0)
        return view_metric(cell, METRIC_MARKED_STEPS_NS);
    profile_rows ranges = profile_rows_find(run, cell, BREAKDOWN_RANGES);
    for (int64_t i = 0; i < ranges.count; i++)
        if (strcmp(profile_rows_text(&ranges, i, KEY_PHASE), phase) == 0)
            return profile_rows_number(&ranges, i, COLUMN_TIME);
    return NAN;
}

static void add_phase(const results *run, const results_cell *cell, const profile_rows *devices,
                      int64_t row, bool is_full, report_table *t) {
#define NUMBER(column) profile_rows_number(devices, row, column)
    const char *phase = profile_rows_text(devices, row, KEY_PHASE);
    double host = host_ns(run, cell, phase), span = NUMBER(COLUMN_SPAN), busy = NUMBER(COLUMN_BUSY);
    profile_add_row(cell, is_full, t);
    table_add_text(t, profile_rows_text(devices, row, KEY_DEVICE));
    table_add_text(t, strcmp(phase, ROW_ALL_PHASES) == 0 ? "all" : phase);
    table_add_real(t, host / 1e6, 3);
    table_add_real(t, span / 1e6, 3);
    table_add_real(t, span > 0 ? host / span : (double)NAN, 3);
    table_add_real(t, busy / 1e6, 3);
    table_add_real(t, share(busy, span), 1);
    table_add_real(t, NUMBER(COLUMN_LAUNCHES), 0);
    table_add_real(t, NUMBER(COLUMN_GAPS), 0);
    table_add_real(t, NUMBER(COLUMN_GAP_MEDIAN) / 1e3, 2);
    table_add_real(t, NUMBER(COLUMN_GAP_MAX) / 1e3, 2);
    table_add_real(t, NUMBER(COLUMN_BEHIND_MEDIAN) / 1e3, 2);
    /* Without calls of the host, as in a run of dyno's on a CPU, nothing is known of its part in it. */
    bool is_idle = 1 - busy / span > HOST_BOUND_IDLE && strcmp(phase, ROW_UNATTRIBUTED) != 0 &&
                   isfinite(NUMBER(COLUMN_BEHIND_MEDIAN));
    table_add_text(t, !is_of_host(cell) && is_idle ? "HOST-BOUND" : "");
#undef NUMBER
}

static void note_phases(const results_cell *cell, report_table *t) {
    double steps = view_metric(cell, METRIC_MARKED_STEPS);
    if (is_of_host(cell)) {
        table_add_note(t, "no device did anything in this trace: these are the host's own "
                          "operations, each by the time that it takes itself, without those it "
                          "calls; gaps are between operations");
        return;
    }
    table_add_note(
        t,
        "sums over the trace%s; host: in the ranges that the program marks, of all "
        "phases in its steps; device: from the begin of a phase's first launch in a "
        "step to the end of its last; busy: while anything ran on it, of whichever phase; "
        "gaps: the rest",
        steps > 0 ? "" : ", in which no steps are marked");
    table_add_note(t,
                   "a phase is that of the launch, not of the moment at which the device runs it");
    table_add_note(t,
                   "HOST-BOUND: the device is idle for more than %.0f %% of that time, because it "
                   "is not given work in time; a profiler adds to it",
                   100 * HOST_BOUND_IDLE);
}

static void add_phases(const results *run, const results_cell *cell, bool is_full,
                       report_document *out) {
    profile_rows devices = profile_rows_find(run, cell, BREAKDOWN_DEVICES);
    text title = {0};
    text_format(&title, "host against device, as %s recorded it", view_text(cell, PARAM_FORMAT));
    report_table *t = profile_create_table(run, cell, text_string(&title), is_full);
    text_release(&title);
    table_add_column(t, KEY_DEVICE, KEY_DEVICE, TABLE_RIGHT);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, "host_ms", "host ms", TABLE_RIGHT);
    table_add_column(t, "device_ms", "device ms", TABLE_RIGHT);
    table_add_column(t, "host_device", "host / device", TABLE_RIGHT);
    table_add_column(t, "busy_ms", "busy ms", TABLE_RIGHT);
    table_add_column(t, "busy_percent", "busy %", TABLE_RIGHT);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    table_add_column(t, "gaps", "gaps", TABLE_RIGHT);
    table_add_column(t, "gap_median_us", "median gap us", TABLE_RIGHT);
    table_add_column(t, "gap_max_us", "longest gap us", TABLE_RIGHT);
    table_add_column(t, "behind_us", "device behind us", TABLE_RIGHT);
    table_add_column(t, "verdict", "verdict", TABLE_LEFT);
    static const char *const IMPORTANCE[] = {
        "phase", "host_ms",    "device_ms", "busy_percent",  "verdict", "host_device", "launches",
        "gaps",  "gap_max_us", "behind_us", "gap_median_us", "busy_ms", "device",      NULL};
    table_set_importance(t, IMPORTANCE);
    for (int64_t i = 0; i < devices.count; i++)
        add_phase(run, cell, &devices, i, is_full, t);
    note_phases(cell, t);
    document_add_table(out, t);
}

/* ---- phases alone ---- */

/* For a spreadsheet or a script: three columns and the share, without the trace's name in each row. */
static void add_phase_sums(const results *run, const results_cell *cell, report_document *out) {
    profile_rows phases = profile_rows_find(run, cell, BREAKDOWN_BY_PHASE);
    double whole = profile_rows_sum(&phases, COLUMN_TIME);
    report_table *t = profile_create_table(run, cell, "phases", false);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, "count", "count", TABLE_RIGHT);
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "percent", "%", TABLE_RIGHT);
    for (int64_t i = 0; i < phases.count; i++) {
        double ns = profile_rows_number(&phases, i, COLUMN_TIME);
        table_add_row(t);
        table_add_text(t, profile_rows_text(&phases, i, KEY_PHASE));
        table_add_integer(t, (int64_t)profile_rows_number(&phases, i, COLUMN_COUNT));
        table_add_real(t, ns / 1e6, 3);
        table_add_real(t, share(ns, whole), 1);
    }
    document_add_table(out, t);
}

/* ---- the share of matrix products ---- */

static void add_products_of(const results_cell *cell, const profile_rows *kinds, const char *phase,
                            bool is_full, report_table *t) {
    double products = 0, attention = 0, all = 0;
    for (int64_t i = 0; i < kinds->count; i++) {
        const char *class_name = profile_rows_text(kinds, i, KEY_CLASS);
        double ns = profile_rows_number(kinds, i, COLUMN_TIME);
        if (phase && strcmp(profile_rows_text(kinds, i, KEY_PHASE), phase) != 0)
            continue;
        all += ns;
        products += strcmp(class_name, "matmul") == 0 ? ns : 0;
        attention += strcmp(class_name, "attention") == 0 ? ns : 0;
    }
    profile_add_row(cell, is_full, t);
    table_add_text(t, phase ? phase : "all");
    table_add_real(t, all / 1e6, 3);
    table_add_real(t, share(products, all), 1);
    table_add_real(t, share(attention, all), 1);
    table_add_real(t, share(all - products - attention, all), 1);
    table_add_text(t, phase ? profile_rows_main(kinds, KEY_PHASE, phase, KEY_KERNEL).text : "");
}

/* The forward alone is what inference does; all phases together are a training step. */
static void add_products(const results *run, const results_cell *cell, bool is_full,
                         report_document *out) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    profile_rows phases = profile_rows_find(run, cell, BREAKDOWN_BY_PHASE);
    report_table *t = profile_create_table(run, cell, "matrix products and the rest", is_full);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "products_percent", "products %", TABLE_RIGHT);
    table_add_column(t, "attention_percent", "fused attention %", TABLE_RIGHT);
    table_add_column(t, "rest_percent", "the rest %", TABLE_RIGHT);
    table_add_column(t, "top_kernel", "top kernel", TABLE_LEFT);
    for (int64_t i = 0; i < phases.count; i++)
        add_products_of(cell, &kinds, profile_rows_text(&phases, i, KEY_PHASE), is_full, t);
    add_products_of(cell, &kinds, NULL, is_full, t);
    table_add_note(t,
                   "the forward is what inference does, all phases together are training; classes "
                   "are judged by the names of kernels (--classes adds rules)");
    document_add_table(out, t);
}

/* ---- inside attention ---- */

static double part_number(const profile_rows *parts, const char *name, const char *column) {
    for (int64_t i = 0; i < parts->count; i++)
        if (strcmp(profile_rows_text(parts, i, KEY_PART), name) == 0)
            return profile_rows_number(parts, i, column);
    return NAN;
}

/* The sentence that the table is for. */
static void note_attention(const profile_rows *parts, report_table *t) {
#define PART(name, column) part_number(parts, name, column)
    double softmax = PART("softmax", COLUMN_TIME);
    double products = PART("scores", COLUMN_TIME) + PART("values", COLUMN_TIME);
    double softmax_flops = PART("softmax", COLUMN_FLOPS);
    double product_flops = PART("scores", COLUMN_FLOPS) + PART("values", COLUMN_FLOPS);
    if (!(softmax > 0) || !(products > 0))
        return;
    if (softmax_flops > 0 && product_flops > 0)
        table_add_note(
            t,
            "the softmax takes %.3f ms and the two products %.3f ms, %.2f times as long, "
            "with %.1f times the FLOPs of the softmax",
            softmax / 1e6, products / 1e6, products / softmax, product_flops / softmax_flops);
    else
        table_add_note(
            t,
            "the softmax takes %.3f ms and the two products %.3f ms, %.2f times as long; "
            "the trace does not say their FLOPs (PyTorch does with record_shapes=True)",
            softmax / 1e6, products / 1e6, products / softmax);
#undef PART
}

static void add_attention(const results *run, const results_cell *cell, bool is_full,
                          report_document *out) {
    profile_rows parts = profile_rows_find(run, cell, BREAKDOWN_ATTENTION);
    double passed_over = view_metric(cell, METRIC_ATTENTION_PASSED_OVER);
    if (!parts.count && !(passed_over > 0))
        return;
    double whole = profile_rows_sum(&parts, COLUMN_TIME);
    report_table *t = profile_create_table(run, cell, "inside attention, forward", is_full);
    table_add_column(t, KEY_PART, KEY_PART, TABLE_LEFT);
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "percent", "% of them", TABLE_RIGHT);
    table_add_column(t, "count", "launches", TABLE_RIGHT);
    table_add_column(t, "gflop", "GFLOP", TABLE_RIGHT);
    table_add_column(t, "gflops", "GFLOP/s", TABLE_RIGHT);
    for (int64_t i = 0; i < parts.count; i++) {
        double ns = profile_rows_number(&parts, i, COLUMN_TIME);
        double flops = profile_rows_number(&parts, i, COLUMN_FLOPS);
        profile_add_row(cell, is_full, t);
        table_add_text(t, profile_rows_text(&parts, i, KEY_PART));
        table_add_real(t, ns / 1e6, 3);
        table_add_real(t, share(ns, whole), 1);
        table_add_real(t, profile_rows_number(&parts, i, COLUMN_COUNT), 0);
        table_add_real(t, flops / 1e9, 3);
        table_add_real(t, ns > 0 ? flops / ns : (double)NAN, 1);
    }
    if (parts.count)
        note_attention(&parts, t);
    if (view_metric(cell, METRIC_ATTENTIONS) > 0)
        table_add_note(t,
                       "%.0f times a softmax was launched between two products: the one before "
                       "computes the scores, the one behind the values; scale, mask and dropout "
                       "between them count with the softmax",
                       view_metric(cell, METRIC_ATTENTIONS));
    if (passed_over > 0)
        table_add_note(t,
                       "%.0f products and softmaxes are not in the order of their calls in this "
                       "file; attention around them is not found, so there may be more of it",
                       passed_over);
    document_add_table(out, t);
}

/* ---- how it was attributed ---- */

static bool is_one(double count) { return count > 0.5 && count < 1.5; }

static void add_joins(const results *run, const results_cell *cell, report_document *out) {
    static const struct {
        const char *metric, *what;
    } ROWS[] = {
        {METRIC_JOINED_BY_THREAD, "to a range around the call, on the thread that made it"},
        {METRIC_JOINED_BY_PROCESS,
         "to the range open in the process: the thread has none, as PyTorch's backward thread"},
        {METRIC_JOINED_BY_SEQUENCE, "by PyTorch's operations and their sequence numbers"},
        {METRIC_JOINED_BY_RECORD, "by what the trace says of the kernel itself, as dyno's own do"},
        {METRIC_JOINED_TO_NOTHING, "to nothing: the call is outside of every range"},
        {METRIC_NOT_JOINED, "to nothing: the call that launched it is not in the trace"},
    };
    double records = view_metric(cell, METRIC_RECORDS);
    report_table *t = profile_create_table(run, cell, "how launches were attributed", false);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    table_add_column(t, "percent", "%", TABLE_RIGHT);
    table_add_column(t, "how", "how", TABLE_LEFT);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        double count = view_metric(cell, ROWS[i].metric);
        table_add_row(t);
        table_add_real(t, count, 0);
        table_add_real(t, share(count, records), 1);
        table_add_text(t, ROWS[i].what);
    }
    double graphs = view_metric(cell, METRIC_IN_GRAPHS),
           outside = view_metric(cell, METRIC_OUTSIDE_STEPS),
           steps = view_metric(cell, METRIC_MARKED_STEPS);
    if (graphs > 0)
        table_add_note(t,
                       "%.0f of them %s of CUDA graphs: each belongs to the call that launched its "
                       "graph",
                       graphs, is_one(graphs) ? "is" : "are");
    if (steps > 0)
        table_add_note(t, "%.0f %s marked; %.0f %s in none of them", steps,
                       is_one(steps) ? "step is" : "steps are", outside > 0 ? outside : 0,
                       is_one(outside) ? "launch is" : "launches are");
    document_add_table(out, t);
}

/* ---- all of it ---- */

static void add_trace(const results *run, const results_cell *cell, const char *by, bool is_full,
                      report_document *out) {
    /* A file for a spreadsheet that asks for one table has that and nothing else. */
    if (!(is_full && by))
        add_phases(run, cell, is_full, out);
    if (by && strcmp(by, KEY_PHASE) == 0)
        add_phase_sums(run, cell, out);
    else if (is_full)
        profile_add_all_groups(run, by ? by : "kernel", out);
    else
        profile_add_groups(run, cell, by ? by : "kernel", out);
    if (!by) {
        profile_add_classes(run, cell, is_full, out);
        add_products(run, cell, is_full, out);
        add_attention(run, cell, is_full, out);
    }
    if (!by || (!is_full && strcmp(by, KEY_SCOPE) == 0))
        profile_add_scopes(run, cell, is_full, out);
    if (!is_full)
        add_joins(run, cell, out);
}

void view_profile_from(const results *run, bool is_full, report_document *out) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (profile_is_shown(run->cells[i]))
            add_trace(run, run->cells[i], profile_shown_by(run), is_full, out);
    view_add_interruption(run, out);
}
