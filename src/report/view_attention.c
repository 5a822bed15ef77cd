/* view_attention.c - attention alone: a row for each point of the grid, and how time grows.
 *
 * A point has up to two cells, of the pass "forward" and of "forward+backward", which follow one
 * another and agree in all parameters but the pass and what depends on it. Each has a status of
 * its own: a forward that fits says nothing of a backward that does not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/statistics.h"
#include "report/view.h"
#include "report/view_parts.h"

typedef struct row {
    const results_cell *forward, *whole; /* either may be NULL, not both */
} row;

typedef struct attention_view {
    const results *run;
    report_table *table;
    row *rows;
    int64_t row_count;
    view_list parameters; /* that have a column */
    bool has_speedups;
    bool has_tiles, has_tile_choice; /* a column for them; several at the same sizes */
    bool is_full;                    /* every column: CSV */
} attention_view;

static const results_cell *any_cell(const row *r) { return r->forward ? r->forward : r->whole; }

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

/* Whether all parameters are the same, but those of `except` (ends with NULL). */
static bool cells_agree(const results_cell *a, const results_cell *b, const char *const *except) {
    for (int i = 0; i < a->parameters.count; i++) {
        const results_entry *entry = &a->parameters.entries[i];
        if (!is_one_of(entry->key, except) &&
            !view_values_are_equal(&entry->value, cell_find_parameter(b, entry->key)))
            return false;
    }
    return true;
}

static bool has_text(const results_cell *cell, const char *key, const char *wanted) {
    const results_value *value = cell_find_parameter(cell, key);
    return value && value->kind == RESULTS_TEXT && strcmp(value->text, wanted) == 0;
}

static void pair_cells(attention_view *view) {
    static const char *const except[] = {"pass", "reps", "tiles_used", NULL};
    const results *run = view->run;
    view->rows = memory_allocate((size_t)run->cell_count + 1, sizeof *view->rows);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (!has_text(cell, "pass", "forward+backward")) {
            view->rows[view->row_count++].forward = cell;
            continue;
        }
        row *last = view->row_count ? &view->rows[view->row_count - 1] : NULL;
        if (last && !last->whole && cells_agree(last->forward, cell, except))
            last->whole = cell;
        else
            view->rows[view->row_count++].whole = cell;
    }
}

/* A cell that calls itself OK with fewer samples than repetitions did not finish. */
static results_status trusted_status(const results_cell *cell) {
    const results_series *series = cell_find_series(cell, "step");
    const results_value *reps = cell_find_parameter(cell, "reps");
    if (cell->status != RESULTS_OK)
        return cell->status;
    bool is_whole = series && series->count > 0 &&
                    !(reps && reps->kind == RESULTS_INTEGER && series->count < reps->integer);
    return is_whole ? RESULTS_OK : RESULTS_INCOMPLETE;
}

static bool is_ok(const results_cell *cell) { return cell && trusted_status(cell) == RESULTS_OK; }

static statistics samples_ms(const results_cell *cell, const char *name) {
    const results_series *series = is_ok(cell) ? cell_find_series(cell, name) : NULL;
    statistics s = statistics_of_series(series);
    double ms = series ? view_ms_per_unit(series->unit) : (double)NAN;
    s.median *= ms;
    s.std *= ms;
    return s;
}

/* The three times that are measured. */
enum { FORWARD, BACKWARD, END_TO_END, TIME_COUNT };
static const char *const time_names[TIME_COUNT] = {"forward", "backward", "end-to-end"};

static statistics row_time(const row *r, int which) {
    return which == FORWARD    ? samples_ms(r->forward, "step")
           : which == BACKWARD ? samples_ms(r->whole, "backward")
                               : samples_ms(r->whole, "step");
}

static double row_parameter(const row *r, const char *key) {
    return results_number(cell_find_parameter(any_cell(r), key));
}

/* Whatever the way: 4 N^2 d for each head, half of it under a causal mask; 2.5 times that back. */
static double row_tflops(const row *r, int which) {
    static const double times_forward[TIME_COUNT] = {1, 2.5, 3.5};
    double seq = row_parameter(r, "seq"), flops = 4 * seq * seq * row_parameter(r, "head_dim") *
                                                  row_parameter(r, "batch") *
                                                  row_parameter(r, "heads");
    if (has_text(any_cell(r), "causal", "yes"))
        flops /= 2;
    double ms = row_time(r, which).median;
    return ms > 0 ? flops * times_forward[which] / ms / 1e9 : (double)NAN;
}

/* How many times as fast as the run's first way to compute the same. */
static double row_speedup(const attention_view *view, const row *r, int which) {
    static const char *const except[] = {"pass", "reps",       "impl", "mode",
                                         "tile", "tiles_used", NULL};
    static const char *const ways[] = {"impl", "mode"};
    const results_cell *first = any_cell(&view->rows[0]), *cell = any_cell(r);
    for (int64_t i = 0; i < view->row_count; i++) {
        const results_cell *other = any_cell(&view->rows[i]);
        bool is_first_way = true;
        for (int w = 0; w < 2; w++)
            is_first_way =
                is_first_way && view_values_are_equal(cell_find_parameter(first, ways[w]),
                                                      cell_find_parameter(other, ways[w]));
        if (is_first_way && cells_agree(cell, other, except))
            return row_time(&view->rows[i], which).median / row_time(r, which).median;
    }
    return (double)NAN;
}

/* Whether no row of the same but for the tile is faster. */
static bool is_best_tile(const attention_view *view, const row *r, int which) {
    static const char *const except[] = {"pass", "reps", "tile", "tiles_used", NULL};
    double ms = row_time(r, which).median;
    if (!(ms > 0) || !cell_find_parameter(any_cell(r), "tile"))
        return false;
    for (int64_t i = 0; i < view->row_count; i++)
        if (row_time(&view->rows[i], which).median < ms &&
            cells_agree(any_cell(r), any_cell(&view->rows[i]), except))
            return false;
    return true;
}

/* "64x128", or "auto: 128x128/64x128" with what forward and backward took. */
static void add_tile(report_table *table, const row *r) {
    const results_cell *cell = r->whole ? r->whole : r->forward;
    const results_value *asked = cell_find_parameter(cell, "tile");
    const results_value *used = cell_find_parameter(cell, "tiles_used");
    text shown = {0};
    if (asked)
        view_append_value(&shown, asked);
    if (used && has_text(cell, "tile", "auto")) {
        text_append(&shown, ": ");
        view_append_value(&shown, used);
    }
    table_add_text(table, text_string(&shown));
    text_release(&shown);
}

static void add_best(const attention_view *view, const row *r) {
    text best = {0};
    for (int i = 0; i < TIME_COUNT; i++)
        if (is_best_tile(view, r, i))
            text_format(&best, "%s%s", best.length ? ", " : "", time_names[i]);
    table_add_text(view->table, text_string(&best));
    text_release(&best);
}

static void add_status(report_table *table, const row *r) {
    if (!r->forward || !r->whole || trusted_status(r->forward) == trusted_status(r->whole)) {
        table_add_text(table, results_status_name(trusted_status(any_cell(r))));
        return;
    }
    text both = {0};
    text_format(&both, "forward %s, backward %s", results_status_name(trusted_status(r->forward)),
                results_status_name(trusted_status(r->whole)));
    table_add_text(table, text_string(&both));
    text_release(&both);
}

static void add_note(report_table *table, const row *r) {
    text forward = {0}, whole = {0}, both = {0};
    if (r->forward)
        view_append_note(&forward, r->forward);
    if (r->whole)
        view_append_note(&whole, r->whole);
    if (forward.length)
        text_format(&both, "%s%s", r->whole ? "forward: " : "", text_string(&forward));
    if (whole.length)
        text_format(&both, "%s%s%s", forward.length ? "; " : "",
                    r->forward ? "forward+backward: " : "", text_string(&whole));
    table_add_text(table, text_string(&both));
    text_release(&forward);
    text_release(&whole);
    text_release(&both);
}

static int64_t count_reps(const results_cell *cell) {
    return is_ok(cell) ? cell_find_series(cell, "step")->count : 0;
}

/* "100", or "100 + 12" where the passes differ. */
static void add_reps(const attention_view *view, const row *r) {
    int64_t forward = count_reps(r->forward), whole = count_reps(r->whole);
    if (view->is_full) {
        table_add_integer(view->table, forward);
        table_add_integer(view->table, whole);
    } else if (!forward && !whole) {
        table_add_empty(view->table);
    } else if (forward == whole || !forward || !whole) {
        table_add_integer(view->table, forward ? forward : whole);
    } else {
        text both = {0};
        text_format(&both, "%lld + %lld", (long long)forward, (long long)whole);
        table_add_text(view->table, text_string(&both));
        text_release(&both);
    }
}

static void add_row(const attention_view *view, const row *r) {
    report_table *table = view->table;
    table_add_row(table);
    for (int i = 0; i < view->parameters.count; i++)
        view_add_value(table, cell_find_parameter(any_cell(r), view->parameters.names[i]));
    if (view->has_tiles)
        add_tile(table, r);
    if (view->has_tile_choice)
        add_best(view, r);
    add_status(table, r);
    for (int i = 0; i < TIME_COUNT; i++) {
        statistics s = row_time(r, i);
        table_add_real(table, s.median, 3);
        if (view->is_full)
            table_add_real(table, s.std, 3);
    }
    add_reps(view, r);
    for (int i = 0; i < TIME_COUNT; i++)
        table_add_real(table, row_tflops(r, i), 3);
    if (view->has_speedups) {
        table_add_real(table, row_speedup(view, r, FORWARD), 2);
        table_add_real(table, row_speedup(view, r, END_TO_END), 2);
    }
    const results_cell *last = r->whole ? r->whole : r->forward;
    table_add_real(table, view_metric(last, "launches"), 0);
    table_add_real(table, view_metric(last, "before_backward_bytes") / 0x1p20, 1);
    table_add_real(table, is_ok(last) ? view_metric(last, "peak_bytes") / 0x1p20 : (double)NAN, 1);
    if (view->is_full)
        table_add_real(table, view_metric(last, "predicted_bytes") / 0x1p20, 1);
    add_note(table, r);
}

static void add_columns(const attention_view *view) {
    static const struct {
        const char *key, *header;
        enum { ALL, PEOPLE, FILES } who;
        bool is_speedup;
    } columns[] = {{"forward_ms", "forward ms", ALL, false},
                   {"forward_std_ms", "forward std ms", FILES, false},
                   {"backward_ms", "backward ms", ALL, false},
                   {"backward_std_ms", "backward std ms", FILES, false},
                   {"end_to_end_ms", "end-to-end ms", ALL, false},
                   {"end_to_end_std_ms", "end-to-end std ms", FILES, false},
                   {"reps", "reps", PEOPLE, false},
                   {"forward_reps", "forward reps", FILES, false},
                   {"backward_reps", "backward reps", FILES, false},
                   {"forward_tflops", "forward TFLOP/s", ALL, false},
                   {"backward_tflops", "backward TFLOP/s", ALL, false},
                   {"end_to_end_tflops", "end-to-end TFLOP/s", ALL, false},
                   {"forward_speedup", "forward speed-up", ALL, true},
                   {"end_to_end_speedup", "end-to-end speed-up", ALL, true},
                   {"launches", "launches", ALL, false},
                   {"before_backward_mib", "before backward MiB", ALL, false},
                   {"peak_mib", "peak MiB", ALL, false},
                   {"predicted_mib", "predicted MiB", FILES, false}};
    for (int i = 0; i < view->parameters.count; i++) {
        const char *name = view->parameters.names[i];
        const char *header = strcmp(name, "seq") == 0        ? "seq tokens"
                             : strcmp(name, "head_dim") == 0 ? "head size"
                                                             : name;
        table_add_column(view->table, name, header,
                         view_parameter_is_text(view->run, name) ? TABLE_LEFT : TABLE_RIGHT);
    }
    if (view->has_tiles)
        table_add_column(view->table, "tile", "tile", TABLE_LEFT);
    if (view->has_tile_choice)
        table_add_column(view->table, "best", "best tile", TABLE_LEFT);
    table_add_column(view->table, "status", "status", TABLE_LEFT);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if ((columns[i].who == ALL || (columns[i].who == FILES) == view->is_full) &&
            (view->has_speedups || !columns[i].is_speedup))
            table_add_column(view->table, columns[i].key, columns[i].header, TABLE_RIGHT);
    table_add_column(view->table, "note", "note", TABLE_LEFT);
}

/* People see in a column what varies, and the axes of the sweep; the rest is in the title. */
static void choose_parameters(attention_view *view, text *title) {
    static const char *const always[] = {"mode", "math", "seq", "head_dim", NULL};
    static const char *const never[] = {"pass", "reps", "tile", "tiles_used", NULL};
    view_list all = {0};
    view_collect_parameters(view->run, &all);
    for (int i = 0; i < all.count; i++) {
        const char *name = all.names[i];
        if (is_one_of(name, never))
            continue;
        if (view->is_full || is_one_of(name, always) || view_parameter_varies(view->run, name)) {
            view_list_add(&view->parameters, name, "");
        } else {
            text_format(title, ", %s ", name);
            view_append_value(title, cell_find_parameter(view->run->cells[0], name));
        }
    }
}

/* "naive eager, head size 64: forward time grows as seq^1.97 (5 lengths), ..." for the curve that
 * begins with `first`. */
static void note_growth(const attention_view *view, const row *first) {
    static const char *const except[] = {"pass", "reps", "seq", "tiles_used", NULL};
    double *lengths = memory_allocate((size_t)view->row_count, sizeof *lengths);
    double *times = memory_allocate((size_t)view->row_count, sizeof *times);
    text line = {0};
    for (int which = 0; which < TIME_COUNT; which++) {
        int64_t count = 0;
        for (int64_t i = 0; i < view->row_count; i++) {
            const results_cell *cell = any_cell(&view->rows[i]);
            double ms = row_time(&view->rows[i], which).median;
            if (!(ms > 0) || !cells_agree(any_cell(first), cell, except))
                continue;
            lengths[count] = results_number(cell_find_parameter(cell, "seq"));
            times[count++] = ms;
        }
        double exponent = statistics_growth_exponent(lengths, times, count);
        if (!isnan(exponent))
            text_format(&line, "%s%s%s as seq^%.2f (%lld lengths)", line.length ? ", " : "",
                        time_names[which], line.length ? "" : " time grows", exponent,
                        (long long)count);
    }
    if (line.length) {
        static const struct {
            const char *name, *before;
            bool only_if_varied;
        } parts[] = {{"impl", "", false},           {"mode", " ", false},
                     {"math", " ", true},           {"tile", ", tile ", true},
                     {"causal", ", causal ", true}, {"head_dim", ", head size ", false}};
        text curve = {0};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const results_value *value = cell_find_parameter(any_cell(first), parts[i].name);
            if (!value ||
                (parts[i].only_if_varied && !view_parameter_varies(view->run, parts[i].name)))
                continue;
            text_append(&curve, parts[i].before);
            view_append_value(&curve, value);
        }
        table_add_note(view->table, "%s: %s", text_string(&curve), text_string(&line));
        text_release(&curve);
    }
    text_release(&line);
    free(lengths);
    free(times);
}

static void note_all_growth(const attention_view *view) {
    static const char *const except[] = {"pass", "reps", "seq", "tiles_used", NULL};
    for (int64_t i = 0; i < view->row_count; i++) {
        bool is_first = true;
        for (int64_t j = 0; j < i && is_first; j++)
            is_first = !cells_agree(any_cell(&view->rows[i]), any_cell(&view->rows[j]), except);
        if (is_first)
            note_growth(view, &view->rows[i]);
    }
}

static void find_tiles(attention_view *view) {
    static const char *const except[] = {"pass", "reps", "tile", "tiles_used", NULL};
    for (int64_t i = 0; i < view->row_count; i++) {
        const results_cell *cell = any_cell(&view->rows[i]);
        const results_value *tile = cell_find_parameter(cell, "tile");
        view->has_tiles = view->has_tiles || tile;
        for (int64_t j = 0; j < i && tile && !view->has_tile_choice; j++) {
            const results_cell *other = any_cell(&view->rows[j]);
            view->has_tile_choice =
                cell_find_parameter(other, "tile") && cells_agree(cell, other, except) &&
                !view_values_are_equal(tile, cell_find_parameter(other, "tile"));
        }
    }
}

report_table *view_create_attention_table(const results *run, table_format format) {
    attention_view view = {.run = run, .is_full = format == TABLE_CSV};
    pair_cells(&view);
    view.has_speedups = run->cell_count &&
                        (view_parameter_varies(run, "impl") || view_parameter_varies(run, "mode"));
    find_tiles(&view);
    text title = {0};
    view_append_origin(run, &title);
    choose_parameters(&view, &title);
    view.table = table_create(text_string(&title));
    text_release(&title);
    add_columns(&view);
    for (int64_t i = 0; i < view.row_count; i++)
        add_row(&view, &view.rows[i]);
    table_add_note(view.table,
                   "times are medians, each measured: forward in runs of the forward alone, "
                   "backward and end-to-end in runs of both; warm-up is in none");
    table_add_note(view.table,
                   "before backward: bytes in use when the backward begins, from the plan");
    table_add_note(view.table,
                   "TFLOP/s: 4 x batch x heads x seq^2 x head size forward, half of it if causal, "
                   "2.5 times that backward, whatever the way / the median");
    if (view.has_tile_choice)
        table_add_note(view.table, "tile: queries x keys; best tile: fastest of those at the same "
                                   "sizes, by the median");
    if (view.has_speedups) {
        const results_cell *first = any_cell(&view.rows[0]);
        text way = {0};
        view_append_value(&way, cell_find_parameter(first, "impl"));
        text_append(&way, " ");
        view_append_value(&way, cell_find_parameter(first, "mode"));
        table_add_note(view.table, "speed-up: against %s at the same sizes", text_string(&way));
        text_release(&way);
    }
    note_all_growth(&view);
    view_note_interruption(run, view.table);
    free(view.rows);
    return view.table;
}
