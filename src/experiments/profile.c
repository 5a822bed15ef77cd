/* profile.c - `dyno profile`: where every microsecond of a step goes, over the grid that `bench`
 * times.
 *
 * All cells are timed first; then each is visited again and traced, a traced step after an untraced
 * one. A profile of which something cannot be true is refused (measure/profile_check.h). */
#include <stdio.h>

#include "base/stop.h"
#include "experiments/profile_from.h"
#include "experiments/profile_trace.h"
#include "experiments/step_grid.h"
#include "measure/breakdown.h"
#include "measure/keys.h"
#include "measure/profile_check.h"
#include "measure/profile_record.h"
#include "measure/step_trace.h"
#include "runtime/nvtx.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    BATCH_FLAG,
    STEP_GRID_FLAGS("forward,step", "5", "timed steps, and as many traced ones, at most 32"),
    STEP_FLAGS,
    {"by", NULL, FLAG_CHOICE, NULL,
     .help = "only this table: a row for each kernel, class, op, scope (and their tree), phase or "
             "launch. Not given: kernels, and what follows from them",
     .choices = "kernel|class|op|scope|phase|launch"},
    {"top", NULL, FLAG_INTEGER, "10", .help = "rows of a table in the terminal; 0: all",
     .minimum = 0, .maximum = 1000000},
    {"depth", NULL, FLAG_INTEGER, "3",
     .help =
         "levels of the tree of scopes, layers folded; 0: all, every layer by itself. With --by "
         "scope --format csv the rows are those of the tree, with whole paths",
     .minimum = 0, .maximum = 64},
    {"timeline", NULL, FLAG_SWITCH, NULL,
     .help = "keeps when every launch of the traced steps began and how long it took in the "
             "record, for "
             "the timeline of `dyno report`"},
    {"nvtx", NULL, FLAG_SWITCH, NULL,
     .help = "emits NVTX ranges for steps, phases and scopes, for nsys or ncu around dyno"},
    PROFILE_TRACE_FLAGS,
    SWEEP_FLAGS,
    PROFILE_FROM_FLAGS,
};

static const flags_example EXAMPLES[] = {
    {"profile", "small at context 128: inference against a whole training step"},
    {"profile --pass step --by kernel --top 0", "every kernel of a step"},
    {"profile --pass step --by scope --format csv", "time by scope, for a spreadsheet"},
    {"profile --pass step --depth 2", "the tree of scopes, not so deep"},
    {"profile --pass step --by scope --depth 3 --format csv", "the tree, for a spreadsheet"},
    {"profile --mode eager,compiled --pass step", "what fusing changes"},
    {"profile --device cuda --model small,medium --context 128:1024:*2 --precision fp32,bf16 "
     "--out runs/profile",
     "the grid on a GPU, kept for `dyno show runs/profile`"},
    {"profile --ranks 2 --parallel ddp-flat,ddp-bucket:25 --pass step --by class",
     "what rank 0 of two spends on collectives"},
    {"profile --pass step --steps 2 --trace step.json.gz",
     "also every launch of two steps, for ui.perfetto.dev"},
    {"profile --from trace.json.gz", "the same tables for what PyTorch's profiler recorded"},
    {"profile --from report.sqlite --by phase --format csv",
     "count and time of the phases that a program marks with NVTX, from Nsight Systems"},
};

static const flags_rule RULES[] = {
    {"^from|classes|by|top|depth|out|force|format|wide", "from",
     "is for runs of dyno's own models, and --from runs nothing: it goes with --classes, --by, "
     "--top and --depth"},
    {"classes", "!from",
     "is for kernels of other programs: it goes with --from; dyno knows the classes of its own"},
    {"depth", "by=kernel|class|op|phase|launch",
     "says how deep the tree of scopes is shown, and this --by shows another table instead of it; "
     "use --by scope, or leave one of them out"},
    {"top", "format=csv&!out",
     "is for tables that are read on a screen, and --format csv has every row; leave it out, or "
     "use --format table, md or json"},
};

static const flags_verb VERB = {
    .name = "profile",
    .summary =
        "Tells where the time of a step goes, launch by launch: the host's clock against the "
        "device's, kernels, op classes, what is inside attention, a tree of scopes, and what to "
        "speed up next. Times are attributed by launch, never by time window. Traced steps are "
        "other "
        "steps than the timed ones, and what tracing costs is measured. A profile of which "
        "something cannot be true (less than 99 % attributed, a part longer than the whole) is an "
        "error. Ctrl-C ends with what was profiled so far, marked incomplete. With --from it runs "
        "nothing and tells the same of a program that Nsight Systems or PyTorch's profiler traced.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

/* What a grid of profiles has to remember. */
typedef struct profile_job {
    step_grid grid; /* first: visitors get the grid */
    int64_t broken; /* cells of which something cannot be true */
    char first_broken[512];
    bool has_traced;       /* a cell came so far that --trace could be written */
    dyno_status written;   /* what came of it, */
    char not_written[512]; /* and why */
} profile_job;

static bool by_launch(const flags *given) {
    const char *by = flags_text(given, "by");
    return by && by[0] == 'l';
}

/* Whether counters are there is the same for all cells. */
static dyno_status count(step_grid *g, const step_cell *at, step_trace *trace) {
    results *run = g->sweep.run;
    const results_value *known = results_find_environment(run, ENV_CPU_COUNTERS);
    /* With several ranks, all take the same steps. */
    if (!device_is_host(g->sweep.device) || g->ranks.count > 1 || (known && known->text[0] != 'c'))
        return DYNO_OK;
    dyno_status status = step_trace_count(at->e, at->p, trace);
    if (status == DYNO_UNSUPPORTED)
        results_set_environment_text(run, ENV_CPU_COUNTERS, dyno_error_message());
    else if (status == DYNO_OK)
        results_set_environment_text(run, ENV_CPU_COUNTERS, "counted");
    return status == DYNO_UNSUPPORTED ? DYNO_OK : status;
}

static dyno_status record(step_grid *g, const step_cell *at, const step_trace *trace) {
    int count, steps = trace->log.step_count;
    const grouping *groupings = profile_groupings(by_launch(g->given), &count);
    kernel_groups *groups = kernel_groups_create(groupings, count);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < trace->log.count && status == DYNO_OK; i++)
        status = kernel_groups_add(groups, &trace->log.records[i]);
    if (status == DYNO_OK) {
        profile_record_groups(groups, steps, at->cell);
        if (flags_switch(g->given, "timeline"))
            profile_record_launches(trace->log.records, trace->log.count, at->p, at->cell);
        cell_set_metric(at->cell, METRIC_LAUNCHES_UNSEEN, "", trace->sums.unseen);
        cell_set_metric_real(at->cell, METRIC_CAST_NS, "ns",
                             breakdown_cast_ns(&trace->log, at->p, steps));
    }
    kernel_groups_destroy(groups);
    return status;
}

/* The sweep goes on with the next cell, and says at its end that this one was refused. */
static dyno_status refuse_if_broken(profile_job *job, const results_cell *cell) {
    profile_check check = profile_check_cell(cell);
    dyno_status status = profile_check_enforce(&check);
    if (status != DYNO_OK && job->broken++ == 0)
        snprintf(job->first_broken, sizeof job->first_broken, "%s", dyno_error_message());
    return status;
}

/* A file that cannot be written is no failure of the cell: the run says it at its end. */
static dyno_status write_trace(profile_job *job, const plan *p, const step_trace *trace) {
    const step_grid *g = &job->grid;
    job->has_traced = true;
    if (g->ranks.rank > 0) /* one rank writes */
        return DYNO_OK;
    job->written = profile_trace_write(g->given, g->sweep.context, g->sweep.device, p, trace);
    if (job->written != DYNO_OK)
        snprintf(job->not_written, sizeof job->not_written, "%s", dyno_error_message());
    return DYNO_OK;
}

static dyno_status trace_cell(step_grid *g, const step_cell *at) {
    timing_options options = step_grid_timing(g);
    options.steps = flags_integer(g->given, "steps");
    step_trace trace;
    if (flags_switch(g->given, "nvtx"))
        executor_emit_ranges(at->e, nvtx_listener());
    RETURN_IF_FAILED(step_trace_run_interleaved(at->e, at->p, &options, at->cell, &trace));
    dyno_status status = count(g, at, &trace);
    if (status == DYNO_OK)
        status = record(g, at, &trace);
    if (status == DYNO_OK)
        status = refuse_if_broken((profile_job *)g, at->cell);
    if (status == DYNO_OK)
        status = write_trace((profile_job *)g, at->p, &trace);
    step_trace_release(&trace);
    return status;
}

static void remember_what_to_show(const flags *given, results *run) {
    if (flags_is_set(given, "by"))
        results_set_environment_text(run, ENV_SHOWN_BY, flags_text(given, "by"));
    results_set_environment_integer(run, ENV_SHOWN_TOP, flags_integer(given, "top"));
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, flags_integer(given, "depth"));
    if (flags_is_set(given, "depth"))
        results_set_environment_integer(run, ENV_SHOWN_TREE, 1);
}

/* The sweep is over; what was refused on the way is said now. */
static dyno_status conclude(const profile_job *job, const flags *given, const results *run) {
    if (job->broken)
        return dyno_fail(DYNO_CORRUPT, "%lld of %lld profiles cannot be true; the first: %s",
                         (long long)job->broken, (long long)run->cell_count, job->first_broken);
    if (job->written != DYNO_OK)
        return dyno_fail(job->written, "%s", job->not_written);
    if (flags_is_set(given, "trace") && !job->has_traced)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "--trace: '%s' was not written, for no step was traced; the table says "
                         "what became of the cell",
                         flags_text(given, "trace"));
    return DYNO_OK;
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    /* Each traced step follows an untraced one; on a GPU each of both follows one that is not kept. */
    int traced = step_trace_steps(flags_integer(given, "steps"));
    profile_job job = {.grid.second_steps = 2 * traced + 2};
    remember_what_to_show(given, out->run);
    if (flags_is_set(given, "from"))
        return profile_from_run(given, context, out);
    if (flags_switch(given, "timeline") && !context->directory)
        experiment_note(context,
                        "--timeline keeps the launches in the record, and without --out DIR "
                        "none is written");
    dyno_status status = step_grid_prepare(&job.grid, given, context, out->run);
    if (status == DYNO_OK && !device_is_host(job.grid.sweep.device))
        job.grid.second_steps = 4 * traced;
    if (status == DYNO_OK) {
        dyno_status refused =
            profile_trace_check(given, context, job.grid.sweep.run->planned_cells);
        status = refused == DYNO_OK ? step_grid_run(&job.grid, step_grid_time, trace_cell)
                                    : sweep_finish(&job.grid.sweep, refused);
    }
    step_grid_release(&job.grid);
    return status == DYNO_OK ? conclude(&job, given, out->run) : status;
}

const experiment experiment_profile = {
    .settings = &VERB,
    .out_help = "keeps the tables and every sample in DIR/run.json, written after every cell",
    .run = run};
