#include "report/attention_table_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "report/view.h"
#include "report/view_parts.h"

/* ---- rows ---- */

static bool cells_agree(const results_cell *a, const results_cell *b, const char *const *except) {
    static const char *const of_the_pass[] = {PARAM_PASS, PARAM_REPS, PARAM_TILES_USED, NULL};
    for (int i = 0; i < a->parameters.count; i++) {
        const results_entry *entry = &a->parameters.entries[i];
        if (!view_is_one_of(entry->key, of_the_pass) && !view_is_one_of(entry->key, except) &&
            !view_values_are_equal(&entry->value, cell_find_parameter(b, entry->key)))
            return false;
    }
    return true;
}

attention_table_rows attention_table_rows_of(const results *run) {
    static const char *const none[] = {NULL};
    attention_table_rows all = {memory_allocate((size_t)run->cell_count + 1, sizeof *all.rows), 0};
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (!attention_cell_has_text(cell, PARAM_PASS, "forward+backward")) {
            all.rows[all.count++].forward = cell;
            continue;
        }
        attention_table_row *last = all.count ? &all.rows[all.count - 1] : NULL;
        if (last && !last->whole && cells_agree(last->forward, cell, none))
            last->whole = cell;
        else
            all.rows[all.count++].whole = cell;
    }
    return all;
}

void attention_table_rows_release(attention_table_rows *all) {
    free(all->rows);
    *all = (attention_table_rows){0};
}

const char *attention_time_name(int which) {
    static const char *const names[ATTENTION_TIME_COUNT] = {"forward", "backward", "end-to-end"};
    return names[which];
}

static const results_cell *cell_of_time(const attention_table_row *row, int which) {
    return which == ATTENTION_FORWARD ? row->forward : row->whole;
}

bool attention_table_rows_have_time(const attention_table_rows *all, int which) {
    for (int64_t i = 0; i < all->count; i++)
        if (cell_of_time(&all->rows[i], which))
            return true;
    return false;
}

const results_cell *attention_table_row_cell(const attention_table_row *row) {
    return row->forward ? row->forward : row->whole;
}

bool attention_cell_has_text(const results_cell *cell, const char *key, const char *wanted) {
    const results_value *value = cell_find_parameter(cell, key);
    return value && value->kind == RESULTS_TEXT && strcmp(value->text, wanted) == 0;
}

/* A tile that a user asks for is of both passes: "auto", "64x64/32x64" and "attention_mma:64x64" say so
 * themselves, and with "64x64" the forward has it too. */
bool attention_has_split_products(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (strncmp(view_text(cell, PARAM_DEVICE), "cuda", 4) == 0 &&
            attention_cell_has_text(cell, PARAM_IMPL, "flash") &&
            attention_cell_has_text(cell, PARAM_MATH, "fp32"))
            return true;
    }
    return false;
}

bool attention_table_row_is_mixed(const attention_table_row *row) {
    const results_value *tile = row->whole ? cell_find_parameter(row->whole, PARAM_TILE) : NULL;
    const results_value *used =
        row->whole ? cell_find_parameter(row->whole, PARAM_TILES_USED) : NULL;
    if (!tile || tile->kind != RESULTS_TEXT || !used || used->kind != RESULTS_TEXT ||
        strcmp(tile->text, "auto") == 0 || strchr(tile->text, '/') ||
        strncmp(tile->text, "attention_", 10) == 0)
        return false;
    size_t length = strcspn(used->text, "/");
    return strlen(tile->text) != length || strncmp(tile->text, used->text, length) != 0;
}

bool attention_table_rows_agree(const attention_table_row *a, const attention_table_row *b,
                                const char *const *except) {
    return cells_agree(attention_table_row_cell(a), attention_table_row_cell(b), except);
}

/* ---- what was measured ---- */

results_status attention_status(const results_cell *cell) {
    return view_trusted_status(cell, cell_find_series(cell, SERIES_STEP), PARAM_REPS);
}

bool attention_is_ok(const results_cell *cell) {
    return cell && attention_status(cell) == RESULTS_OK;
}

statistics attention_table_row_time(const attention_table_row *row, int which) {
    const results_cell *cell = cell_of_time(row, which);
    const char *name = which == ATTENTION_BACKWARD ? SERIES_BACKWARD : SERIES_STEP;
    bool is_of_row = which != ATTENTION_END_TO_END || !attention_table_row_is_mixed(row);
    const results_series *series =
        is_of_row && attention_is_ok(cell) ? cell_find_series(cell, name) : NULL;
    statistics s = statistics_of_series(series);
    double ms = series ? view_ms_per_unit(series->unit) : (double)NAN;
    s.median *= ms;
    s.std *= ms;
    return s;
}

static double row_number(const attention_table_row *row, const char *key) {
    return results_number(cell_find_parameter(attention_table_row_cell(row), key));
}

double attention_table_row_tflops(const attention_table_row *row, int which) {
    static const double times_forward[ATTENTION_TIME_COUNT] = {1, 2.5, 3.5};
    double seq = row_number(row, PARAM_SEQ);
    double flops = 4 * seq * seq * row_number(row, PARAM_HEAD_DIM) * row_number(row, PARAM_BATCH) *
                   row_number(row, PARAM_HEADS);
    if (attention_cell_has_text(attention_table_row_cell(row), PARAM_CAUSAL, "yes"))
        flops /= 2;
    double ms = attention_table_row_time(row, which).median;
    return ms > 0 ? flops * times_forward[which] / ms / 1e9 : (double)NAN;
}

/* ---- growth ---- */

/* Index of the largest of `lengths` that is below `limit`; -1: none is. */
static int64_t find_longest(const double *lengths, int64_t count, double limit) {
    int64_t longest = -1;
    for (int64_t i = 0; i < count; i++)
        if (lengths[i] < limit && (longest < 0 || lengths[i] > lengths[longest]))
            longest = i;
    return longest;
}

attention_growth attention_growth_of(const attention_table_rows *all,
                                     const attention_table_row *row, int which) {
    static const char *const except[] = {PARAM_SEQ, NULL};
    attention_growth growth = {.at_end = (double)NAN};
    double *lengths = memory_allocate((size_t)all->count, sizeof *lengths);
    double *times = memory_allocate((size_t)all->count, sizeof *times);
    for (int64_t i = 0; i < all->count; i++) {
        if (!attention_table_rows_agree(row, &all->rows[i], except))
            continue;
        double ms = attention_table_row_time(&all->rows[i], which).median;
        double seq = row_number(&all->rows[i], PARAM_SEQ);
        if (ms > 0 && seq > 0 && seq < 0x1p53) {
            lengths[growth.lengths] = seq;
            times[growth.lengths++] = ms;
        }
    }
    growth.fit = statistics_growth_exponent(lengths, times, growth.lengths);
    int64_t to = find_longest(lengths, growth.lengths, INFINITY);
    int64_t from = to < 0 ? -1 : find_longest(lengths, growth.lengths, lengths[to]);
    if (from >= 0) {
        growth.at_end = statistics_growth_exponent((double[]){lengths[from], lengths[to]},
                                                   (double[]){times[from], times[to]}, 2);
        growth.from = (int64_t)lengths[from];
        growth.to = (int64_t)lengths[to];
    }
    free(lengths);
    free(times);
    return growth;
}
