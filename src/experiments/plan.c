/* plan.c - `dyno plan`: every byte and FLOP of a step, before anything runs. */
#include <string.h>

#include "experiments/plan_advice.h"
#include "experiments/plan_grid.h"
#include "experiments/sweep.h"
#include "measure/keys.h"
#include "measure/plan_record.h"
#include "model/parameters.h"

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
    PLAN_GRID_FLAGS,
    DEVICE_FLAG("auto"),
    {"target", "NAME", FLAG_TEXT, NULL,
     .help = "plans for a chip that need not be here (`dyno list targets`) instead of a device",
     .suggestion_at = dyno_target_name},
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

#define A_LISTING "is of the tables, which a listing of graphs or kernels is printed instead of"

static const flags_rule RULES[] = {
    {"detail", "map", "is of the tables, and --map prints a map instead of them; give one of them"},
    {"map|detail|format|wide", "dump-after", A_LISTING "; leave it or --dump-after out"},
    {"map|detail|format|wide", "source", A_LISTING "; leave it or --source out"},
    {"memory", "dump-after&!out", A_LISTING "; leave it or --dump-after out"},
    {"memory", "source&!out", A_LISTING "; leave it or --source out"},
};

static const flags_verb VERB = {
    .name = "plan",
    .summary =
        "Tells what a step would take: parameters, FLOPs by scope and in all, bytes by role, "
        "the peak of memory, the launch it happens at and the values that make it, and "
        "whether it fits. Nothing is allocated or run, so any size answers at once.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

static dyno_status plan_cell(plan_grid *g, const plan_point *at, experiment_output *out) {
    results_cell *cell = plan_grid_add_cell(g, at, NULL);
    step_options options = plan_grid_options(g, at);
    options.pipeline.dump_after = flags_text(g->given, "dump-after");
    options.pipeline.dump = &out->listing;
    plan *p;
    RETURN_IF_FAILED(plan_grid_plan(g, at, &options, cell, &p));
    if (!p)
        return DYNO_OK;
    cell_set_metric(cell, METRIC_PARAMETERS, "", model_parameter_elements(at->config));
    if (flags_switch(g->given, "source"))
        text_append(&out->listing, p->source ? p->source : "no generated kernels in eager mode\n");
    int64_t memory = flags_bytes(g->given, "memory");
    plan_record(p, memory, cell);
    int64_t sequences = options.batch * options.pipeline.micro_batches;
    sweep_record_model_flops(cell, model_flops_of_step(at->config, sequences, at->context),
                             at->extent);
    plan_destroy(p);
    plan_advice advice;
    if (memory && !flags_switch(g->given, "map") &&
        strcmp(cell_find_parameter(cell, PARAM_FITS)->text, "no") == 0) {
        RETURN_IF_FAILED(plan_advice_find(&options, at->asked->has_attention, memory, &advice));
        cell_set_text(cell, PARAM_FITS_WITH, advice.text);
    }
    return DYNO_OK;
}

static dyno_status plan_cells(plan_grid *g, experiment_output *out) {
    int64_t cells = g->run->planned_cells;
    if (out->is_listing && cells != 1)
        return dyno_fail(DYNO_INVALID,
                         "--dump-after and --source print one cell, but %lld are asked for; give "
                         "one --model, --context, --pass, --mode, --precision and --recompute",
                         (long long)cells);
    for (int64_t i = 0; i < cells; i++) {
        plan_point at = plan_grid_at(g, i);
        RETURN_IF_FAILED(plan_grid_go_on(g));
        RETURN_IF_FAILED(plan_cell(g, &at, out));
        experiment_keep_cell(g->context);
    }
    return plan_grid_conclude(g);
}

static dyno_status run_grid(plan_grid *g, const flags *given, const experiment_context *context,
                            experiment_output *out) {
    RETURN_IF_FAILED(plan_grid_resolve(g, given, context, out->run));
    RETURN_IF_FAILED(plan_grid_find_target(given, &g->target));
    RETURN_IF_FAILED(experiment_start(context));
    if (target_is_this_cpu(&g->target))
        g->tuned = autotune_create(&g->target);
    return plan_cells(g, out);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    out->is_listing = flags_text(given, "dump-after") || flags_switch(given, "source");
    plan_grid grid;
    dyno_status status = run_grid(&grid, given, context, out);
    autotune_destroy(grid.tuned);
    plan_grid_release(&grid);
    return status;
}

const experiment experiment_plan = {.settings = &VERB,
                                    .plans_ranks = true,
                                    .out_help =
                                        "keeps it all in DIR/run.json, written after every cell",
                                    .run = run};
