/* bench.c - `dyno bench`: the full grid of models, contexts, warm-ups and extents of a step, timed. */
#include "experiments/step_grid.h"
#include "measure/breakdown.h"
#include "measure/step_trace.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    BATCH_FLAG,
    STEP_GRID_FLAGS("forward,forward+backward,step", "10", "timed steps"),
    STEP_FLAGS,
    {"breakdown", NULL, FLAG_SWITCH, NULL,
     .help = "also trace steps: time by op class, kernel, phase and scope"},
    SWEEP_FLAGS,
};

static const flags_example EXAMPLES[] = {
    {"bench", "small at context 128: forward, forward+backward and whole step"},
    {"bench --model small,medium --context 128:1024:*2 --warmup 0,1,5 --out runs/grid",
     "the grid, kept for `dyno show runs/grid`"},
    {"bench --mode eager,compiled --precision fp32,bf16 --pass step", "four ways to run a step"},
    {"bench --breakdown --pass step", "where the time of a step goes"},
    {"bench --ranks 2 --parallel ddp-naive,ddp-flat,ddp-overlap,ddp-bucket:25 --pass step",
     "two processes that sum their gradients, four ways"},
    {"bench --device cuda --mode compiled --precision bf16 --context 512", "on the GPU"},
    {"bench --model 2.7B --context 512 --memory 16GiB", "says OOM and what it would need"},
    {"bench --d-model 512 --d-ff 2048 --layers 4 --heads 8 --kv-heads 2", "a shape of your own"},
};

static const flags_verb VERB = {
    .name = "bench",
    .summary = "Times training steps over the full grid of --model x --context x --mode x "
               "--precision x --recompute x --parallel x --warmup x --pass, one row a cell. "
               "Warm-up steps are "
               "other samples and never averaged in. A "
               "cell that would not fit is not run: it says OOM, what it needs and what there is. "
               "One that cannot be as asked says SKIP and why. "
               "Ctrl-C ends with what was measured so far, marked incomplete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status break_down(step_grid *g, const step_cell *at) {
    timing_options options = step_grid_timing(g);
    options.steps = flags_integer(g->given, "steps");
    return breakdown_run(at->e, at->p, &options, at->cell);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    bool is_traced = flags_switch(given, "breakdown");
    step_grid g = {.second_steps =
                       is_traced ? step_trace_steps(flags_integer(given, "steps")) + 1 : 0};
    dyno_status status = step_grid_prepare(&g, given, context, out->run);
    if (status == DYNO_OK)
        status = step_grid_run(&g, step_grid_time, is_traced ? break_down : NULL);
    step_grid_release(&g);
    return status;
}

const experiment experiment_bench = {
    .settings = &VERB,
    .out_help = "keeps every sample in DIR/run.json, written after every cell",
    .run = run};
