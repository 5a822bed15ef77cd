/* attention_sweep.h - measures the points that `dyno attention` was asked for.
 *
 * A point is one cell of the record: one way to compute attention, one shape, one extent. What a
 * point takes is predicted from its plan, so that the wait can be told beforehand and what would
 * take too long is left out, and said. */
#ifndef EXPERIMENTS_ATTENTION_SWEEP_H
#define EXPERIMENTS_ATTENTION_SWEEP_H

#include "experiments/attention_plan.h"
#include "experiments/refusals.h"
#include "experiments/sweep.h"

/* Ways to compute attention. */
typedef struct attention_impl {
    const char *name;
    dyno_status (*make_plan)(const attention_plan_options *options, plan **out);
    bool has_tiles;
} attention_impl;
#define ATTENTION_IMPL_CHOICES "naive|flash"
/* One of the choices. */
const attention_impl *attention_impl_find(const char *name);

/* Without --reps: as many as fit --seconds, between these. */
enum { ATTENTION_LEAST_REPS = 3, ATTENTION_MOST_REPS = 100 };

typedef struct attention_point {
    const attention_impl *impl;
    attention_plan_options options;
    char tile[128]; /* as it was asked for: "auto", "64x64"; "" where there are none */
    char forward[64], backward[64]; /* of it; "" where any will do */
    int group;                      /* points of one group differ in extent and tile only */

    /* Found out on the way. */
    bool is_refused; /* cannot be planned: `reason` says why */
    char reason[512];
    double predicted_seconds; /* of one run, by sweep_predict_seconds; 0: does not fit */
    results_cell *cell;
} attention_point;

typedef struct attention_sweep {
    const flags *given;
    sweep sweep; /* its work is in seconds, as predicted */
    attention_point *points;
    int count, capacity;
    refusals refused;
    memory_pool *pool;
} attention_sweep;

void attention_sweep_add(attention_sweep *s, const attention_point *at);

/* The first launch of attention, or of its gradient; NULL: the plan has none. */
const plan_launch *attention_find_launch(const plan *p, bool is_gradient);

NODISCARD dyno_status attention_sweep_plan(const attention_sweep *s, const attention_point *at,
                                           plan **out);

/* Plans all points, then measures them, each into a cell of the record. Fails when no point can be
 * planned, or the sweep is interrupted; what happens to one cell is that cell's status. */
NODISCARD dyno_status attention_sweep_run(attention_sweep *s);

/* ---- attention_tiles.c ---- */

/* Whether the user's word after --tiles is one; DYNO_INVALID when it is not. */
NODISCARD dyno_status attention_tiles_check(const char *tiles);

/* Adds points like `at` for what the user wrote after --tiles: "auto", "64x64", "64x64/32x64"
 * (forward/backward), or "all": a point for each tile there is. A kernel's name may stand before a
 * tile, "attention_mma:64x64", or alone. */
NODISCARD dyno_status attention_sweep_add_tiles(attention_sweep *s, attention_point at,
                                                const char *tiles, bool has_forward,
                                                bool has_backward);

/* Of a sweep over all tiles: keeps the fastest kernel and variant of each group in the cache. */
NODISCARD dyno_status attention_sweep_keep_best(attention_sweep *s);

#endif
