/* plan_grid.h - the grid of steps that `plan` and `memory` plan without running: which cells there are,
 * and how each becomes a plan. */
#ifndef EXPERIMENTS_PLAN_GRID_H
#define EXPERIMENTS_PLAN_GRID_H

#include "experiments/experiment.h"
#include "experiments/refusals.h"
#include "experiments/shared_flags.h"
#include "experiments/step_variant.h"
#include "runtime/autotune.h"
#include "train/step_plan.h"

/* To be put into a flag table. */
#define PLAN_GRID_FLAGS                                                                            \
    MODEL_FLAGS, BATCH_FLAG, ACCUMULATE_FLAG,                                                      \
        {"ranks",                                                                                  \
         "N",                                                                                      \
         FLAG_INTEGER,                                                                             \
         "1",                                                                                      \
         .help = "plans the step of one of so many ranks: its memory, and what it sends",          \
         .minimum = 1,                                                                             \
         .maximum = 1024},                                                                         \
        PARALLEL_FLAG(FLAG_TEXT_LIST), REDUCE_FLAG,                                                \
        {"context",                                                                                \
         "LIST",                                                                                   \
         FLAG_INTEGER_LIST,                                                                        \
         "128",                                                                                    \
         .help = "context lengths in tokens",                                                      \
         .minimum = 1,                                                                             \
         .maximum = 1 << 24},                                                                      \
        {"pass",                                                                                   \
         "LIST",                                                                                   \
         FLAG_TEXT_LIST,                                                                           \
         "step",                                                                                   \
         .help = "how much of a step: forward, forward+backward (or backward), step",              \
         .suggestions = PASS_SUGGESTIONS},                                                         \
        STEP_FLAGS

typedef struct plan_grid {
    const flags *given;
    const experiment_context *context;
    results *run;
    model_config *models;
    step_variant *variants;
    const int64_t *contexts;
    step_extent *extents;
    int model_count, variant_count, context_count, extent_count;
    target target;
    dtype reduce_type;
    autotune *tuned;    /* of the CPU, which is here; NULL: nothing is known of the device */
    bool is_unverified; /* plans are counted and never run */
    refusals refused;
    int64_t begin_ns; /* of planning; 0: not yet */
    bool has_told;    /* how long it takes */
} plan_grid;

typedef struct plan_point {
    const model_config *config;
    int64_t context;
    step_extent extent;
    const step_variant *asked;
    step_variant variant; /* settled for the model; as asked where that cannot be */
} plan_point;

/* The lists of the flags, before anything starts; run->planned_cells is set. The caller sets the
 * target. On failure, too, plan_grid_release is to be called. */
NODISCARD dyno_status plan_grid_resolve(plan_grid *g, const flags *given,
                                        const experiment_context *context, results *run);
void plan_grid_release(plan_grid *g);

/* The chip that --target names, else that of --device. */
NODISCARD dyno_status plan_grid_find_target(const flags *given, target *out);

/* In the order of the rows: contexts vary fastest, then extents, variants, models. */
plan_point plan_grid_at(const plan_grid *g, int64_t index);

/* Says how far planning is. Fails when the caller wants no more. */
NODISCARD dyno_status plan_grid_go_on(plan_grid *g);

/* A cell of the run with the point's parameters. `device_name` is what the parameter says; NULL: the
 * target as it was named. */
results_cell *plan_grid_add_cell(const plan_grid *g, const plan_point *at, const char *device_name);

step_options plan_grid_options(const plan_grid *g, const plan_point *at);
/* Where the point cannot be planned as asked, *out is NULL and the cell says why. */
NODISCARD dyno_status plan_grid_plan(plan_grid *g, const plan_point *at,
                                     const step_options *options, results_cell *cell, plan **out);
/* Fails where no cell could be planned. */
NODISCARD dyno_status plan_grid_conclude(const plan_grid *g);

#endif
