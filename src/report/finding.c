#include "report/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/finding_verbs.h"
#include "report/profile_rows.h"
#include "report/view_parts.h"

static bool is_verb(const results *run, const char *verb) { return strcmp(run->verb, verb) == 0; }

double finding_median_ms(const results_cell *cell) {
    const results_series *steps = view_whole_steps(cell);
    if (cell->status != RESULTS_OK || view_steps_status(cell) != RESULTS_OK || !steps)
        return (double)NAN;
    return statistics_of_series(steps).median * view_ms_per_unit(steps->unit);
}

/* That follow from another parameter, or are no setting of the measurement. */
static const char *const FREE_PARAMETERS[] = {PARAM_REPS,      PARAM_TILE,      PARAM_TILES_USED,
                                              PARAM_ATTENTION, PARAM_GRADIENTS, NULL};

bool finding_differ_only_in(const results_cell *a, const results_cell *b, const char *parameter) {
    if (view_values_are_equal(cell_find_parameter(a, parameter), cell_find_parameter(b, parameter)))
        return false;
    for (int i = 0; i < a->parameters.count; i++) {
        const char *key = a->parameters.entries[i].key;
        if (strcmp(key, parameter) != 0 && !view_is_one_of(key, FREE_PARAMETERS) &&
            !view_values_are_equal(&a->parameters.entries[i].value, cell_find_parameter(b, key)))
            return false;
    }
    return true;
}

/* "model small, context 128, pass step": of what varies in the run. */
static void append_cell_name(const results *run, const results_cell *cell, text *out) {
    bool is_first = true;
    static const char *const never[] = {PARAM_TILES_USED, PARAM_PEAK_AT,  PARAM_FITS_WITH,
                                        PARAM_THREADS,    PARAM_RESIDUAL, NULL};
    for (int i = 0; i < cell->parameters.count; i++) {
        const results_entry *entry = &cell->parameters.entries[i];
        bool is_named = strcmp(entry->key, PARAM_MODEL) == 0 || strcmp(entry->key, PARAM_PASS) == 0;
        if (view_is_one_of(entry->key, never) || view_is_in_the_models_name(cell, entry->key) ||
            (!is_named && !view_parameter_varies(run, entry->key)))
            continue;
        text_format(out, is_first ? "%s " : ", %s ", entry->key);
        view_append_value(out, &entry->value);
        is_first = false;
    }
}

void finding_append_speed(const results *run, text *out) {
    const results_cell *best = NULL;
    double most = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double rate = view_metric(cell, METRIC_TOKENS) / finding_median_ms(cell) * 1e3;
        bool is_training = strcmp(view_text(cell, PARAM_PASS), "step") == 0;
        if (is_training && rate > most) {
            most = rate;
            best = cell;
        }
    }
    if (!best)
        return;
    text_format(out, "The fastest training step makes %.0f tokens/s (%.2f ms; ", most,
                finding_median_ms(best));
    append_cell_name(run, best, out);
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
    append_cell_name(run, first, out);
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
        append_cell_name(run, cell, out);
        text_append(out, ").");
    }
    bool has_said = said.length > 0;
    text_release(&said);
    return has_said;
}

/* Else what takes most. */
void finding_append_next(const results *run, text *out) {
    if (append_above_floor(run, out))
        return;
    static const char *const tables[] = {BREAKDOWN_BY_KERNEL, BREAKDOWN_BY_CLASS};
    const results_cell *last = NULL;
    const results_row *top = NULL;
    double share = 0;
    bool is_kernel = false;
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int t = 0; t < 2 && run->cells[i]->status == RESULTS_OK; t++) {
            const results_breakdown *b = cell_find_breakdown(run->cells[i], tables[t]);
            double its_share;
            const results_row *its = b && b->key_count ? top_row(b, &its_share) : NULL;
            if (its) {
                last = run->cells[i];
                top = its;
                share = its_share;
                is_kernel = t == 0;
                break;
            }
        }
    if (!top)
        return;
    text_format(out, "%s %s takes the most time, %.0f %% of a step (",
                is_kernel ? "Kernel" : "Class", top->keys[0], share);
    append_cell_name(run, last, out);
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

/* The largest ratio between two cells that differ in one parameter only. */
static void append_speedup(const results *run, const char *parameter, text *out) {
    const results_cell *slow = NULL, *fast = NULL;
    double most = 1;
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int64_t j = 0; j < run->cell_count; j++) {
            const results_cell *a = run->cells[i], *b = run->cells[j];
            double ratio = finding_median_ms(a) / finding_median_ms(b);
            if (ratio > most && finding_differ_only_in(a, b, parameter)) {
                most = ratio;
                slow = a;
                fast = b;
            }
        }
    if (!slow)
        return;
    spread s = spread_of(view_whole_steps(slow)), f = spread_of(view_whole_steps(fast));
    text_format(out, " At best %s ", parameter);
    view_append_value(out, cell_find_parameter(fast, parameter));
    text_format(out, " is %.2f times as fast as ", most);
    view_append_value(out, cell_find_parameter(slow, parameter));
    text_format(out, " (%.2f to %.2f between quartiles; ", s.first / f.third, s.third / f.first);
    append_cell_name(run, fast, out);
    text_append(out, ").");
}

static void append_growth(const results *run, text *out) {
    enum { MOST = 256 };
    double x[MOST], y[MOST];
    int64_t count = 0;
    const results_cell *first = NULL;
    const char *axis = is_verb(run, RUN_ATTENTION) ? PARAM_SEQ : PARAM_CONTEXT;
    for (int64_t i = 0; i < run->cell_count && count < MOST; i++) {
        const results_cell *cell = run->cells[i];
        if (isnan(finding_median_ms(cell)))
            continue;
        bool is_alike = true;
        for (int p = 0; first && p < cell->parameters.count && is_alike; p++) {
            const char *key = cell->parameters.entries[p].key;
            static const char *const free_ones[] = {PARAM_REPS, PARAM_TILE, PARAM_TILES_USED, NULL};
            is_alike = strcmp(key, axis) == 0 || view_is_one_of(key, free_ones) ||
                       view_values_are_equal(&cell->parameters.entries[p].value,
                                             cell_find_parameter(first, key));
        }
        if (!is_alike)
            continue;
        first = first ? first : cell;
        x[count] = results_number(cell_find_parameter(cell, axis));
        y[count++] = finding_median_ms(cell);
    }
    double exponent = count > 1 ? statistics_growth_exponent(x, y, count) : (double)NAN;
    if (isnan(exponent))
        return;
    text_format(out, " Time grows as %s^%.2f over %lld sizes (fitted; ", axis, exponent,
                (long long)count);
    text name = {0};
    append_cell_name(run, first, &name);
    text_format(out, "as %s).", text_string(&name));
    text_release(&name);
}

static void append_peak(const results *run, text *out) {
    const results_cell *most = NULL;
    double bytes = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        double its = view_metric(run->cells[i], METRIC_PEAK_BYTES);
        its = isnan(its) ? view_metric(run->cells[i], METRIC_PREDICTED_BYTES) : its;
        if (its > bytes && its < 0x1p62) {
            bytes = its;
            most = run->cells[i];
        }
    }
    if (!most)
        return;
    text_format(out, " The largest peak is %s (", units_bytes((int64_t)bytes).text);
    append_cell_name(run, most, out);
    text_append(out, ").");
}

void finding_append(const results *run, text *out) {
    enum { MOST_PAIRS = 2000 };
    text said = {0};
    if (!run->cell_count)
        return;
    finding_append_misfits(run, &said);
    text next = {0};
    finding_append_next(run, &next);
    if (next.length)
        text_format(&said, " %s", text_string(&next));
    text_release(&next);
    static const char *const ways[] = {PARAM_IMPL, PARAM_MODE, PARAM_MATH, PARAM_TILE};
    for (int i = 0; i < 4 && run->cell_count <= MOST_PAIRS; i++)
        if (cell_find_parameter(run->cells[0], ways[i]) && view_parameter_varies(run, ways[i])) {
            append_speedup(run, ways[i], &said);
            break;
        }
    append_growth(run, &said);
    finding_append_accumulation(run, &said);
    finding_append_policy(run, &said);
    finding_append_bandwidth(run, &said);
    finding_append_ranks(run, &said);
    if (run->cell_count <= MOST_PAIRS) {
        finding_append_warmup(run, &said);
        finding_append_recompute(run, &said);
    }
    append_peak(run, &said);
    const char *sentence = text_string(&said);
    text_append(out, sentence + strspn(sentence, " "));
    text_release(&said);
}
