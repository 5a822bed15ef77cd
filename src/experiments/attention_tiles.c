/* attention_tiles.c - the tiles of `dyno attention`: what was asked for, all there are, the best.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiments/attention_sweep.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"

/* A tile "64x64", a kernel's name, or both, "attention_mma:64x64". */
static bool is_wish(const char *word) {
    attention_tile tile;
    const char *colon = strchr(word, ':');
    if (strncmp(word, "attention_", 10) != 0)
        return attention_tile_parse(word, &tile);
    return !colon || attention_tile_parse(colon + 1, &tile);
}

/* One side of "64x64/32x64"; `end` is behind it. */
static bool parse_side(const char *from, const char *end, char out[64]) {
    if (end - from >= 64)
        return false;
    snprintf(out, 64, "%.*s", (int)(end - from), from);
    if (strcmp(out, "auto") != 0)
        return is_wish(out);
    out[0] = '\0';
    return true;
}

static dyno_status parse_tiles(const char *from, attention_point *out) {
    const char *slash = strchr(from, '/'), *end = from + strlen(from);
    bool is_good = parse_side(from, slash ? slash : end, out->forward) &&
                   parse_side(slash ? slash + 1 : from, end, out->backward);
    if (is_good)
        return DYNO_OK;
    return dyno_fail(
        DYNO_INVALID,
        "--tiles: '%s' is no tile; write auto, all, queries x keys as 64x128, or those "
        "of forward and backward as 128x128/64x64, each from 1 to 65536; a kernel's name may stand "
        "before one, as attention_mma:64x64, or alone",
        from);
}

dyno_status attention_tiles_check(const char *tiles) {
    attention_point parsed;
    return strcmp(tiles, "all") == 0 ? DYNO_OK : parse_tiles(tiles, &parsed);
}

static bool has_variant(const kernel_variant *all, int count, const char *wanted) {
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].name, wanted) == 0)
            return true;
    return false;
}

/* Adds a kernel's variants that are not there yet: the kernel before it is meant by their names. */
static int add_variants(const kernel *k, const kernel_args *args, kernel_variant *out, int count) {
    kernel_variant all[KERNEL_MOST_VARIANTS];
    int found = k->variants ? k->variants(args, all) : 0;
    for (int i = 0; i < found && count < KERNEL_MOST_VARIANTS; i++)
        if (!has_variant(out, count, all[i].name))
            out[count++] = all[i];
    return count;
}

/* The variants there are for this extent, first those of the kernel that is taken without a wish;
 * none when there is no plan, which the sweep then says. A CPU's other kernels are for CPUs without
 * the first one's instructions. */
static int list_variants(const attention_sweep *s, const attention_point *at, step_extent extent,
                         kernel_variant *out) {
    attention_point alone = *at;
    alone.options.extent = extent;
    plan *p;
    int count = 0;
    if (attention_sweep_plan(s, &alone, &p) != DYNO_OK)
        return 0;
    const plan_launch *l = attention_find_launch(p, extent == STEP_BACKWARD);
    if (l) {
        launch_layouts launch;
        choose_kernel_describe(p, l, &launch);
        count = add_variants(l->kernel, &launch.args, out, 0);
        for (const kernel *const *k = op_find(l->op_name)->kernels; *k; k++)
            if (target_is_cuda(&p->target) && (*k)->target == TARGET_CUDA &&
                !kernel_reject(*k, &launch.args))
                count = add_variants(*k, &launch.args, out, count);
    }
    plan_destroy(p);
    return count;
}

static void add_variant(attention_sweep *s, attention_point at, kernel_variant variant,
                        bool is_backward) {
    snprintf(at.tile, sizeof at.tile, "%s", variant.name);
    at.options.extent = is_backward ? STEP_BACKWARD : STEP_FORWARD;
    snprintf(is_backward ? at.backward : at.forward, sizeof at.forward, "%s", variant.name);
    attention_sweep_add(s, &at);
}

/* A tile that both passes have makes one row of the table: their points stand together. */
static void add_all_tiles(attention_sweep *s, const attention_point *at, bool has_forward,
                          bool has_backward) {
    kernel_variant forward[KERNEL_MOST_VARIANTS], backward[KERNEL_MOST_VARIANTS];
    int forwards = has_forward ? list_variants(s, at, STEP_FORWARD, forward) : 0;
    int backwards = has_backward ? list_variants(s, at, STEP_BACKWARD, backward) : 0;
    for (int i = 0; i < forwards; i++) {
        add_variant(s, *at, forward[i], false);
        if (has_variant(backward, backwards, forward[i].name))
            add_variant(s, *at, forward[i], true);
    }
    for (int i = 0; i < backwards; i++)
        if (!has_variant(forward, forwards, backward[i].name))
            add_variant(s, *at, backward[i], true);
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
    bool wants_all = strcmp(tiles, "all") == 0;
    if (!wants_all)
        RETURN_IF_FAILED(parse_tiles(tiles, &at));
    int before = s->count;
    if (wants_all && at.impl->has_tiles)
        add_all_tiles(s, &at, has_forward, has_backward);
    if (s->count > before)
        return DYNO_OK;
    if (at.impl->has_tiles)
        snprintf(at.tile, sizeof at.tile, "%s", wants_all ? "auto" : tiles);
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

static bool keep(attention_sweep *s, const plan *p, const plan_launch *l) {
    launch_layouts at;
    text key = {0}, choice = {0};
    choose_kernel_describe(p, l, &at);
    choose_kernel_key(op_find(l->op_name), &at.args, &key);
    text_format(&choice, "%s:%s", l->kernel_name, l->variant);
    bool is_kept = autotune_keep(s->sweep.tuned, text_string(&key), text_string(&choice));
    text_release(&key);
    text_release(&choice);
    return is_kept;
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
    RETURN_IF_FAILED(attention_sweep_plan(s, best, &p));
    const plan_launch *l = attention_find_launch(p, is_backward);
    if (l && l->variant)
        *kept += keep(s, p, l);
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
