/* finding_tiles.c - which tile of flash attention is the fastest in each pass, and by how much. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/attention_table_rows.h"
#include "report/finding_parts.h"
#include "report/finding_verbs.h"
#include "report/view_parts.h"

static double ms_of(const attention_table_row *row, int which) {
    return attention_table_row_time(row, which).median;
}

static const results_value *tile_of(const attention_table_row *row) {
    return cell_find_parameter(attention_table_row_cell(row), PARAM_TILE);
}

static bool has_own_choice(const attention_table_row *row) {
    return attention_cell_has_text(attention_table_row_cell(row), PARAM_TILE, "auto");
}

/* The slowest row that has a tile: at large sizes a tile matters most. NULL: none was measured. */
static const attention_table_row *slowest_row(const attention_table_rows *all, int which) {
    const attention_table_row *slowest = NULL;
    for (int64_t i = 0; i < all->count; i++) {
        const attention_table_row *row = &all->rows[i];
        double ms = ms_of(row, which);
        if (tile_of(row) && ms > 0 && (!slowest || ms > ms_of(slowest, which)))
            slowest = row;
    }
    return slowest;
}

/* The fastest of the rows that differ from `like` in the tile only; without one tile, unless that is NULL. */
static const attention_table_row *fastest_row(const attention_table_rows *all, int which,
                                              const attention_table_row *like,
                                              const results_value *without) {
    static const char *const except[] = {PARAM_TILE, NULL};
    const attention_table_row *fastest = NULL;
    for (int64_t i = 0; i < all->count; i++) {
        const attention_table_row *row = &all->rows[i];
        double ms = ms_of(row, which);
        if (tile_of(row) && ms > 0 && !view_values_are_equal(tile_of(row), without) &&
            attention_table_rows_agree(like, row, except) &&
            (!fastest || ms < ms_of(fastest, which)))
            fastest = row;
    }
    return fastest;
}

/* What the fastest is held against: what the kernel chooses by itself, else the second best. */
static const attention_table_row *rival_of(const attention_table_rows *all, int which,
                                           const attention_table_row *fastest) {
    static const char *const except[] = {PARAM_TILE, NULL};
    for (int64_t i = 0; i < all->count; i++)
        if (has_own_choice(&all->rows[i]) && !has_own_choice(fastest) &&
            ms_of(&all->rows[i], which) > 0 &&
            attention_table_rows_agree(fastest, &all->rows[i], except))
            return &all->rows[i];
    return fastest_row(all, which, fastest, tile_of(fastest));
}

/* " 32x64 (0.0550 ms, 0.5 % ahead of 64x64)" */
static void append_fastest(const attention_table_row *fastest, const attention_table_row *rival,
                           int which, text *out) {
    double ms = ms_of(fastest, which);
    text_append(out, " ");
    view_append_value(out, tile_of(fastest));
    text_format(out, " (%.*f ms, %.1f %% ahead of ", ms < 0.1 ? 4 : 3, ms,
                100 * (ms_of(rival, which) / ms - 1));
    view_append_value(out, tile_of(rival));
    text_append(out, ")");
}

static bool append_tiles(const results *run, const attention_table_rows *all, text *out) {
    static const char *const except[] = {PARAM_TILE, PARAM_TILES_USED, PARAM_PASS, PARAM_REPS,
                                         NULL};
    static const int passes[] = {ATTENTION_FORWARD, ATTENTION_BACKWARD};
    const attention_table_row *like = slowest_row(all, ATTENTION_FORWARD);
    like = like ? like : slowest_row(all, ATTENTION_BACKWARD);
    int written = 0;
    for (int i = 0; i < 2 && like; i++) {
        const attention_table_row *fastest = fastest_row(all, passes[i], like, NULL);
        const attention_table_row *rival = fastest ? rival_of(all, passes[i], fastest) : NULL;
        if (!rival)
            continue;
        text_format(out, written++ ? ", of the %s" : " The fastest tile of the %s is",
                    attention_time_name(passes[i]));
        append_fastest(fastest, rival, passes[i], out);
    }
    text name = {0};
    if (written)
        finding_append_cell_name(run, attention_table_row_cell(like), except, &name);
    if (name.length)
        text_format(out, ", with %s", text_string(&name));
    text_release(&name);
    return written > 0;
}

void finding_append_tiles(const results *run, text *out) {
    if (strcmp(run->verb, RUN_ATTENTION) != 0 || run->cell_count > FINDING_MOST_CELLS)
        return;
    attention_table_rows all = attention_table_rows_of(run);
    if (append_tiles(run, &all, out))
        text_append(out, ".");
    attention_table_rows_release(&all);
}
