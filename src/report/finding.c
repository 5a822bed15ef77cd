#include "report/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/finding_parts.h"
#include "report/finding_verbs.h"
#include "report/profile_rows.h"
#include "report/view_parts.h"

void finding_append_speed(const results *run, text *out) {
    const results_cell *best = NULL;
    double most = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double rate = view_metric(cell, METRIC_TOKENS) / finding_median_ms(cell) * 1e3;
        bool is_training = strcmp(view_text(cell, PARAM_PASS), "step") == 0;
        if (is_training && rate > most && isfinite(rate)) {
            most = rate;
            best = cell;
        }
    }
    if (!best)
        return;
    text_format(out, "The fastest training step makes %.0f tokens/s (%.2f ms; ", most,
                finding_median_ms(best));
    finding_append_cell_name(run, best, NULL, out);
    text_append(out, ").");
}

void finding_append_misfits(const results *run, text *out) {
    int64_t count = 0;
    const results_cell *first = NULL;
    for (int64_t i = 0; i < run->cell_count; i++)
        if (run->cells[i]->status == RESULTS_OOM) {
            first = first ? first : run->cells[i];
            count++;
        }
    if (!first)
        return;
    text_format(out, "%lld of %lld cells do%s not fit, the first: ", (long long)count,
                (long long)run->cell_count, count == 1 ? "es" : "");
    finding_append_cell_name(run, first, NULL, out);
    text note = {0};
    view_append_note(&note, first);
    if (note.length)
        text_format(out, " (%s)", text_string(&note));
    text_append(out, ".");
    text_release(&note);
}

static int find_column(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return i;
    return -1;
}

/* The row with the largest time of the cell, and its share of all of it. */
static const results_row *top_row(const results_breakdown *b, double *share) {
    int time = find_column(b, COLUMN_TIME);
    const results_row *top = NULL;
    double most = 0, sum = 0;
    for (int64_t i = 0; time >= 0 && i < b->row_count; i++) {
        double value = results_number(&b->rows[i].values[time]);
        if (!(value > 0))
            continue;
        sum += value;
        if (value > most && b->rows[i].keys[0][0] != '(') {
            most = value;
            top = &b->rows[i];
        }
    }
    *share = sum > 0 ? 100 * most / sum : 0;
    return top;
}

/* How much of a training step a cell is. */
static int extent_of(const results_cell *cell) {
    static const char *const passes[] = {"forward", "forward+backward", "step"};
    int extent = 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(view_text(cell, PARAM_PASS), passes[i]) == 0)
            extent = i;
    return extent;
}

/* Whole steps are what people train with: a forward is taken only where nothing more was traced. */
static const results_cell *fastest_profile(const results *run) {
    const results_cell *best = NULL;
    double most = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double rate = view_metric(cell, METRIC_TOKENS) / finding_median_ms(cell);
        if (cell->status != RESULTS_OK || !cell_find_breakdown(cell, BREAKDOWN_KINDS) ||
            !(rate > 0))
            continue;
        int more = best ? extent_of(cell) - extent_of(best) : 1;
        if (more > 0 || (more == 0 && rate > most)) {
            most = rate;
            best = cell;
        }
    }
    return best;
}

/* What is furthest above its floor in the fastest cell, where floors are known. */
static bool append_above_floor(const results *run, text *out) {
    const results_cell *cell = fastest_profile(run);
    text said = {0};
    if (cell)
        profile_append_next(run, cell, &said);
    if (said.length) {
        text_format(out, "%s (", text_string(&said));
        finding_append_cell_name(run, cell, NULL, out);
        text_append(out, ").");
    }
    bool has_said = said.length > 0;
    text_release(&said);
    return has_said;
}

/* What takes most time of a cell. */
typedef struct top_part {
    const results_row *row; /* NULL: the cell was not traced */
    double share;           /* percent of the cell */
    bool is_kernel;         /* else a class of kernels */
} top_part;

static top_part top_part_of(const results_cell *cell) {
    static const char *const tables[] = {BREAKDOWN_BY_KERNEL, BREAKDOWN_BY_CLASS};
    top_part top = {NULL, 0, false};
    for (int t = 0; t < 2 && cell->status == RESULTS_OK && !top.row; t++) {
        const results_breakdown *b = cell_find_breakdown(cell, tables[t]);
        top.row = b && b->key_count ? top_row(b, &top.share) : NULL;
        top.is_kernel = t == 0;
    }
    return top;
}

/* Of whole steps, where any was traced: a share of the slowest is worth most. `rivals` counts those of
 * the same extent. */
static const results_cell *slowest_traced(const results *run, int *rivals) {
    const results_cell *slowest = NULL;
    double most = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        int more = slowest ? extent_of(cell) - extent_of(slowest) : 1;
        if (more < 0 || !top_part_of(cell).row)
            continue;
        double ms = finding_median_ms(cell);
        *rivals = more > 0 ? 1 : *rivals + 1;
        if (more > 0 || ms > most) {
            most = isnan(ms) ? 0 : ms;
            slowest = cell;
        }
    }
    return slowest;
}

/* Else what takes most. */
void finding_append_next(const results *run, text *out) {
    if (append_above_floor(run, out))
        return;
    int rivals = 0;
    const results_cell *cell = slowest_traced(run, &rivals);
    if (!cell)
        return;
    top_part top = top_part_of(cell);
    bool is_pass = view_text(cell, PARAM_PASS)[0] && extent_of(cell) < 2;
    text_format(out, "%s %s takes the most time, %.0f %% of %s %s (",
                top.is_kernel ? "Kernel" : "Class", top.row->keys[0], top.share,
                rivals > 1 ? "the slowest" : "a", is_pass ? "pass" : "step");
    finding_append_cell_name(run, cell, NULL, out);
    text_append(out, ").");
}

/* The quartiles of samples. */
typedef struct spread {
    double first, third;
} spread;

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double between(const double *sorted, int64_t count, double share) {
    double at = share * (double)(count - 1);
    int64_t below = (int64_t)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

static spread spread_of(const results_series *series) {
    double *sorted = memory_allocate((size_t)series->count + 1, sizeof *sorted);
    for (int64_t i = 0; i < series->count; i++)
        sorted[i] = results_series_at(series, i);
    qsort(sorted, (size_t)series->count, sizeof *sorted, compare_reals);
    spread found = {between(sorted, series->count, 0.25), between(sorted, series->count, 0.75)};
    free(sorted);
    return found;
}

/* Two cells that differ in one parameter only, and what follows from it. */
typedef struct speedup {
    const results_cell *slow, *fast; /* NULL: there are no two such cells */
    double ratio;
} speedup;

/* The largest ratio; of one pass, unless that is NULL. */
static speedup largest_speedup(const results *run, const char *parameter, const char *pass) {
    speedup best = {NULL, NULL, 1};
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int64_t j = 0; j < run->cell_count; j++) {
            const results_cell *a = run->cells[i], *b = run->cells[j];
            double ratio = finding_median_ms(a) / finding_median_ms(b);
            if (ratio > best.ratio && (!pass || strcmp(view_text(a, PARAM_PASS), pass) == 0) &&
                finding_differ_only_in(a, b, parameter))
                best = (speedup){a, b, ratio};
        }
    return best;
}

/* Settings whose defaults follow from another one: the two cells may differ in them as well. */
static const char *const FOLLOWERS[] = {PARAM_ATTENTION, PARAM_GRADIENTS};
enum { FOLLOWER_COUNT = sizeof FOLLOWERS / sizeof *FOLLOWERS };

/* "compiled (attention flash, gradients bf16)": without what is the same in the other cell. */
static void append_way_of(const results_cell *cell, const results_cell *other,
                          const char *parameter, text *out) {
    int written = 0;
    view_append_value(out, cell_find_parameter(cell, parameter));
    for (int i = 0; i < FOLLOWER_COUNT; i++) {
        const results_value *its = cell_find_parameter(cell, FOLLOWERS[i]);
        if (!its || view_values_are_equal(its, cell_find_parameter(other, FOLLOWERS[i])))
            continue;
        text_format(out, written++ ? ", %s " : " (%s ", FOLLOWERS[i]);
        view_append_value(out, its);
    }
    text_append(out, written ? ")" : "");
}

/* What the two cells differ in is said already. */
static void append_common_name(const results *run, const speedup *s, const char *parameter,
                               text *out) {
    const char *except[FOLLOWER_COUNT + 2] = {parameter};
    for (int i = 0, count = 1; i < FOLLOWER_COUNT; i++)
        if (!view_values_are_equal(cell_find_parameter(s->slow, FOLLOWERS[i]),
                                   cell_find_parameter(s->fast, FOLLOWERS[i])))
            except[count++] = FOLLOWERS[i];
    text name = {0};
    finding_append_cell_name(run, s->fast, except, &name);
    if (name.length)
        text_format(out, " (%s)", text_string(&name));
    text_release(&name);
}

/* Whole training steps are what people wait for: of a forward only where no two steps compare. */
static void append_speedup(const results *run, const char *parameter, text *out) {
    speedup best = largest_speedup(run, parameter, "step");
    if (!best.slow)
        best = largest_speedup(run, parameter, NULL);
    if (!best.slow)
        return;
    spread s = spread_of(view_whole_steps(best.slow)), f = spread_of(view_whole_steps(best.fast));
    text_format(out, " At best %s ", parameter);
    append_way_of(best.fast, best.slow, parameter, out);
    text_format(out, " is %.2f times as fast as ", best.ratio);
    append_way_of(best.slow, best.fast, parameter, out);
    text_format(out, ", %.2f to %.2f between quartiles", s.first / f.third, s.third / f.first);
    append_common_name(run, &best, parameter, out);
    text_append(out, ".");
}

static void append_peak(const results *run, text *out) {
    const results_cell *most = NULL;
    double bytes = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        double its = finding_peak_bytes(run->cells[i]);
        if (its > bytes) {
            bytes = its;
            most = run->cells[i];
        }
    }
    if (!most)
        return;
    text_append(out, " The largest peak is ");
    finding_append_bytes(bytes, out);
    text_append(out, " (");
    finding_append_cell_name(run, most, NULL, out);
    text_append(out, ").");
}

static void append_next(const results *run, text *out) {
    text next = {0};
    finding_append_next(run, &next);
    if (next.length)
        text_format(out, " %s", text_string(&next));
    text_release(&next);
}

/* Of the first way to compute that the run has several of; tiles have a sentence of their own. */
static void append_way(const results *run, text *out) {
    static const char *const ways[] = {PARAM_IMPL, PARAM_MODE, PARAM_MATH};
    for (int i = 0; i < 3 && run->cell_count <= FINDING_MOST_CELLS; i++)
        if (cell_find_parameter(run->cells[0], ways[i]) && view_parameter_varies(run, ways[i])) {
            append_speedup(run, ways[i], out);
            return;
        }
}

void finding_append(const results *run, text *out) {
    /* What does not fit and what to do next, then what was asked, then the peak. */
    static void (*const SENTENCES[])(const results *run, text *out) = {
        finding_append_misfits,
        append_next,
        append_way,
        finding_append_tiles,
        finding_append_crossover,
        finding_append_growth,
        finding_append_utilization,
        finding_append_backward,
        finding_append_casts,
        finding_append_scores,
        finding_append_accumulation,
        finding_append_policy,
        finding_append_bandwidth,
        finding_append_ranks,
        finding_append_warmup,
        finding_append_recompute,
        finding_append_overlap,
        finding_append_sharding,
        append_peak,
    };
    text said = {0};
    if (!run->cell_count)
        return;
    for (size_t i = 0; i < sizeof SENTENCES / sizeof *SENTENCES; i++)
        SENTENCES[i](run, &said);
    const char *sentences = text_string(&said);
    text_append(out, sentences + strspn(sentences, " "));
    text_release(&said);
}
