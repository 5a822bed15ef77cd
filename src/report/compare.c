/* compare.c - matches cells and decides; what is printed is in view_compare.c. */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view_parts.h"

/* How much was measured and what came of it, rather than what was measured. */
static bool is_incidental(const char *parameter) {
    static const char *const names[] = {
        PARAM_STEPS,      PARAM_WARMUP, PARAM_REPS,    PARAM_SEED,      PARAM_THREADS,
        PARAM_TILES_USED, PARAM_FITS,   PARAM_PEAK_AT, PARAM_FITS_WITH, NULL};
    return view_is_one_of(parameter, names);
}

static bool is_constant(const results *run, const char *key) {
    return cell_find_parameter(run->cells[0], key) && !view_parameter_varies(run, key);
}

static bool is_between(const results *a, const results *b, const char *key) {
    if (a->cell_count == 0 || b->cell_count == 0)
        return false;
    return is_constant(a, key) && is_constant(b, key) &&
           !view_values_are_equal(cell_find_parameter(a->cells[0], key),
                                  cell_find_parameter(b->cells[0], key));
}

bool comparison_is_between(const comparison *of, const char *parameter) {
    return !is_incidental(parameter) && is_between(of->a->runs[0], of->b->runs[0], parameter);
}

/* The parameters that tell cells apart. Warm-up tells the rows of a study of warm-up apart. */
static view_list deciding_parameters(const results *a, const results *b) {
    view_list all = {0}, chosen = {0};
    view_collect_parameters(a, &all);
    view_collect_parameters(b, &all);
    for (int i = 0; i < all.count; i++) {
        const char *key = all.names[i];
        bool varies = (a->cell_count && view_parameter_varies(a, key)) ||
                      (b->cell_count && view_parameter_varies(b, key));
        if (strcmp(key, PARAM_WARMUP) == 0 ? varies : !is_incidental(key) && !is_between(a, b, key))
            view_list_add(&chosen, key, "");
    }
    return chosen;
}

/* Cells of a run by what tells them apart, sorted, so that large grids are matched quickly. */
typedef struct cell_name {
    const char *name;
    int64_t index;
} cell_name;

typedef struct cell_index {
    const results *run;
    cell_name *names;
    arena *strings;
} cell_index;

static int compare_names(const void *a, const void *b) {
    return strcmp(((const cell_name *)a)->name, ((const cell_name *)b)->name);
}

static const char *name_cell(const view_list *deciding, const results_cell *cell, arena *strings) {
    text name = {0};
    text_append(&name, "");
    for (int i = 0; i < deciding->count; i++) {
        const results_value *value = cell_find_parameter(cell, deciding->names[i]);
        text_append(&name, value ? value->kind == RESULTS_TEXT ? "=" : "#" : "-");
        if (value)
            view_append_value(&name, value);
        text_append(&name, "\n");
    }
    const char *copy = arena_copy_string(strings, text_string(&name));
    text_release(&name);
    return copy;
}

static cell_index index_cells(const results *run, const view_list *deciding) {
    cell_index index = {.run = run,
                        .names = memory_allocate((size_t)run->cell_count, sizeof *index.names),
                        .strings = arena_create()};
    for (int64_t i = 0; i < run->cell_count; i++)
        index.names[i] = (cell_name){name_cell(deciding, run->cells[i], index.strings), i};
    qsort(index.names, (size_t)run->cell_count, sizeof *index.names, compare_names);
    return index;
}

static void index_release(cell_index *index) {
    free(index->names);
    arena_destroy(index->strings);
}

static const results_cell *find_cell(const cell_index *index, const char *name) {
    const cell_name *found =
        bsearch(&(cell_name){.name = name}, index->names, (size_t)index->run->cell_count,
                sizeof *index->names, compare_names);
    return found ? index->run->cells[found->index] : NULL;
}

/* Both sides, a run each. */
typedef struct side {
    cell_index *rounds;
    int count;
} side;

static side index_side(const run_set *set, const view_list *deciding) {
    side made = {memory_allocate((size_t)set->count, sizeof *made.rounds), set->count};
    for (int i = 0; i < set->count; i++)
        made.rounds[i] = index_cells(set->runs[i], deciding);
    return made;
}

static void side_release(side *of) {
    for (int i = 0; i < of->count; i++)
        index_release(&of->rounds[i]);
    free(of->rounds);
}

/* Of the whole pass, else the first series of times that is not warm-up. */
static const results_series *times_of(const results_cell *cell) {
    const results_series *whole = cell ? view_whole_steps(cell) : NULL;
    for (int i = 0; cell && !whole && i < cell->series_count; i++) {
        const results_series *s = cell->series[i];
        if (!isnan(view_ms_per_unit(s->unit)) &&
            strncmp(s->name, SERIES_WARMUP, strlen(SERIES_WARMUP)) != 0)
            whole = s;
    }
    return whole && whole->count > 0 && !isnan(view_ms_per_unit(whole->unit)) ? whole : NULL;
}

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the fastest tenth of the samples took at most, in their unit. */
static double fastest_tenth(const results_series *series) {
    double *sorted = memory_allocate((size_t)series->count, sizeof *sorted);
    for (int64_t i = 0; i < series->count; i++)
        sorted[i] = results_series_at(series, i);
    qsort(sorted, (size_t)series->count, sizeof *sorted, compare_reals);
    double found = sorted[(series->count - 1) / 10];
    free(sorted);
    return found;
}

/* One time in ms of each round in which the cell is OK, in order. Other programs only ever make a step
 * longer, and on a busy machine most of them: between two processes of one program the first decile
 * differs half as much as the first quartile. */
static int64_t round_times(const side *of, const char *name, double *out) {
    int64_t count = 0;
    for (int i = 0; i < of->count; i++) {
        const results_cell *cell = find_cell(&of->rounds[i], name);
        const results_series *times = times_of(cell);
        if (times && cell->status == RESULTS_OK)
            out[count++] = fastest_tenth(times) * view_ms_per_unit(times->unit);
    }
    return count;
}

/* Steps of one run; of very many, medians of consecutive ones. */
enum { MOST_STEPS = 256 };

static int64_t step_times(const results_cell *cell, double *out) {
    const results_series *times = times_of(cell);
    if (!times || cell->status != RESULTS_OK)
        return 0;
    double factor = view_ms_per_unit(times->unit);
    int64_t count = times->count < MOST_STEPS ? times->count : MOST_STEPS;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = times->count * i / count, to = times->count * (i + 1) / count;
        double *part = memory_allocate((size_t)(to - from), sizeof *part);
        for (int64_t j = from; j < to; j++)
            part[j - from] = results_series_at(times, j) * factor;
        out[i] = statistics_of_reals(part, to - from).median;
        free(part);
    }
    return count;
}

static void widen(bootstrap_ratio *ratio, double allowance) {
    ratio->low /= 1 + allowance;
    ratio->high *= 1 + allowance;
}

/* What all rows have in common. */
typedef struct compare_work {
    const comparison *of;
    side a, b;
    double confidence;
} compare_work;

static void compare_times(const compare_work *work, const char *name, compare_row *row) {
    enum { SEED = 17 };
    const comparison *of = work->of;
    double confidence = work->confidence;
    int most = of->a->count > of->b->count ? of->a->count : of->b->count;
    most = most > MOST_STEPS ? most : MOST_STEPS;
    double *a = memory_allocate((size_t)most * 2, sizeof *a), *b = a + most;
    int64_t a_count = round_times(&work->a, name, a), b_count = round_times(&work->b, name, b);
    row->a_rounds = (int)a_count;
    row->b_rounds = (int)b_count;
    bool has_rounds = a_count > 1 && b_count > 1;
    bool has_enough = a_count >= COMPARE_ENOUGH_ROUNDS && b_count >= COMPARE_ENOUGH_ROUNDS;
    if (!has_rounds) {
        a_count = step_times(row->a, a);
        b_count = step_times(row->b, b);
    }
    row->a_ms = statistics_of_reals(a, a_count).median;
    row->b_ms = statistics_of_reals(b, b_count).median;
    row->time = has_rounds && of->is_paired && a_count == b_count
                    ? bootstrap_paired(a, b, a_count, confidence, SEED)
                    : bootstrap_independent(a, a_count, b, b_count, confidence, SEED);
    if (!has_enough)
        widen(&row->time, of->options.between_runs);
    row->of_time = compare_decide(row->time, of->options.threshold);
    free(a);
}

compare_verdict compare_decide(bootstrap_ratio r, double threshold) {
    double limit = 1 + threshold;
    return isnan(r.ratio)                          ? COMPARE_NONE
           : r.ratio >= limit && r.low > 1         ? COMPARE_WORSE
           : r.ratio <= 1 / limit && r.high < 1    ? COMPARE_BETTER
           : r.low >= 1 / limit && r.high <= limit ? COMPARE_SAME
                                                   : COMPARE_UNDECIDED;
}

/* Bytes and launches are counted, not measured: there is no doubt to leave room for. */
static compare_verdict compare_counts(const results_cell *a, const results_cell *b,
                                      const char *metric, double threshold) {
    double before = view_metric(a, metric), after = view_metric(b, metric);
    if (!(before >= 0) || !(after >= 0))
        return COMPARE_NONE;
    return after > before * (1 + threshold)   ? COMPARE_WORSE
           : after < before / (1 + threshold) ? COMPARE_BETTER
                                              : COMPARE_SAME;
}

static void compare_cells(const compare_work *work, const char *name, compare_row *row) {
    const comparison *of = work->of;
    row->a_ms = row->b_ms = (double)NAN;
    row->time = (bootstrap_ratio){(double)NAN, (double)NAN, (double)NAN};
    if (!row->a || !row->b)
        return;
    row->is_broken = row->a->status == RESULTS_OK && row->b->status != RESULTS_OK &&
                     row->b->status != RESULTS_INCOMPLETE;
    row->of_launches = compare_counts(row->a, row->b, METRIC_LAUNCHES, 0);
    if (row->a->status != RESULTS_OK || row->b->status != RESULTS_OK)
        return;
    row->of_memory = compare_counts(row->a, row->b, METRIC_PEAK_BYTES, of->options.threshold);
    compare_times(work, name, row);
}

/* Rounds were made in turns, when neither round i of A nor that of B began after the next ones. */
static bool are_interleaved(const run_set *a, const run_set *b) {
    if (a->count != b->count || a->count < 2)
        return false;
    for (int i = 0; i + 1 < a->count; i++) {
        const char *const now[] = {a->runs[i]->started, b->runs[i]->started},
                          *const next[] = {a->runs[i + 1]->started, b->runs[i + 1]->started};
        for (int j = 0; j < 4; j++)
            if (strcmp(now[j / 2], next[j % 2]) > 0)
                return false;
    }
    return true;
}

static dyno_status check_verbs(const run_set *a, const run_set *b) {
    const char *verb = a->runs[0]->verb;
    const run_set *const sides[] = {a, b};
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < sides[s]->count; i++)
            if (strcmp(sides[s]->runs[i]->verb, verb) != 0)
                return dyno_fail(DYNO_INVALID,
                                 "runs of `dyno %s` and of `dyno %s` have nothing to compare; take "
                                 "two of one verb",
                                 text_quote(verb).text, text_quote(sides[s]->runs[i]->verb).text);
    return DYNO_OK;
}

static void add_row(comparison *out, const results_cell *a, const results_cell *b) {
    MEMORY_GROW(out->rows, out->count, out->capacity);
    out->rows[out->count++] = (compare_row){.a = a, .b = b};
}

/* Those of A in its order, then those that only B has. Returns how many both have. */
static int64_t match_cells(const compare_work *work, const view_list *deciding, comparison *out) {
    const results *a = out->a->runs[0], *b = out->b->runs[0];
    arena *strings = arena_create();
    int64_t in_both = 0;
    for (int64_t i = 0; i < a->cell_count; i++) {
        const results_cell *match =
            find_cell(&work->b.rounds[0], name_cell(deciding, a->cells[i], strings));
        add_row(out, a->cells[i], match);
        in_both += match != NULL;
    }
    for (int64_t i = 0; i < b->cell_count; i++)
        if (!find_cell(&work->a.rounds[0], name_cell(deciding, b->cells[i], strings)))
            add_row(out, NULL, b->cells[i]);
    arena_destroy(strings);
    return in_both;
}

static void compare_all(compare_work *work, const view_list *deciding, comparison *out) {
    arena *strings = arena_create();
    for (int64_t i = 0; i < out->count; i++) {
        const results_cell *cell = out->rows[i].a ? out->rows[i].a : out->rows[i].b;
        compare_cells(work, name_cell(deciding, cell, strings), &out->rows[i]);
    }
    arena_destroy(strings);
}

dyno_status compare_runs(const run_set *a, const run_set *b, compare_options options,
                         comparison *out) {
    *out = (comparison){.a = a, .b = b, .options = options, .is_paired = are_interleaved(a, b)};
    RETURN_IF_FAILED(check_verbs(a, b));
    view_list deciding = deciding_parameters(a->runs[0], b->runs[0]);
    compare_work work = {.of = out, .a = index_side(a, &deciding), .b = index_side(b, &deciding)};
    int64_t in_both = match_cells(&work, &deciding, out);
    /* Each of many intervals may miss; together they shall not. */
    if (in_both) {
        work.confidence = 1 - (1 - options.confidence) / (double)in_both;
        compare_all(&work, &deciding, out);
    }
    side_release(&work.a);
    side_release(&work.b);
    return in_both
               ? DYNO_OK
               : dyno_fail(DYNO_INVALID,
                           "the two runs have no cell in common: of %lld and %lld cells no two "
                           "have the same parameters",
                           (long long)a->runs[0]->cell_count, (long long)b->runs[0]->cell_count);
}

void comparison_release(comparison *of) {
    free(of->rows);
    *of = (comparison){0};
}

int64_t comparison_regressions(const comparison *of) {
    int64_t count = 0;
    for (int64_t i = 0; i < of->count; i++) {
        const compare_row *row = &of->rows[i];
        count += row->is_broken || row->of_time == COMPARE_WORSE || row->of_memory == COMPARE_WORSE;
    }
    return count;
}
