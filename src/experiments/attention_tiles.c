/* attention_tiles.c - the tiles of `dyno attention`: what was asked for, all there are, the best.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiments/attention_sweep.h"
#include "measure/keys.h"
#include "measure/statistics.h"

/* One side of "64x64/32x64"; `end` is behind it. */
static bool parse_side(const char *from, const char *end, kernel_tile *out) {
    char word[32];
    *out = (kernel_tile){0};
    if (end - from >= (ptrdiff_t)sizeof word)
        return false;
    memcpy(word, from, (size_t)(end - from));
    word[end - from] = '\0';
    return strcmp(word, "auto") == 0 || kernel_tile_parse(word, out);
}

static dyno_status parse_tiles(const char *from, kernel_tile *forward, kernel_tile *backward) {
    const char *slash = strchr(from, '/'), *end = from + strlen(from);
    bool is_good = parse_side(from, slash ? slash : end, forward);
    if (slash)
        is_good = is_good && parse_side(slash + 1, end, backward);
    else
        *backward = *forward;
    if (is_good)
        return DYNO_OK;
    return dyno_fail(
        DYNO_INVALID,
        "--tiles: '%s' is no tile; write auto, all, queries x keys as 64x128, or those "
        "of forward and backward as 128x128/64x64, each from 1 to 65536",
        from);
}

dyno_status attention_tiles_check(const char *tiles) {
    kernel_tile forward, backward;
    return strcmp(tiles, "all") == 0 ? DYNO_OK : parse_tiles(tiles, &forward, &backward);
}

/* The tiles that the kernel of this pass has; none when there is no plan, which the sweep then
 * says. */
static int list_tiles(const attention_sweep *s, const attention_point *at, step_extent extent,
                      kernel_tile *out) {
    const tile_source *source = device_tiles_source(s->sweep.tiles);
    attention_point alone = *at;
    alone.options.extent = extent;
    tiled_launch launch;
    plan *p;
    int count = 0;
    if (attention_sweep_plan(s, &alone, &p) != DYNO_OK)
        return 0;
    if (find_tiled_launch(p, extent == STEP_BACKWARD, &launch))
        count = source->list(source, launch.kernel, &launch.args, out);
    plan_destroy(p);
    return count;
}

static bool has_tile(const kernel_tile *tiles, int count, kernel_tile wanted) {
    for (int i = 0; i < count; i++)
        if (kernel_tile_equal(tiles[i], wanted))
            return true;
    return false;
}

static void add_tile(attention_sweep *s, attention_point at, kernel_tile tile, bool is_backward) {
    snprintf(at.tile, sizeof at.tile, "%s", kernel_tile_format(tile).text);
    at.options.extent = is_backward ? STEP_BACKWARD : STEP_FORWARD;
    *(is_backward ? &at.options.tiles.backward : &at.options.tiles.forward) = tile;
    attention_sweep_add(s, &at);
}

/* A tile that both passes have makes one row of the table: their points stand together. */
static void add_all_tiles(attention_sweep *s, const attention_point *at, bool has_forward,
                          bool has_backward) {
    kernel_tile forward[KERNEL_MOST_TILES], backward[KERNEL_MOST_TILES];
    int forwards = has_forward ? list_tiles(s, at, STEP_FORWARD, forward) : 0;
    int backwards = has_backward ? list_tiles(s, at, STEP_BACKWARD, backward) : 0;
    for (int i = 0; i < forwards; i++) {
        add_tile(s, *at, forward[i], false);
        if (has_tile(backward, backwards, forward[i]))
            add_tile(s, *at, forward[i], true);
    }
    for (int i = 0; i < backwards; i++)
        if (!has_tile(forward, forwards, backward[i]))
            add_tile(s, *at, backward[i], true);
}

static void add_extents(attention_sweep *s, attention_point at, bool has_forward,
                        bool has_backward) {
    at.options.extent = STEP_FORWARD;
    if (has_forward)
        attention_sweep_add(s, &at);
    at.options.extent = STEP_BACKWARD;
    if (has_backward)
        attention_sweep_add(s, &at);
}

dyno_status attention_sweep_add_tiles(attention_sweep *s, attention_point at, const char *tiles,
                                      bool has_forward, bool has_backward) {
    kernel_tile forward = {0}, backward = {0};
    bool wants_all = strcmp(tiles, "all") == 0;
    if (!wants_all)
        RETURN_IF_FAILED(parse_tiles(tiles, &forward, &backward));
    int before = s->count;
    if (wants_all && at.impl->has_tiles)
        add_all_tiles(s, &at, has_forward, has_backward);
    if (s->count > before)
        return DYNO_OK;
    if (at.impl->has_tiles) {
        snprintf(at.tile, sizeof at.tile, "%s", wants_all ? "auto" : tiles);
        at.options.tiles.forward = forward;
        at.options.tiles.backward = backward;
    }
    add_extents(s, at, has_forward, has_backward);
    return DYNO_OK;
}

/* ---- the best ---- */

static double time_of(const attention_point *at, bool is_backward) {
    bool is_of_extent = (at->options.extent == STEP_BACKWARD) == is_backward;
    if (!is_of_extent || !at->cell || at->cell->status != RESULTS_OK || !at->tile[0])
        return INFINITY;
    return statistics_of_series(
               cell_find_series(at->cell, is_backward ? SERIES_BACKWARD : SERIES_STEP))
        .median;
}

static dyno_status keep_best_of(attention_sweep *s, int group, bool is_backward, int *kept) {
    const attention_point *best = NULL;
    for (int i = 0; i < s->count; i++) {
        const attention_point *at = &s->points[i];
        if (at->group == group && isfinite(time_of(at, is_backward)) &&
            (!best || time_of(at, is_backward) < time_of(best, is_backward)))
            best = at;
    }
    if (!best)
        return DYNO_OK;
    plan *p;
    tiled_launch launch;
    RETURN_IF_FAILED(attention_sweep_plan(s, best, &p));
    if (find_tiled_launch(p, is_backward, &launch) && !kernel_tile_is_open(launch.tile))
        *kept += device_tiles_keep(s->sweep.tiles, launch.kernel, &launch.args, launch.tile);
    plan_destroy(p);
    return DYNO_OK;
}

dyno_status attention_sweep_keep_best(attention_sweep *s) {
    int groups = s->count ? s->points[s->count - 1].group + 1 : 0, kept = 0;
    for (int i = 0; i < groups; i++) {
        RETURN_IF_FAILED(keep_best_of(s, i, false, &kept));
        RETURN_IF_FAILED(keep_best_of(s, i, true, &kept));
    }
    if (kept) /* else it was said that nothing can be */
        experiment_note(s->sweep.context, "%d best tile%s in the cache and will be used", kept,
                        kept == 1 ? " is" : "s are");
    return DYNO_OK;
}
