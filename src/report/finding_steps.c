/* finding_steps.c - what steps consist of: the backward beside the forward, casts, the scores of attention. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/finding_parts.h"
#include "report/finding_verbs.h"
#include "report/view_parts.h"

static double series_ms(const results_cell *cell, const char *name) {
    const results_series *series = cell_find_series(cell, name);
    return series ? statistics_of_series(series).median * view_ms_per_unit(series->unit)
                  : (double)NAN;
}

/* ---- backward ---- */

/* NAN where the cell is not OK or does not have both. */
static double backward_ratio(const results_cell *cell) {
    if (isnan(finding_median_ms(cell)))
        return (double)NAN;
    double forward = series_ms(cell, SERIES_FORWARD), backward = series_ms(cell, SERIES_BACKWARD);
    return forward > 0 && backward > 0 ? backward / forward : (double)NAN;
}

void finding_append_backward(const results *run, text *out) {
    const results_cell *least = NULL, *most = NULL;
    if (strcmp(run->verb, RUN_BENCH) != 0 || !view_parameter_varies(run, PARAM_PASS) ||
        finding_compares_ways(run))
        return;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double ratio = backward_ratio(cell);
        if (isnan(ratio))
            continue;
        least = !least || ratio < backward_ratio(least) ? cell : least;
        most = !most || ratio > backward_ratio(most) ? cell : most;
    }
    if (!least)
        return;
    text_format(out, " The backward alone takes %.2f", backward_ratio(least));
    if (most != least) {
        text_append(out, " (");
        finding_append_cell_name(run, least, NULL, out);
        text_format(out, ") to %.2f", backward_ratio(most));
    }
    text_append(out, " times as long as the forward (");
    finding_append_cell_name(run, most, NULL, out);
    text_append(out, ").");
}

/* ---- of a traced step, in each precision ---- */

/* In ms; NAN: it was not traced. */
static double traced_ms(const results_cell *cell) {
    double span = view_metric(cell, METRIC_DEVICE_SPAN_NS);
    span = isnan(span) ? view_metric(cell, METRIC_TRACED_STEP_NS) : span;
    return cell->status == RESULTS_OK && span > 0 ? span / 1e6 : (double)NAN;
}

/* A compiled step with numbers of 16 bits has casts, but no launches of casts alone. */
static bool has_fused_casts(const results_cell *cell) {
    const char *math = view_text(cell, PARAM_MATH);
    bool has_16_bits = strcmp(math, "bf16") == 0 || strcmp(math, "fp16") == 0;
    return has_16_bits && !isnan(traced_ms(cell)) &&
           strcmp(view_text(cell, PARAM_MODE), "compiled") == 0 &&
           !(view_metric(cell, METRIC_CAST_LAUNCHES) > 0) &&
           fabs(view_metric(cell, METRIC_CAST_NS)) <= 0;
}

/* NAN where they were not traced, or no clock tells them apart. */
static double casts_ms(const results_cell *cell) {
    double ms = view_metric(cell, METRIC_CAST_NS) / 1e6;
    return isnan(traced_ms(cell)) || !(ms >= 0) || has_fused_casts(cell) ? (double)NAN : ms;
}

/* Of rows whose key ends so; NAN: there is none. */
static double rows_ms(const results_cell *cell, const char *breakdown, const char *ending) {
    const results_breakdown *b = cell_find_breakdown(cell, breakdown);
    double sum = (double)NAN;
    int time = -1;
    for (int i = 0; b && i < b->column_count; i++)
        time = strcmp(b->columns[i].name, COLUMN_TIME) == 0 ? i : time;
    for (int64_t i = 0; time >= 0 && b->key_count > 0 && i < b->row_count; i++) {
        const char *key = b->rows[i].keys[0];
        size_t length = strlen(key), end = strlen(ending);
        double ms =
            results_number(&b->rows[i].values[time]) * view_ms_per_unit(b->columns[time].unit);
        if (length >= end && strcmp(key + length - end, ending) == 0)
            sum = isnan(sum) ? ms : sum + ms;
    }
    return isnan(traced_ms(cell)) ? (double)NAN : sum;
}

static double scores_ms(const results_cell *cell) {
    return rows_ms(cell, BREAKDOWN_BY_SCOPE, ".attn.scores");
}

static double fused_ms(const results_cell *cell) {
    return rows_ms(cell, BREAKDOWN_BY_CLASS, "attention");
}

/* The longest step that has it: small ones are made of overheads. */
static const results_cell *longest_with(const results *run, double (*part)(const results_cell *)) {
    const results_cell *longest = NULL;
    for (int64_t i = 0; i < run->cell_count; i++)
        if (!isnan(part(run->cells[i])) &&
            (!longest || traced_ms(run->cells[i]) > traced_ms(longest)))
            longest = run->cells[i];
    return longest;
}

/* " Begin 0.117 of 0.844 ms (13.8 %) in bf16, 0.000 of 0.946 ms (0.0 %) in fp32 (of a traced step; model small)." */
static void append_parts(const results *run, const char *begin,
                         double (*part)(const results_cell *), text *out) {
    static const char *const except[] = {PARAM_MATH, PARAM_GRADIENTS, NULL};
    const results_cell *longest = longest_with(run, part);
    int written = 0;
    if (!longest || strcmp(run->verb, RUN_BENCH) != 0)
        return;
    text_append(out, begin);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (isnan(part(cell)) ||
            (cell != longest && !finding_differ_only_in(longest, cell, PARAM_MATH)))
            continue;
        text_format(out, "%s %.3f of %.3f ms (%.1f %%) in %s", written++ ? "," : "", part(cell),
                    traced_ms(cell), 100 * part(cell) / traced_ms(cell),
                    view_text(cell, PARAM_MATH));
    }
    text_append(out, " (of a traced step; ");
    finding_append_cell_name(run, longest, except, out);
    text_append(out, ").");
}

/* Each math once; false: there is none. */
static bool append_fused_casts(const results *run, text *out) {
    static const char *const maths[] = {"bf16", "fp16"};
    int written = 0;
    for (int m = 0; m < 2; m++) {
        bool is_fused = false;
        for (int64_t i = 0; i < run->cell_count && !is_fused; i++)
            is_fused = has_fused_casts(run->cells[i]) &&
                       strcmp(view_text(run->cells[i], PARAM_MATH), maths[m]) == 0;
        if (is_fused)
            text_format(out, written++ ? " and %s" : " Casts in %s", maths[m]);
    }
    if (written)
        text_append(out, " are fused with other ops in mode compiled and take no launch of their "
                         "own, so that their time cannot be told apart.");
    return written > 0;
}

static bool has_timed_casts(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (casts_ms(run->cells[i]) > 0)
            return true;
    return false;
}

/* That fp32 has no casts is nothing to say beside casts that are there and not seen. */
void finding_append_casts(const results *run, text *out) {
    text fused = {0};
    if (strcmp(run->verb, RUN_BENCH) != 0)
        return;
    if (!append_fused_casts(run, &fused) || has_timed_casts(run))
        append_parts(run, " Casts take", casts_ms, out);
    text_append(out, text_string(&fused));
    text_release(&fused);
}

/* A fused kernel has the scores in it, and no clock tells them apart. */
void finding_append_scores(const results *run, text *out) {
    if (longest_with(run, scores_ms))
        append_parts(run, " The scores of attention alone take", scores_ms, out);
    else
        append_parts(run, " Attention, whose scores one kernel computes with all the rest, takes",
                     fused_ms, out);
}
