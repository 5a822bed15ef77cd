/* step_grid.h - the full grid of models, contexts, ways to run a step, warm-ups and extents that
 * `bench` and `profile` go over, a cell each.
 *
 * A cell that would not fit is OOM, one that cannot be as asked SKIP, and one that breaks FAILED: all
 * of them are rows. */
#ifndef EXPERIMENTS_STEP_GRID_H
#define EXPERIMENTS_STEP_GRID_H

#include "experiments/bench_ranks.h"
#include "experiments/model_options.h"
#include "experiments/step_variant.h"
#include "experiments/sweep.h"
#include "runtime/executor.h"
#include "train/step_plan.h"

/* To be put into an experiment's flag table, behind MODEL_FLAGS and BATCH_FLAG. */
#define STEP_GRID_FLAGS(passes, step_count, steps_help)                                            \
    ACCUMULATE_FLAG, RANKS_FLAG, PARALLEL_FLAG(FLAG_TEXT_LIST), REDUCE_FLAG, TIMEOUT_FLAG,         \
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
         passes,                                                                                   \
         .help = "how much of a step: forward, forward+backward (or backward), step",              \
         .suggestions = PASS_SUGGESTIONS},                                                         \
        {"warmup",                                                                                 \
         "LIST",                                                                                   \
         FLAG_INTEGER_LIST,                                                                        \
         "1",                                                                                      \
         .help = "untimed steps before the timed ones",                                            \
         .minimum = 0,                                                                             \
         .maximum = 1000000},                                                                      \
        {"steps",           NULL, FLAG_INTEGER, step_count, .help = steps_help, .minimum = 1,      \
         .maximum = 1000000},                                                                      \
    {                                                                                              \
        "seed", NULL, FLAG_INTEGER, "0", .help = "of weights and tokens", .minimum = 0,            \
                                         .maximum = INT64_MAX                                      \
    }

typedef struct step_grid {
    const flags *given;
    sweep sweep;
    bench_ranks ranks;
    model_config *models;
    const int64_t *contexts, *warmups;
    step_extent *extents;
    step_variant *variants;
    int model_count, context_count, warmup_count, extent_count, variant_count;
    int64_t second_steps; /* that a second visit runs in each cell: for the time left */
    bool is_revisiting;
    bool is_recording; /* of several ranks, cells are run once more with their memory recorded */
    int64_t next_cell; /* to be visited again */
} step_grid;

/* Takes up the flags. On failure, too, step_grid_release is to be called. */
NODISCARD dyno_status step_grid_prepare(step_grid *g, const flags *given,
                                        const experiment_context *context, results *run);
void step_grid_release(step_grid *g);

/* What is done with a cell whose executor is ready, its inputs filled; its status is the cell's. */
typedef struct step_cell {
    executor *e;
    const plan *p;
    const memory_pool *pool;
    int64_t warmup;
    results_cell *cell;
} step_cell;
typedef dyno_status step_cell_function(step_grid *g, const step_cell *at);

/* Measures the whole grid between sweep_start and sweep_finish: plans all cells, then `first` for
 * every cell, then `second`, where it is not NULL, once more for every cell that is OK. Between the
 * two, cells of several ranks are run once more for their memory by kind. */
NODISCARD dyno_status step_grid_run(step_grid *g, step_cell_function *first,
                                    step_cell_function *second);

/* Timing that asks all ranks together whether to stop, and tells of progress. */
timing_options step_grid_timing(step_grid *g);

/* The usual first: warm-up and timed steps, whether others were busy, and the memory used. */
step_cell_function step_grid_time;

#endif
