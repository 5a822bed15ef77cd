/* finding_growth.c - how much longer, and how much larger, along the sweep; and where two curves cross. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/finding_parts.h"
#include "report/finding_verbs.h"
#include "report/view_parts.h"

typedef double quantity_of(const results_cell *cell);

static const char *axis_of(const results *run) {
    return strcmp(run->verb, RUN_ATTENTION) == 0 ? PARAM_SEQ : PARAM_CONTEXT;
}

static double place_of(const results *run, const results_cell *cell) {
    return results_number(cell_find_parameter(cell, axis_of(run)));
}

/* Tiles that were asked for are curves of their own. */
static bool has_same_tile(const results_cell *a, const results_cell *b) {
    const results_value *x = cell_find_parameter(a, PARAM_TILE),
                        *y = cell_find_parameter(b, PARAM_TILE);
    return (!x && !y) || view_values_are_equal(x, y);
}

static bool is_of_curve(const results *run, const results_cell *of, const results_cell *cell) {
    return of == cell ||
           (has_same_tile(of, cell) && finding_differ_only_in(of, cell, axis_of(run)));
}

/* ---- growth ---- */

/* The cell with the largest value; of one implementation, where `of` is one. */
static const results_cell *largest_cell(const results *run, quantity_of *quantity,
                                        const results_value *of) {
    const results_cell *largest = NULL;
    double most = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double its = quantity(cell);
        if (its > most &&
            (!of || view_values_are_equal(of, cell_find_parameter(cell, PARAM_IMPL)))) {
            most = its;
            largest = cell;
        }
    }
    return largest;
}

typedef struct curve {
    double *x, *y;
    int64_t count;
} curve;

static curve curve_of(const results *run, quantity_of *quantity, const results_cell *of) {
    curve c = {memory_allocate((size_t)run->cell_count, sizeof *c.x),
               memory_allocate((size_t)run->cell_count, sizeof *c.y), 0};
    for (int64_t i = 0; of && i < run->cell_count; i++) {
        double place = place_of(run, run->cells[i]), value = quantity(run->cells[i]);
        if (!is_of_curve(run, of, run->cells[i]) || !(value > 0) || !(place > 0))
            continue;
        c.x[c.count] = place;
        c.y[c.count++] = value;
    }
    return c;
}

static void curve_release(curve *c) {
    free(c->x);
    free(c->y);
}

/* Index of the largest x below the limit; -1: none. */
static int64_t largest_below(const curve *c, double limit) {
    int64_t largest = -1;
    for (int64_t i = 0; i < c->count; i++)
        if (c->x[i] < limit && (largest < 0 || c->x[i] > c->x[largest]))
            largest = i;
    return largest;
}

static double without_sign_of_zero(double k) { return fabs(k) < 0.005 ? 0 : k; }

/* "1.93 from 32768 to 65536" */
static void append_end(const curve *c, text *out) {
    int64_t to = largest_below(c, INFINITY), from = largest_below(c, c->x[to]);
    double k = statistics_growth_exponent((double[]){c->x[from], c->x[to]},
                                          (double[]){c->y[from], c->y[to]}, 2);
    text_format(out, "%.2f from %.0f to %.0f", without_sign_of_zero(k), c->x[from], c->x[to]);
}

/* A law that misses a size it was fitted to by more than this is none of that curve. */
#define MOST_MISFIT 0.5

/* Two sizes have a slope between them, and there is nothing to fit. Where no power fits all sizes, what
 * overheads hide at the small ones shows between the largest two. */
static void append_exponent(const char *axis, const curve *c, const statistics_growth *growth,
                            text *out) {
    text_format(out, " grows as %s^", axis);
    if (growth->sizes > 2 && growth->worst <= MOST_MISFIT)
        text_format(out, "%.2f, fitted to %lld sizes (the worst is %.0f %% off), and as %s^",
                    without_sign_of_zero(growth->exponent), (long long)growth->sizes,
                    100 * growth->worst, axis);
    append_end(c, out);
    text_append(out, growth->sizes > 2 ? "" : ", the slope between two sizes");
}

/* The curve to its largest value: there it is nearest to what the algorithm does. */
static void append_curve(const results *run, const char *what, quantity_of *quantity,
                         const results_value *of, text *out) {
    const char *axis = axis_of(run), *const except[] = {axis, PARAM_REPS, NULL};
    const results_cell *largest = largest_cell(run, quantity, of);
    curve c = curve_of(run, quantity, largest);
    statistics_growth growth = statistics_growth_of(c.x, c.y, c.count);
    if (!isnan(growth.exponent)) {
        text name = {0};
        finding_append_cell_name(run, largest, except, &name);
        text_format(out, " %s", what);
        append_exponent(axis, &c, &growth, out);
        text_format(out, name.length ? " (%s)." : ".", text_string(&name));
        text_release(&name);
    }
    curve_release(&c);
}

static bool is_first_of_impl(const results *run, int64_t index) {
    const results_value *impl = cell_find_parameter(run->cells[index], PARAM_IMPL);
    for (int64_t i = 0; i < index; i++)
        if (view_values_are_equal(impl, cell_find_parameter(run->cells[i], PARAM_IMPL)))
            return false;
    return impl != NULL;
}

void finding_append_growth(const results *run, text *out) {
    static const struct {
        const char *name;
        quantity_of *of;
    } QUANTITIES[] = {{"Time", finding_median_ms}, {"Peak memory", finding_peak_bytes}};
    bool has_impl = cell_find_parameter(run->cells[0], PARAM_IMPL) != NULL;
    if (!cell_find_parameter(run->cells[0], axis_of(run)))
        return;
    for (int q = 0; q < 2; q++)
        if (!has_impl)
            append_curve(run, QUANTITIES[q].name, QUANTITIES[q].of, NULL, out);
    for (int q = 0; q < 2 && has_impl; q++)
        for (int64_t i = 0; i < run->cell_count && i < FINDING_MOST_CELLS; i++)
            if (is_first_of_impl(run, i))
                append_curve(run, QUANTITIES[q].name, QUANTITIES[q].of,
                             cell_find_parameter(run->cells[i], PARAM_IMPL), out);
}

/* ---- where flash begins to win ---- */

static bool is_impl(const results_cell *cell, const char *impl) {
    return strcmp(view_text(cell, PARAM_IMPL), impl) == 0;
}

static const results_cell *partner_of(const results *run, const results_cell *flash) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (is_impl(run->cells[i], "naive") &&
            finding_differ_only_in(flash, run->cells[i], PARAM_IMPL))
            return run->cells[i];
    return NULL;
}

/* What a curve of flash says against naive. */
typedef struct crossover {
    const results_cell *flash; /* its first cell; NULL: the cell is of another curve */
    double from;               /* shortest length from which on flash always wins; INFINITY: none */
    double shortest, longest;  /* that were compared */
    int wins;
    double alone; /* shortest length at which flash alone fits; INFINITY: none */
} crossover;

/* 1: flash is faster, or alone fits; 0: it is not; -1: there is nothing to compare. */
static int does_win(const results *run, const results_cell *flash) {
    const results_cell *naive = partner_of(run, flash);
    double own = finding_median_ms(flash);
    if (!naive || isnan(own))
        return -1;
    if (naive->status == RESULTS_OOM)
        return 1;
    double other = finding_median_ms(naive);
    return isnan(other) ? -1 : own < other;
}

static crossover crossover_of(const results *run, const results_cell *of) {
    crossover c = {of, -INFINITY, INFINITY, -INFINITY, 0, INFINITY};
    for (int64_t i = 0; i < run->cell_count; i++) { /* the longest at which it does not win */
        const results_cell *cell = run->cells[i];
        int wins = is_impl(cell, "flash") && is_of_curve(run, of, cell) ? does_win(run, cell) : -1;
        if (wins < 0)
            continue;
        c.wins += wins;
        if (wins && partner_of(run, cell)->status == RESULTS_OOM)
            c.alone = fmin(c.alone, place_of(run, cell));
        c.shortest = fmin(c.shortest, place_of(run, cell));
        c.longest = fmax(c.longest, place_of(run, cell));
        if (!wins)
            c.from = fmax(c.from, place_of(run, cell));
    }
    double lost = c.from;
    c.from = INFINITY;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (is_impl(cell, "flash") && is_of_curve(run, of, cell) && place_of(run, cell) > lost &&
            does_win(run, cell) == 1)
            c.from = fmin(c.from, place_of(run, cell));
    }
    return c;
}

static bool is_first_of_curve(const results *run, int64_t index) {
    for (int64_t i = 0; i < index; i++)
        if (is_impl(run->cells[i], "flash") && is_of_curve(run, run->cells[i], run->cells[index]))
            return false;
    return is_impl(run->cells[index], "flash");
}

static bool say_the_same(const crossover *a, const crossover *b) {
    return !(a->from < b->from) && !(a->from > b->from) && !(a->shortest < b->shortest) &&
           !(a->shortest > b->shortest) && !(a->longest < b->longest) &&
           !(a->longest > b->longest) && !a->wins == !b->wins && !(a->alone < b->alone) &&
           !(a->alone > b->alone);
}

/* " from 512 on" */
static void append_from(const crossover *c, text *out) {
    if (isinf(c->from) && c->wins)
        text_format(out, "at some lengths, but not at the longest, %.0f", c->longest);
    else if (isinf(c->from))
        text_format(out, "at no length up to %.0f", c->longest);
    else if (c->from <= c->shortest)
        text_format(out, "at every length from %.0f to %.0f", c->shortest, c->longest);
    else
        text_format(out, "from %.0f on", c->from);
    if (isfinite(c->alone))
        text_format(out, ", and alone fits %s %.0f%s", c->alone < c->longest ? "from" : "at",
                    c->alone, c->alone < c->longest ? " on" : "");
}

/* Curves that say the same are named together; where all do, none is named. */
static void append_crossovers(const results *run, crossover *all, int count, text *out) {
    static const char *const except[] = {PARAM_IMPL, PARAM_SEQ, PARAM_REPS, PARAM_TILES_USED, NULL};
    int written = 0;
    for (int i = 0; i < count; i++) {
        int named = 0, alike = 0;
        if (!all[i].flash)
            continue;
        for (int j = i; j < count; j++)
            alike += all[j].flash && say_the_same(&all[i], &all[j]);
        text_append(out, written++ ? "; " : " Flash attention is faster than naive ");
        append_from(&all[i], out);
        for (int j = i; j < count; j++) {
            if (!all[j].flash || !say_the_same(&all[i], &all[j]))
                continue;
            if (alike < count) {
                text_append(out, named++ ? "), (" : " (");
                finding_append_cell_name(run, all[j].flash, except, out);
            }
            if (j > i)
                all[j].flash = NULL;
        }
        text_append(out, named ? ")" : "");
    }
    text_append(out, written ? "." : "");
}

void finding_append_crossover(const results *run, text *out) {
    enum { MOST_CURVES = 64 };
    crossover all[MOST_CURVES];
    int count = 0;
    if (strcmp(run->verb, RUN_ATTENTION) != 0 || run->cell_count > FINDING_MOST_CELLS)
        return;
    for (int64_t i = 0; i < run->cell_count && count < MOST_CURVES; i++) {
        if (!is_first_of_curve(run, i))
            continue;
        crossover c = crossover_of(run, run->cells[i]);
        if (c.shortest < c.longest)
            all[count++] = c;
    }
    append_crossovers(run, all, count, out);
}
