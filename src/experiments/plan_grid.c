#include "experiments/plan_grid.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/units.h"
#include "experiments/grid_size.h"
#include "experiments/model_options.h"
#include "experiments/ranks.h"
#include "measure/keys.h"
#include "runtime/device.h"

static dyno_status parse_extents(plan_grid *g) {
    const char *const *names = flags_text_list(g->given, "pass", &g->extent_count);
    g->extents = memory_allocate((size_t)g->extent_count, sizeof *g->extents);
    for (int i = 0; i < g->extent_count; i++)
        RETURN_IF_FAILED(step_extent_parse(names[i], &g->extents[i]));
    return DYNO_OK;
}

dyno_status plan_grid_resolve(plan_grid *g, const flags *given, const experiment_context *context,
                              results *run) {
    static const char *const lists[] = {"model",     "context",   "pass",     "mode", "precision",
                                        "attention", "recompute", "parallel", NULL};
    *g = (plan_grid){.given = given, .context = context, .run = run};
    RETURN_IF_FAILED(grid_check_size(given, lists));
    RETURN_IF_FAILED(model_options_resolve(given, &g->models, &g->model_count));
    RETURN_IF_FAILED(step_variants_resolve(given, &g->variants, &g->variant_count));
    parallel_options reduce;
    RETURN_IF_FAILED(parallel_parse_reduce(flags_text(given, "reduce"), &reduce));
    g->reduce_type = reduce.reduce_type;
    g->contexts = flags_list(given, "context", &g->context_count);
    RETURN_IF_FAILED(parse_extents(g));
    run->planned_cells =
        (int64_t)g->model_count * g->variant_count * g->context_count * g->extent_count;
    return DYNO_OK;
}

void plan_grid_release(plan_grid *g) {
    free(g->models);
    free(g->variants);
    free(g->extents);
}

dyno_status plan_grid_find_target(const flags *given, target *out) {
    const char *name = flags_text(given, "target");
    if (!name)
        return device_find_target(flags_text(given, "device"), out);
    if (flags_is_set(given, "device"))
        return dyno_fail(DYNO_INVALID, "--target names a chip and --device one that is here; give "
                                       "one of them");
    const target *found;
    RETURN_IF_FAILED(target_find(name, &found));
    *out = *found;
    return DYNO_OK;
}

plan_point plan_grid_at(const plan_grid *g, int64_t index) {
    plan_point at = {.context = g->contexts[index % g->context_count]};
    index /= g->context_count;
    at.extent = g->extents[index % g->extent_count];
    index /= g->extent_count;
    at.asked = &g->variants[index % g->variant_count];
    at.config = &g->models[index / g->variant_count];
    if (step_variant_settle(at.asked, at.config, &at.variant) != DYNO_OK)
        at.variant = *at.asked; /* the row has the name of what was asked for, and says why not */
    return at;
}

/* Once, when enough was planned to know; a grid that is done by then needs none. */
static void tell_estimate(plan_grid *g) {
    enum { LEAST_NS = 500000000, LONG_NS = 2000000000 };
    int64_t done = g->run->cell_count, cells = g->run->planned_cells;
    int64_t spent_ns = clock_now_ns() - g->begin_ns;
    if (g->has_told || done == 0 || spent_ns < LEAST_NS)
        return;
    g->has_told = true;
    double left_ns = (double)spent_ns / (double)done * (double)(cells - done);
    if (left_ns > (double)LONG_NS)
        experiment_note(g->context, "%lld cells; this takes about %s", (long long)cells,
                        units_duration((left_ns + (double)spent_ns) / 1e9).text);
}

dyno_status plan_grid_go_on(plan_grid *g) {
    const results *run = g->run;
    if (!g->begin_ns)
        g->begin_ns = clock_now_ns();
    experiment_progress(g->context, (double)run->cell_count, (double)run->planned_cells,
                        "planning");
    tell_estimate(g);
    if (!experiment_should_stop(g->context))
        return DYNO_OK;
    return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld cells",
                     (long long)run->cell_count, (long long)run->planned_cells);
}

results_cell *plan_grid_add_cell(const plan_grid *g, const plan_point *at,
                                 const char *device_name) {
    results_cell *cell = results_add_cell(g->run);
    model_options_describe(at->config, cell);
    cell_set_integer(cell, PARAM_CONTEXT, at->context);
    cell_set_integer(cell, PARAM_BATCH, flags_integer(g->given, "batch"));
    cell_set_integer(cell, PARAM_ACCUMULATE, flags_integer(g->given, "accumulate"));
    ranks_describe(flags_integer(g->given, "ranks"), &at->variant.parallel, cell);
    cell_set_text(cell, PARAM_REDUCE, flags_text(g->given, "reduce"));
    cell_set_text(cell, PARAM_PASS, step_extent_name(at->extent));
    step_variant_describe(&at->variant, cell);
    if (!device_name)
        device_name =
            flags_is_set(g->given, "target") ? g->target.name : target_kind_name(g->target.kind);
    cell_set_text(cell, PARAM_DEVICE, device_name);
    return cell;
}

step_options plan_grid_options(const plan_grid *g, const plan_point *at) {
    step_options options = {.config = *at->config,
                            .batch = flags_integer(g->given, "batch"),
                            .context = at->context,
                            .pipeline = {.extent = at->extent,
                                         .micro_batches = flags_integer(g->given, "accumulate"),
                                         .target = &g->target,
                                         .is_unverified = g->is_unverified,
                                         .optimizer = step_default_optimizer()}};
    step_variant_apply(&at->variant, &options.pipeline);
    options.pipeline.parallel.ranks = flags_integer(g->given, "ranks");
    options.pipeline.parallel.reduce_type = g->reduce_type;
    if (g->tuned)
        options.pipeline.kernels.tuning = autotune_kernels(g->tuned);
    return options;
}

static dyno_status create_plan(const plan_point *at, const step_options *options, plan **out) {
    step_variant settled;
    *out = NULL;
    RETURN_IF_FAILED(model_config_check(at->config));
    RETURN_IF_FAILED(step_variant_settle(at->asked, at->config, &settled));
    RETURN_IF_FAILED(step_variant_check_label(&settled, at->config, at->extent));
    return step_plan_create(options, out);
}

dyno_status plan_grid_plan(plan_grid *g, const plan_point *at, const step_options *options,
                           results_cell *cell, plan **out) {
    dyno_status status = create_plan(at, options, out);
    if (!refusals_are_of(status))
        return status;
    refusals_add(&g->refused, status);
    refusals_record(cell);
    return DYNO_OK;
}

dyno_status plan_grid_conclude(const plan_grid *g) {
    return refusals_conclude(&g->refused, g->run->planned_cells);
}
