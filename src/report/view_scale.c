/* view_scale.c - steps of many ranks on paper: a row for each way and number of ranks, how step time grows, and
 * the most ranks before communication dominates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view.h"
#include "report/view_parts.h"

static const double MIB = 0x1p20;

static bool is_part(const results_cell *cell, const char *part) {
    return strcmp(view_text(cell, PARAM_PART), part) == 0;
}

static double number(const results_cell *cell, const char *name) {
    return results_number(cell_find_parameter(cell, name));
}

static double ms(const results_cell *cell, const char *name) {
    return cell->status == RESULTS_OK ? view_metric(cell, name) / 1e6 : NAN;
}

/* ---- steps ---- */

static const char *const STEP_IMPORTANCE[] = {
    "step_ms",    "memory_mib", "sent_mb",  "collectives_ms", "compute_ms", "note",
    "exposed_ms", "efficiency", "tokens_s", TABLE_OTHERS,     NULL};

static bool is_on_paper(const results_cell *cell) {
    return strstr(view_text(cell, PARAM_PARALLEL), "tp") != NULL;
}

/* "does not fit 139.8 GiB"; of ways that dyno cannot run, that they are on paper; why a cell has no numbers. */
static void add_step_note(report_table *t, const results_cell *cell) {
    double limit = view_metric(cell, METRIC_MEMORY_BYTES);
    text note = {0};
    if (cell->status == RESULTS_OK && is_on_paper(cell))
        text_append(&note, "on paper");
    if (cell->status == RESULTS_OK && view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES) > limit)
        text_format(&note, "%sdoes not fit %.1f GiB", note.length ? "; " : "", limit / 0x1p30);
    text_append(&note, cell->reason);
    table_add_text(t, text_string(&note));
    text_release(&note);
}

static void add_step_row(const view_list *parameters, const results_cell *cell, report_table *t) {
    bool is_ok = cell->status == RESULTS_OK;
    double compute = ms(cell, METRIC_COMPUTE_NS), step = ms(cell, METRIC_STEP_NS);
    table_add_row(t);
    for (int i = 0; i < parameters->count; i++)
        view_add_value(t, cell_find_parameter(cell, parameters->names[i]));
    table_add_text(t, results_status_name(cell->status));
    table_add_real(t, is_ok ? view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES) / MIB : NAN, 1);
    table_add_real(t, is_ok ? view_metric(cell, METRIC_BYTES_SENT) / 1e6 : NAN, 1);
    view_add_three_digits(t, ms(cell, METRIC_COLLECTIVES_NS));
    view_add_three_digits(t, compute);
    view_add_three_digits(t, ms(cell, METRIC_EXPOSED_NS));
    view_add_three_digits(t, step);
    table_add_real(t, step > 0 ? 100 * compute / step : NAN, 1);
    table_add_real(t, step > 0 ? view_metric(cell, METRIC_TOKENS) / step * 1e3 : NAN, 0);
    add_step_note(t, cell);
}

static void note_times(const results *run, report_table *t) {
    const results_cell *cell = run->cells[0];
    const char *times = view_text(cell, PARAM_TIMES);
    if (strcmp(times, "measured") == 0)
        table_add_note(t, "compute: launches timed here, in one process; ranks share cores and the "
                          "memory's bandwidth");
    else if (strcmp(times, "profile") == 0)
        table_add_note(t,
                       "compute: launches as the profile has them; %.0f of the first row's are "
                       "not in it and take what the rates say",
                       view_metric(cell, METRIC_LAUNCHES_UNSEEN));
    else
        table_add_note(t, "compute: each launch at the peak rates of the chip, whichever of its "
                          "FLOPs and bytes takes longer: no step is faster. --profile, --measure "
                          "or --flops give what is reached");
}

static double environment(const results *run, const char *name) {
    return results_number(results_find_environment(run, name));
}

static void note_network(const results *run, report_table *t) {
    table_add_note(t,
                   "collectives: rings, hops x %g us + 2(n-1)/n (all-reduce) or (n-1)/n x bytes / "
                   "bandwidth: %.4g GB/s inside a node of %.0f ranks, across nodes %.4g GB/s for "
                   "each rank that a node has in the ring, where they were not timed (--from)",
                   environment(run, ENV_LATENCY_US), environment(run, ENV_INSIDE_GBS),
                   environment(run, ENV_PER_NODE), environment(run, ENV_ACROSS_GBS));
}

static void add_steps(const results *run, const view_list *parameters, const char *title,
                      report_document *out) {
    report_table *t = table_create(title);
    for (int i = 0; i < parameters->count; i++)
        view_add_parameter_column(run, parameters->names[i], parameters->names[i], t);
    table_add_setting(t, "status", "status", TABLE_LEFT);
    table_add_column(t, "memory_mib", "memory MiB", TABLE_RIGHT);
    table_add_column(t, "sent_mb", "sent MB", TABLE_RIGHT);
    table_add_column(t, "collectives_ms", "collectives ms", TABLE_RIGHT);
    table_add_column(t, "compute_ms", "compute ms", TABLE_RIGHT);
    table_add_column(t, "exposed_ms", "exposed ms", TABLE_RIGHT);
    table_add_column(t, "step_ms", "step ms", TABLE_RIGHT);
    table_add_column(t, "efficiency", "compute %", TABLE_RIGHT);
    table_add_column(t, "tokens_s", "tokens/s", TABLE_RIGHT);
    table_add_column(t, "note", "note", TABLE_LEFT);
    table_set_importance(t, STEP_IMPORTANCE);
    for (int64_t i = 0; i < run->cell_count; i++)
        if (is_part(run->cells[i], PART_STEP))
            add_step_row(parameters, run->cells[i], t);
    table_add_note(t, "of one rank: memory that it reserves, what it sends, the time of all its "
                      "collectives alone and of all that it computes alone; exposed: how long "
                      "nothing is computed; compute %% = compute / step");
    note_times(run, t);
    note_network(run, t);
    document_add_table(out, t);
}

/* ---- growth ---- */

/* Of the way of cell `index`, which is the first of it: step time over ranks. */
static void add_growth(const results *run, int64_t index, report_document *out) {
    enum { MOST = 64 };
    const results_cell *first = run->cells[index];
    const char *labels[MOST];
    double x[MOST], y[MOST];
    int64_t count = 0;
    for (int64_t i = index; i < run->cell_count && count < MOST; i++) {
        const results_cell *cell = run->cells[i];
        if (!is_part(cell, PART_STEP) || cell->status != RESULTS_OK ||
            strcmp(view_text(cell, PARAM_PARALLEL), view_text(first, PARAM_PARALLEL)) != 0 ||
            strcmp(view_text(cell, PARAM_MODEL), view_text(first, PARAM_MODEL)) != 0)
            continue;
        x[count] = number(cell, PARAM_RANKS);
        y[count] = ms(cell, METRIC_STEP_NS);
        labels[count] = arena_format(out->memory, "%.0f ranks", x[count]);
        count++;
    }
    if (count < 2)
        return;
    plot_bar *bars = document_add_bars(out, "ms", count);
    for (int64_t i = 0; i < count; i++)
        bars[i] = (plot_bar){labels[i], y[i]};
    document_add_note(out, "%s, %s: step time over ranks; as ranks^%.2f%s",
                      view_text(first, PARAM_MODEL), view_text(first, PARAM_PARALLEL),
                      statistics_growth_exponent(x, y, count),
                      count == 2 ? ", between two numbers of them" : "");
}

static bool is_first_of_way(const results *run, int64_t index) {
    for (int64_t i = 0; i < index; i++)
        if (is_part(run->cells[i], PART_STEP) &&
            strcmp(view_text(run->cells[i], PARAM_PARALLEL),
                   view_text(run->cells[index], PARAM_PARALLEL)) == 0 &&
            strcmp(view_text(run->cells[i], PARAM_MODEL),
                   view_text(run->cells[index], PARAM_MODEL)) == 0)
            return false;
    return true;
}

/* ---- limits ---- */

static void add_limits(const results *run, report_document *out) {
    report_table *t = table_create("the most ranks before communication takes longer than what is "
                                   "computed meanwhile, for a step of that many tokens");
    table_add_setting(t, "model", "model", TABLE_LEFT);
    table_add_setting(t, "step_tokens", "step tokens", TABLE_RIGHT);
    table_add_setting(t, "parallel", "parallel", TABLE_LEFT);
    table_add_column(t, "largest_ranks", "ranks", TABLE_RIGHT);
    table_add_column(t, "tokens_a_rank", "tokens of a rank", TABLE_RIGHT);
    table_add_column(t, "formula", "formula", TABLE_LEFT);
    const results_cell *last = NULL;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (!is_part(cell, PART_LIMIT) || cell->status != RESULTS_OK)
            continue;
        last = cell;
        double ranks = view_metric(cell, METRIC_LARGEST_RANKS);
        double group = view_metric(cell, METRIC_GROUP_RANKS);
        double tokens = view_metric(cell, METRIC_STEP_TOKENS);
        table_add_row(t);
        table_add_text(t, view_text(cell, PARAM_MODEL));
        table_add_real(t, tokens, 0);
        if (group > 1)
            table_add_format(t, "%s:%.0f", view_text(cell, PARAM_PARALLEL), group);
        else
            table_add_text(t, view_text(cell, PARAM_PARALLEL));
        table_add_real(t, ranks, 0);
        table_add_real(t, tokens / ranks, 0);
        table_add_text(t, view_text(cell, PARAM_FORMULA));
    }
    if (last)
        table_add_note(
            t,
            "F %.4g and K %.4g FLOP of forward and backward over all tokens, from the "
            "plan; P %.4g and G %.4g bytes of weights as gathered and gradients as sent; "
            "S %.4g bytes of the residual stream; L %.0f blocks; C %.4g FLOP/s; W bytes/s "
            "inside a node, or across where N is more. Without latency",
            view_metric(last, METRIC_FORWARD_FLOPS), view_metric(last, METRIC_BACKWARD_FLOPS),
            view_metric(last, METRIC_WEIGHT_BYTES), view_metric(last, METRIC_GRADIENT_BYTES),
            view_metric(last, METRIC_RESIDUAL_BYTES), number(last, PARAM_LAYERS),
            view_metric(last, METRIC_PEAK_GFLOPS) * 1e9);
    if (table_row_count(t) > 0)
        document_add_table(out, t);
    else
        table_destroy(t);
}

void view_scale(const results *run, bool is_full, report_document *out) {
    static const char *const always[] = {PARAM_PARALLEL, PARAM_RANKS, NULL};
    static const char *const never[] = {PARAM_PART, PARAM_FORMULA, NULL};
    if (run->cell_count == 0) {
        view_general(run, is_full, out);
        return;
    }
    view_list parameters = {0};
    text title = {0};
    text_append(&title, "scale");
    view_choose_parameters(run, is_full, always, never, &parameters, &title);
    add_steps(run, &parameters, text_string(&title), out);
    text_release(&title);
    for (int64_t i = 0; i < run->cell_count && !is_full; i++)
        if (is_part(run->cells[i], PART_STEP) && is_first_of_way(run, i))
            add_growth(run, i, out);
    add_limits(run, out);
    view_add_interruption(run, out);
}
