/* plan.c - `dyno plan`: every byte and FLOP of a step, before anything runs. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "experiments/grid_size.h"
#include "experiments/model_options.h"
#include "experiments/plan_advice.h"
#include "experiments/ranks.h"
#include "experiments/refusals.h"
#include "experiments/step_variant.h"
#include "experiments/sweep.h"
#include "measure/keys.h"
#include "measure/plan_record.h"
#include "model/parameters.h"
#include "train/step_plan.h"

/* "build|merge-products|..." */
static const char *pass_choices(void) {
    static text names;
    if (names.length)
        return text_string(&names);
    for (int i = 0; pipeline_pass_name(i); i++)
        text_format(&names, "%s%s", i ? "|" : "", pipeline_pass_name(i));
    return text_string(&names);
}

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    BATCH_FLAG,
    ACCUMULATE_FLAG,
    {"ranks", "N", FLAG_INTEGER, "1",
     .help = "plans the step of one of so many ranks: its memory, and what it sends", .minimum = 1,
     .maximum = 1024},
    PARALLEL_FLAG(FLAG_TEXT_LIST),
    REDUCE_FLAG,
    {"context", "LIST", FLAG_INTEGER_LIST, "128", .help = "context lengths in tokens", .minimum = 1,
     .maximum = 1 << 24},
    {"pass", "LIST", FLAG_TEXT_LIST, "step",
     .help = "how much of a step: forward, forward+backward (or backward), step"},
    STEP_FLAGS,
    DEVICE_FLAG("auto"),
    {"target", "NAME", FLAG_TEXT, NULL,
     .help = "plans for a chip that need not be here (`dyno list targets`) instead of a device"},
    {"memory", "SIZE", FLAG_BYTES, NULL, .help = "says whether it fits this much, e.g. 32GiB"},
    {"detail", NULL, FLAG_SWITCH, NULL,
     .help = "FLOPs by scope and the values alive at the peak, also for more than one cell"},
    {"map", NULL, FLAG_SWITCH, NULL,
     .help = "only a map of the memory needed, models down and contexts across"},
    {"dump-after", "PASS", FLAG_CHOICE, NULL,
     .help = "prints the graph, or the plan, after this pass of the compiler instead (one cell)",
     .list_choices = pass_choices},
    {"source", NULL, FLAG_SWITCH, NULL,
     .help = "prints the generated kernels instead, each with the ops it contains (one cell)"},
};

static const flags_example EXAMPLES[] = {
    {"plan --model xl --context 128,512 --pass forward,backward,step --memory 32GiB",
     "does xl fit a 32 GiB card, and what makes its peak?"},
    {"plan --model small,medium,large,xl,2.7B,10B --context 128:1024:*2 --pass forward,step "
     "--memory 32GiB --map",
     "the map of what fits"},
    {"plan --model 10B --format json", "every number, for a program"},
    {"plan --mode compiled --source", "the generated kernels"},
    {"plan --model 2.7B --context 512 --target h100 --mode compiled --precision bf16 --memory "
     "80GiB",
     "a plan for a GPU; none is needed here"},
    {"plan --ranks 4 --parallel ddp-flat,ddp-bucket:25 --accumulate 2",
     "one of four ranks that sum their gradients, two ways"},
    {"plan --layers 1 --dump-after autodiff", "the graph of a one-layer model with its gradients"},
};

static const flags_verb VERB = {
    .name = "plan",
    .summary =
        "Tells what a step would take: parameters, FLOPs by scope and in all, bytes by role, "
        "the peak of memory, the launch it happens at and the values that make it, and "
        "whether it fits. Nothing is allocated or run, so any size answers at once.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct plan_job {
    const flags *given;
    const experiment_context *context;
    model_config *models;
    int model_count;
    step_variant *variants;
    int variant_count;
    target target;
    dtype reduce_type;
    autotune *tuned; /* of the CPU, which is here; NULL: nothing is known of the device */
    experiment_output *out;
    int64_t begin_ns; /* of planning */
    bool has_told;    /* how long it takes */
    refusals refused;
} plan_job;

static step_options cell_options(const plan_job *job, const model_config *config, int64_t context,
                                 step_extent extent, const step_variant *variant) {
    step_options options = {.config = *config,
                            .batch = flags_integer(job->given, "batch"),
                            .context = context,
                            .pipeline = {.extent = extent,
                                         .micro_batches = flags_integer(job->given, "accumulate"),
                                         .target = &job->target,
                                         .optimizer = step_default_optimizer()}};
    step_variant_apply(variant, &options.pipeline);
    options.pipeline.parallel.ranks = flags_integer(job->given, "ranks");
    options.pipeline.parallel.reduce_type = job->reduce_type;
    if (job->tuned)
        options.pipeline.kernels.tuning = autotune_kernels(job->tuned);
    return options;
}

static results_cell *describe_cell(const plan_job *job, const model_config *config, int64_t context,
                                   step_extent extent, const step_variant *variant) {
    results_cell *cell = results_add_cell(job->out->run);
    model_options_describe(config, cell);
    cell_set_integer(cell, PARAM_CONTEXT, context);
    cell_set_integer(cell, PARAM_BATCH, flags_integer(job->given, "batch"));
    cell_set_integer(cell, PARAM_ACCUMULATE, flags_integer(job->given, "accumulate"));
    ranks_describe(flags_integer(job->given, "ranks"), &variant->parallel, cell);
    cell_set_text(cell, PARAM_REDUCE, flags_text(job->given, "reduce"));
    cell_set_text(cell, PARAM_PASS, step_extent_name(extent));
    step_variant_describe(variant, cell);
    cell_set_text(cell, PARAM_DEVICE,
                  flags_is_set(job->given, "target") ? job->target.name
                                                     : target_kind_name(job->target.kind));
    return cell;
}

static dyno_status plan_step(const model_config *config, const step_variant *variant,
                             const step_options *options, plan **out) {
    step_variant settled;
    RETURN_IF_FAILED(model_config_check(config));
    RETURN_IF_FAILED(step_variant_settle(variant, config, &settled));
    RETURN_IF_FAILED(step_variant_check_label(&settled, config, options->pipeline.extent));
    return step_plan_create(options, out);
}

static dyno_status plan_cell(plan_job *job, const model_config *config, int64_t context,
                             step_extent extent, const step_variant *asked) {
    step_variant variant;
    if (step_variant_settle(asked, config, &variant) != DYNO_OK)
        variant = *asked; /* the row has the name of what was asked for, and says why not */
    results_cell *cell = describe_cell(job, config, context, extent, &variant);
    step_options options = cell_options(job, config, context, extent, &variant);
    options.pipeline.dump_after = flags_text(job->given, "dump-after");
    options.pipeline.dump = &job->out->listing;
    plan *p;
    dyno_status status = plan_step(config, asked, &options, &p);
    if (refusals_are_of(status)) {
        refusals_add(&job->refused, status);
        refusals_record(cell);
        return DYNO_OK;
    }
    RETURN_IF_FAILED(status);
    cell_set_metric(cell, METRIC_PARAMETERS, "", model_parameter_elements(config));
    if (flags_switch(job->given, "source"))
        text_append(&job->out->listing,
                    p->source ? p->source : "no generated kernels in eager mode\n");
    int64_t memory = flags_bytes(job->given, "memory");
    plan_record(p, memory, cell);
    sweep_record_model_flops(
        cell, model_flops_of_step(config, options.batch * options.pipeline.micro_batches, context),
        extent);
    plan_destroy(p);
    plan_advice advice;
    if (memory && !flags_switch(job->given, "map") &&
        strcmp(cell_find_parameter(cell, PARAM_FITS)->text, "no") == 0) {
        RETURN_IF_FAILED(plan_advice_find(&options, memory, &advice));
        cell_set_text(cell, PARAM_FITS_WITH, advice.text);
    }
    return DYNO_OK;
}

/* Once, when enough was planned to know; a grid that is done by then needs none. */
static void tell_estimate(plan_job *job, int64_t cells) {
    enum { LEAST_NS = 500000000, LONG_NS = 2000000000 };
    int64_t done = job->out->run->cell_count, spent_ns = clock_now_ns() - job->begin_ns;
    if (job->has_told || done == 0 || spent_ns < LEAST_NS)
        return;
    job->has_told = true;
    double left_ns = (double)spent_ns / (double)done * (double)(cells - done);
    if (left_ns > (double)LONG_NS)
        experiment_note(job->context, "%lld cells; this takes about %s", (long long)cells,
                        units_duration((left_ns + (double)spent_ns) / 1e9).text);
}

static dyno_status check_stop(plan_job *job, int64_t cells) {
    const results *run = job->out->run;
    experiment_progress(job->context, (double)run->cell_count, (double)cells, "planning");
    tell_estimate(job, cells);
    if (!experiment_should_stop(job->context))
        return DYNO_OK;
    return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld cells",
                     (long long)run->cell_count, (long long)cells);
}

static dyno_status plan_cells(plan_job *job) {
    int contexts, extents;
    const int64_t *context = flags_list(job->given, "context", &contexts);
    const char *const *names = flags_text_list(job->given, "pass", &extents);
    int64_t cells = job->out->run->planned_cells;
    if (job->out->is_listing && cells != 1)
        return dyno_fail(DYNO_INVALID,
                         "--dump-after and --source print one cell, but %lld are asked for; give "
                         "one --model, --context, --pass, --mode, --precision and --recompute",
                         (long long)cells);
    for (int m = 0; m < job->model_count; m++)
        for (int v = 0; v < job->variant_count; v++)
            for (int i = 0; i < extents; i++)
                for (int c = 0; c < contexts; c++) {
                    step_extent extent;
                    RETURN_IF_FAILED(check_stop(job, cells));
                    RETURN_IF_FAILED(step_extent_parse(names[i], &extent));
                    RETURN_IF_FAILED(
                        plan_cell(job, &job->models[m], context[c], extent, &job->variants[v]));
                    experiment_keep_cell(job->context);
                }
    return refusals_conclude(&job->refused, cells);
}

/* The one named, else that of the device that would run. */
static dyno_status find_target(plan_job *job) {
    const char *name = flags_text(job->given, "target");
    if (!name)
        return device_find_target(flags_text(job->given, "device"), &job->target);
    if (flags_is_set(job->given, "device"))
        return dyno_fail(DYNO_INVALID, "--target names a chip and --device one that is here; give "
                                       "one of them");
    const target *found;
    RETURN_IF_FAILED(target_find(name, &found));
    job->target = *found;
    return DYNO_OK;
}

/* The grid, before anything starts. */
static dyno_status resolve(plan_job *job) {
    static const char *const lists[] = {"model",     "context",   "pass",     "mode", "precision",
                                        "attention", "recompute", "parallel", NULL};
    RETURN_IF_FAILED(grid_check_size(job->given, lists));
    RETURN_IF_FAILED(model_options_resolve(job->given, &job->models, &job->model_count));
    RETURN_IF_FAILED(step_variants_resolve(job->given, &job->variants, &job->variant_count));
    parallel_options reduce;
    RETURN_IF_FAILED(parallel_parse_reduce(flags_text(job->given, "reduce"), &reduce));
    job->reduce_type = reduce.reduce_type;
    job->out->run->planned_cells = (int64_t)job->model_count * job->variant_count *
                                   flags_list_length(job->given, "context") *
                                   flags_list_length(job->given, "pass");
    return find_target(job);
}

static dyno_status run_job(plan_job *job) {
    RETURN_IF_FAILED(resolve(job));
    RETURN_IF_FAILED(experiment_start(job->context));
    if (target_is_this_cpu(&job->target))
        job->tuned = autotune_create(&job->target);
    job->begin_ns = clock_now_ns();
    return plan_cells(job);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    out->is_listing = flags_text(given, "dump-after") || flags_switch(given, "source");
    plan_job job = {.given = given, .context = context, .out = out};
    dyno_status status = run_job(&job);
    autotune_destroy(job.tuned);
    free(job.models);
    free(job.variants);
    return status;
}

const experiment experiment_plan = {.settings = &VERB,
                                    .plans_ranks = true,
                                    .out_help =
                                        "keeps it all in DIR/run.json, written after every cell",
                                    .run = run};
