#include "experiments/step_grid.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "experiments/grid_size.h"
#include "experiments/refusals.h"
#include "experiments/step_inputs.h"
#include "measure/keys.h"
#include "measure/memory_stages.h"
#include "measure/step_trace.h"
#include "model/parameters.h"
#include "train/split_weights.h"
#include "train/weights.h"

/* A model's cell. */
typedef struct point {
    int64_t context, warmup;
    step_extent extent;
    const step_variant *variant;
} point;

/* Cells of one model, and the one at a place among them. */
static int64_t point_count(const step_grid *g) {
    return (int64_t)g->context_count * g->variant_count * g->warmup_count * g->extent_count;
}

static point point_at(const step_grid *g, int64_t index) {
    point at;
    at.extent = g->extents[index % g->extent_count];
    index /= g->extent_count;
    at.warmup = g->warmups[index % g->warmup_count];
    index /= g->warmup_count;
    at.variant = &g->variants[index % g->variant_count];
    at.context = g->contexts[index / g->variant_count];
    return at;
}

/* What is kept between the cells of one model. */
typedef struct grid_model {
    const model_config *config;
    sweep *sweep;
    memory_pool *pool;
    storage *shared;
    bool has_weights;
    bool is_recording;
    /* Weights are drawn for each cell: ways to be parallel lay them out differently. */
    bool has_ranks;
    step_cell_function *visit;
} grid_model;

static dyno_status make_plan(const step_grid *g, const model_config *config, const point *at,
                             plan **out) {
    step_variant variant;
    *out = NULL;
    RETURN_IF_FAILED(model_config_check(config));
    RETURN_IF_FAILED(step_variant_settle(at->variant, config, &variant));
    RETURN_IF_FAILED(step_variant_check_label(&variant, config, at->extent));
    step_options options = {.config = *config,
                            .batch = flags_integer(g->given, "batch"),
                            .context = at->context,
                            .pipeline = {.extent = at->extent,
                                         .micro_batches = flags_integer(g->given, "accumulate"),
                                         .target = &g->sweep.device->target,
                                         .kernels.tuning = autotune_kernels(g->sweep.tuned),
                                         .optimizer = step_default_optimizer()}};
    step_variant_apply(&variant, &options.pipeline);
    RETURN_IF_FAILED(
        parallel_parse_reduce(flags_text(g->given, "reduce"), &options.pipeline.parallel));
    options.pipeline.parallel.ranks = g->ranks.count;
    options.pipeline.parallel.rank = g->ranks.rank;
    return step_plan_create(&options, out);
}

/* Timed and untimed steps, and those of a second visit, of all cells that differ only in their
 * warm-up. */
static double steps_of_warmups(const step_grid *g) {
    double steps = 0;
    for (int i = 0; i < g->warmup_count; i++)
        steps += (double)(g->warmups[i] + flags_integer(g->given, "steps") + g->second_steps);
    return steps;
}

/* Plans every cell once, so that what cannot be built is known before anything is measured, and
 * sums the work, in FLOPs. The warm-up does not change a plan: of cells that differ in nothing
 * else the first is planned. */
static dyno_status plan_cells(step_grid *g) {
    double seconds = 0, steps = steps_of_warmups(g);
    bench_ranks_set_phase(&g->ranks, "planning");
    refusals refused = {0};
    for (int m = 0; m < g->model_count; m++)
        for (int64_t i = 0; i < point_count(g); i++) {
            point at = point_at(g, i);
            plan *p;
            if (i / g->extent_count % g->warmup_count > 0)
                continue;
            sweep_show_planning(&g->sweep, m * point_count(g) + i);
            dyno_status status = make_plan(g, &g->models[m], &at, &p);
            if (refusals_are_of(status)) {
                refusals_add(&refused, status);
                continue;
            }
            RETURN_IF_FAILED(status);
            g->sweep.work_total += plan_total_cost(p, PHASE_COUNT).flops * steps;
            seconds += sweep_predict_seconds(&g->sweep, p, at.variant->precision) * steps;
            plan_destroy(p);
        }
    RETURN_IF_FAILED(
        refusals_conclude(&refused, g->model_count * point_count(g) / g->warmup_count));
    sweep_tell_estimate(&g->sweep, seconds, "--steps and fewer cells shorten it");
    return DYNO_OK;
}

static void describe_cell(const step_grid *g, results_cell *cell, const model_config *config,
                          const point *at) {
    model_options_describe(config, cell);
    cell_set_integer(cell, PARAM_CONTEXT, at->context);
    cell_set_integer(cell, PARAM_BATCH, flags_integer(g->given, "batch"));
    cell_set_integer(cell, PARAM_ACCUMULATE, flags_integer(g->given, "accumulate"));
    ranks_describe(g->ranks.count, &at->variant->parallel, cell);
    cell_set_text(cell, PARAM_REDUCE, flags_text(g->given, "reduce"));
    cell_set_integer(cell, PARAM_WARMUP, at->warmup);
    cell_set_integer(cell, PARAM_STEPS, flags_integer(g->given, "steps"));
    cell_set_text(cell, PARAM_PASS, step_extent_name(at->extent));
    step_variant variant;
    if (step_variant_settle(at->variant, config, &variant) != DYNO_OK)
        variant = *at->variant; /* the row has the name of what was asked for, and says why not */
    step_variant_describe(&variant, cell);
    sweep_describe_device(&g->sweep, at->variant->precision, cell);
    cell_set_integer(cell, PARAM_SEED, flags_integer(g->given, "seed"));
}

/* Weights are drawn once per model. All else that the cell before left goes back first, so that
 * each cell's memory is its own. */
static dyno_status prepare_cell(grid_model *m, const plan *p, uint64_t seed, int64_t *setup_ns,
                                executor **out) {
    *out = NULL;
    *setup_ns = 0;
    held_weights *held = NULL;
    if (m->has_ranks) {
        storage_shrink(m->shared, 0);
        m->has_weights = false;
    }
    if (m->has_weights)
        RETURN_IF_FAILED(weights_hold(m->shared, m->config, p, &held));
    storage_keep_parameters(m->shared, p);
    memory_pool_trim(m->pool);
    if (m->is_recording)
        memory_pool_start_recording(m->pool);
    timing_reset_peak_rss();
    bool has_copies = weights_have_copies(m->shared, p);
    int64_t begin = clock_now_ns();
    dyno_status status = executor_create(p, m->pool, m->shared, out);
    *setup_ns = clock_now_ns() - begin;
    if (status == DYNO_OK && held)
        status = weights_restore(m->shared, held);
    else if (status == DYNO_OK && !m->has_weights)
        status = weights_init_unless(m->shared, m->config, seed,
                                     m->has_ranks ? NULL : sweep_should_stop, m->sweep);
    else if (status == DYNO_OK && !has_copies)
        status = weights_fill_low_copies(m->shared, m->config);
    /* Weights that were held for a cell that could not be set up are drawn anew for the next. */
    m->has_weights = status == DYNO_OK || (m->has_weights && !held);
    held_weights_destroy(held);
    if (status != DYNO_OK) {
        executor_destroy(*out);
        *out = NULL;
    }
    return status;
}

static bool should_stop(void *context) {
    step_grid *g = context;
    return bench_ranks_should_stop(&g->ranks, &g->sweep);
}

static void show_progress(void *context, int64_t steps_done) {
    sweep_show_progress(&((step_grid *)context)->sweep, steps_done);
}

timing_options step_grid_timing(step_grid *g) {
    timing_options options = sweep_timing(&g->sweep);
    options.context = g;
    options.should_stop = should_stop;
    options.on_step = show_progress;
    return options;
}

dyno_status step_grid_time(step_grid *g, const step_cell *at) {
    timing_options options = step_grid_timing(g);
    options.warmup = at->warmup;
    options.steps = flags_integer(g->given, "steps");
    /* Other ranks are no contention: they are what is measured. */
    contention_watch *watch = g->ranks.count == 1 ? sweep_watch(&g->sweep) : NULL;
    dyno_status status = timing_run(at->e, at->p, &options, at->cell);
    sweep_watched(watch, at->cell);
    dyno_status recorded = sweep_record_memory(&g->sweep, at->cell, at->pool);
    if (status == DYNO_OK && recorded == DYNO_OK)
        recorded = bench_ranks_record(&g->ranks, at->cell);
    return status == DYNO_OK ? recorded : status;
}

static dyno_status record_stages(step_grid *g, const step_cell *at) {
    (void)g;
    return memory_stages_record(at->e, at->p, at->pool, at->cell);
}

static dyno_status run_cell(step_grid *g, grid_model *m, const plan *p, int64_t warmup,
                            results_cell *cell) {
    uint64_t seed = (uint64_t)flags_integer(g->given, "seed");
    int64_t setup_ns;
    executor *e;
    bench_ranks_set_phase(&g->ranks, "setting up a cell");
    dyno_status status = prepare_cell(m, p, seed, &setup_ns, &e);
    if (!g->is_revisiting)
        cell_set_metric(cell, METRIC_SETUP_NS, "ns", setup_ns);
    if (status == DYNO_OK)
        status = step_inputs_fill(e, m->config, seed, g->ranks.rank);
    status = bench_ranks_agree(&g->ranks, status);
    if (status == DYNO_OK) {
        bench_ranks_set_phase(&g->ranks, "a step");
        executor_set_communicator(e, g->ranks.communicator);
        status = m->visit(g, &(step_cell){e, p, m->pool, warmup, cell});
        status = bench_ranks_conclude(&g->ranks, status);
    }
    executor_destroy(e);
    return status;
}

/* The cell's status. Returns what ends the sweep, to which ranks that no longer do the same belong. */
static dyno_status settle_cell(const step_grid *g, results_cell *cell, dyno_status status) {
    dyno_status ended = sweep_settle(cell, status);
    return g->ranks.broken == DYNO_OK ? ended : status;
}

/* A terminal may cut it: the model, which most cells have in common, comes last. */
static void set_label(step_grid *g, const grid_model *m, const point *at, const char *more) {
    snprintf(g->sweep.label, sizeof g->sweep.label, "context %lld, %s, %s %s%s: %s",
             (long long)at->context, step_extent_name(at->extent),
             step_mode_name(at->variant->mode), precision_name(at->variant->precision), more,
             m->config->name);
}

/* A cell that is OK, once more. */
static dyno_status revisit_cell(step_grid *g, grid_model *m, const point *at) {
    results_cell *cell = g->sweep.run->cells[g->next_cell++];
    if (cell->status != RESULTS_OK)
        return DYNO_OK;
    plan *p;
    dyno_status status = make_plan(g, m->config, at, &p);
    if (status == DYNO_OK) {
        double flops = plan_total_cost(p, PHASE_COUNT).flops;
        double steps = g->is_recording ? 0 : (double)g->second_steps;
        set_label(g, m, at, g->is_recording ? ", recorded" : ", traced");
        g->sweep.step_work =
            flops * steps / (double)step_trace_steps(flags_integer(g->given, "steps"));
        status = run_cell(g, m, p, at->warmup, cell);
        g->sweep.work_done += flops * steps;
        plan_destroy(p);
    }
    return settle_cell(g, cell, status);
}

/* Fails only when the sweep is to end; what happens to one cell is that cell's status. */
static dyno_status measure_cell(step_grid *g, grid_model *m, const point *at) {
    results_cell *cell = results_add_cell(g->sweep.run);
    describe_cell(g, cell, m->config, at);
    set_label(g, m, at, "");
    plan *p;
    dyno_status status = make_plan(g, m->config, at, &p);
    if (refusals_are_of(status)) {
        refusals_record(cell);
        return DYNO_OK;
    }
    if (status != DYNO_OK)
        return sweep_settle(cell, status);
    memory_account account = memory_account_plan(p);
    /* Tokens are those of all ranks, everything else is this one's. */
    int64_t sequences = flags_integer(g->given, "batch") * flags_integer(g->given, "accumulate");
    cell_set_metric(cell, METRIC_TOKENS, "", g->ranks.count * sequences * at->context);
    cell_set_metric(cell, METRIC_PARAMETERS, "", model_parameter_elements(m->config));
    sweep_record_plan(cell, p, &account);
    sweep_record_model_flops(cell, model_flops_of_step(m->config, sequences, at->context),
                             at->extent);
    g->sweep.step_work = plan_total_cost(p, PHASE_COUNT).flops;
    if (sweep_admit(&g->sweep, cell, &account))
        status = settle_cell(g, cell, run_cell(g, m, p, at->warmup, cell));
    g->sweep.work_done +=
        g->sweep.step_work * (double)(at->warmup + flags_integer(g->given, "steps"));
    plan_destroy(p);
    return status;
}

static dyno_status visit_model(step_grid *g, const model_config *config,
                               step_cell_function *visit) {
    grid_model m = {.config = config,
                    .sweep = &g->sweep,
                    .is_recording = g->is_recording,
                    .has_ranks = g->ranks.count > 1,
                    .visit = visit};
    RETURN_IF_FAILED(memory_pool_create(g->sweep.device, g->sweep.memory_limit, &m.pool));
    m.shared = storage_create(m.pool);
    storage_set_communicator(m.shared, g->ranks.communicator);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < point_count(g) && status == DYNO_OK; i++) {
        point at = point_at(g, i);
        status = g->is_revisiting ? revisit_cell(g, &m, &at) : measure_cell(g, &m, &at);
        if (status == DYNO_OK)
            experiment_keep_cell(g->sweep.context);
    }
    storage_destroy(m.shared);
    memory_pool_destroy(m.pool);
    return status;
}

static dyno_status visit_again(step_grid *g, step_cell_function *visit) {
    g->is_revisiting = true;
    g->next_cell = 0;
    for (int m = 0; m < g->model_count; m++)
        RETURN_IF_FAILED(visit_model(g, &g->models[m], visit));
    return DYNO_OK;
}

/* All cells are timed before the first is visited again, which may trace it: a GPU whose work was
 * recorded once (CUPTI) is slower from then on, by 3 % of a small step on an H200. */
static dyno_status visit_all(step_grid *g, step_cell_function *first, step_cell_function *second) {
    RETURN_IF_FAILED(plan_cells(g));
    sweep_show_progress(&g->sweep, 0);
    for (int m = 0; m < g->model_count; m++)
        RETURN_IF_FAILED(visit_model(g, &g->models[m], first));
    g->is_recording = true;
    if (g->ranks.count > 1)
        RETURN_IF_FAILED(visit_again(g, record_stages));
    g->is_recording = false;
    return second ? visit_again(g, second) : DYNO_OK;
}

dyno_status step_grid_run(step_grid *g, step_cell_function *first, step_cell_function *second) {
    bench_ranks_set_phase(&g->ranks, "measuring the machine");
    dyno_status status = sweep_start(&g->sweep);
    if (status == DYNO_OK)
        status = visit_all(g, first, second);
    return sweep_finish(&g->sweep, status);
}

static dyno_status parse_extents(step_grid *g) {
    const char *const *names = flags_text_list(g->given, "pass", &g->extent_count);
    g->extents = memory_allocate((size_t)g->extent_count, sizeof *g->extents);
    for (int i = 0; i < g->extent_count; i++)
        RETURN_IF_FAILED(step_extent_parse(names[i], &g->extents[i]));
    return DYNO_OK;
}

dyno_status step_grid_prepare(step_grid *g, const flags *given, const experiment_context *context,
                              results *run) {
    static const char *const lists[] = {"model",     "context", "mode", "precision", "attention",
                                        "recompute", "warmup",  "pass", "parallel",  NULL};
    g->given = given;
    RETURN_IF_FAILED(grid_check_size(g->given, lists));
    RETURN_IF_FAILED(model_options_resolve(g->given, &g->models, &g->model_count));
    g->contexts = flags_list(g->given, "context", &g->context_count);
    g->warmups = flags_list(g->given, "warmup", &g->warmup_count);
    RETURN_IF_FAILED(parse_extents(g));
    RETURN_IF_FAILED(step_variants_resolve(g->given, &g->variants, &g->variant_count));
    run->planned_cells = g->model_count * point_count(g);
    RETURN_IF_FAILED(bench_ranks_join(&g->ranks, g->given));
    RETURN_IF_FAILED(sweep_prepare(&g->sweep, g->given, context, run));
    dyno_status status = bench_ranks_prepare(&g->ranks, &g->sweep);
    return status == DYNO_OK ? DYNO_OK : sweep_finish(&g->sweep, status);
}

void step_grid_release(step_grid *g) {
    bench_ranks_leave(&g->ranks);
    free(g->models);
    free(g->extents);
    free(g->variants);
}
