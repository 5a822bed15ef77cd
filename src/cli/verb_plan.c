/* verb_plan.c - `dyno plan`: every byte and FLOP of a step, before anything runs. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/model_flags.h"
#include "cli/step_flags.h"
#include "cli/sweep.h"
#include "experiments/plan_advice.h"
#include "measure/plan_record.h"
#include "model/parameters.h"
#include "report/view.h"
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
    {"out", "DIR", FLAG_TEXT, NULL, .help = "keeps it all in DIR/run.json"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .choices = TABLE_FORMAT_CHOICES},
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
    model_config *models;
    int model_count;
    step_variant *variants;
    int variant_count;
    target target;
    device_tiles *tiles; /* of the CPU, which is here; NULL: nothing is known of the device */
    results *run;
    text printed; /* by --dump-after or --source */
} plan_job;

static step_options cell_options(const plan_job *job, const model_config *config, int64_t context,
                                 step_pass pass, const step_variant *variant) {
    step_options options = {
        .config = *config,
        .batch = flags_integer(job->given, "batch"),
        .context = context,
        .pipeline = {.pass = pass, .target = &job->target, .optimizer = step_default_optimizer()}};
    step_variant_apply(variant, &options.pipeline);
    if (job->tiles)
        options.pipeline.tiles.source = device_tiles_source(job->tiles);
    return options;
}

static dyno_status plan_cell(plan_job *job, const model_config *config, int64_t context,
                             step_pass pass, const step_variant *variant) {
    step_options options = cell_options(job, config, context, pass, variant);
    options.pipeline.dump_after = flags_text(job->given, "dump-after");
    options.pipeline.dump = &job->printed;
    plan *p;
    RETURN_IF_FAILED(step_plan_create(&options, &p));
    results_cell *cell = results_add_cell(job->run);
    cell_set_text(cell, "model", config->name);
    cell_set_integer(cell, "context", context);
    cell_set_integer(cell, "batch", options.batch);
    cell_set_text(cell, "pass", step_pass_name(pass));
    step_variant_describe(variant, cell);
    cell_set_text(cell, "device",
                  flags_is_set(job->given, "target") ? job->target.name
                                                     : target_kind_name(job->target.kind));
    cell_set_metric(cell, "parameters", "", model_parameter_elements(config));
    if (flags_switch(job->given, "source"))
        text_append(&job->printed, p->source ? p->source : "no generated kernels in eager mode\n");
    int64_t memory = flags_bytes(job->given, "memory");
    plan_record(p, memory, cell);
    plan_destroy(p);
    plan_advice advice;
    if (memory && !flags_switch(job->given, "map") &&
        strcmp(cell_find_parameter(cell, "fits")->text, "no") == 0) {
        RETURN_IF_FAILED(plan_advice_find(&options, memory, &advice));
        cell_set_text(cell, "fits_with", advice.text);
    }
    return DYNO_OK;
}

static dyno_status plan_cells(plan_job *job) {
    int contexts, passes;
    const int64_t *context = flags_list(job->given, "context", &contexts);
    const char *const *names = flags_text_list(job->given, "pass", &passes);
    int64_t cells = (int64_t)job->model_count * contexts * passes * job->variant_count;
    if ((flags_text(job->given, "dump-after") || flags_switch(job->given, "source")) && cells != 1)
        return dyno_fail(DYNO_INVALID,
                         "--dump-after and --source print one cell, but %lld are asked for; give "
                         "one --model, --context, --pass, --mode, --precision and --recompute",
                         (long long)cells);
    for (int m = 0; m < job->model_count; m++)
        for (int v = 0; v < job->variant_count; v++)
            for (int i = 0; i < passes; i++)
                for (int c = 0; c < contexts; c++) {
                    step_pass pass;
                    RETURN_IF_FAILED(step_pass_parse(names[i], &pass));
                    RETURN_IF_FAILED(
                        plan_cell(job, &job->models[m], context[c], pass, &job->variants[v]));
                }
    job->run->is_complete = true;
    return DYNO_OK;
}

static void print_run(const plan_job *job, table_format format) {
    text out = {0};
    if (flags_text(job->given, "dump-after") || flags_switch(job->given, "source"))
        text_append(&out, text_string(&job->printed));
    else
        view_render(job->run, (view_options){.format = format, .is_bold = table_wants_bold()},
                    &out);
    cli_print(&out);
    text_release(&out);
}

static bool is_this_cpu(const plan_job *job) {
    return strcmp(job->target.name, target_this_cpu()->name) == 0;
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

static dyno_status run_job(plan_job *job, table_format format) {
    const char *directory = flags_text(job->given, "out");
    RETURN_IF_FAILED(model_flags_resolve(job->given, &job->models, &job->model_count));
    RETURN_IF_FAILED(step_flags_resolve(job->given, &job->variants, &job->variant_count));
    RETURN_IF_FAILED(find_target(job));
    if (directory)
        RETURN_IF_FAILED(file_make_output_directory(directory));
    if (is_this_cpu(job))
        job->tiles = device_tiles_create(device_cpu());
    RETURN_IF_FAILED(plan_cells(job));
    print_run(job, format);
    return directory ? results_write(job->run, directory) : DYNO_OK;
}

int cli_plan(int argc, char **argv) {
    flags *given;
    int exit_code;
    if (!cli_parse_flags(&VERB, argc, argv, &given, &exit_code))
        return exit_code;
    plan_job job = {.given = given, .run = results_create("plan", argc, (const char *const *)argv)};
    table_format format;
    dyno_status status = table_format_parse(flags_text(given, "format"), &format);
    if (status == DYNO_OK)
        status = run_job(&job, format);
    device_tiles_destroy(job.tiles);
    free(job.models);
    free(job.variants);
    text_release(&job.printed);
    results_destroy(job.run);
    exit_code = status == DYNO_OK ? 0 : cli_report_failure(status);
    flags_destroy(given);
    return exit_code;
}
