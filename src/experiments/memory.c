/* memory.c - `dyno memory`: every byte of a step at every launch, before anything runs; with --measure
 * also as it ran. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "experiments/memory_advice.h"
#include "experiments/memory_snapshot.h"
#include "experiments/plan_advice.h"
#include "experiments/plan_grid.h"
#include "experiments/step_inputs.h"
#include "experiments/sweep.h"
#include "measure/keys.h"
#include "measure/memory_detail.h"
#include "model/parameters.h"

static const flag_spec FLAGS[] = {
    PLAN_GRID_FLAGS,
    DEVICE_FLAG("auto"),
    {"target", "NAME", FLAG_TEXT, NULL,
     .help = "plans for a chip that need not be here (`dyno list targets`) instead of a device",
     .suggestion_at = dyno_target_name},
    {"memory", "SIZE", FLAG_BYTES, NULL,
     .help = "what a step may use, e.g. 32GiB; default: what the chip has; more is OOM"},
    {"part", "LIST", FLAG_CHOICE_LIST, NULL,
     .help = "what to show of each cell; not given: all of a single cell, the grid of several",
     .choices = "grid|timeline|peak|allocations|saved|blocks|advice"},
    {"snapshot", "FILE", FLAG_TEXT, NULL,
     .help = "writes the allocations for pytorch.org/memory_viz (one cell)"},
    {"measure", NULL, FLAG_SWITCH, NULL,
     .help = "also runs each step, on --device, and puts measured bytes beside the predicted"},
    THREADS_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"memory --model xl --context 512", "one step: timeline, peak, allocations, advice"},
    {"memory --model xl,2.7B --context 128,256,512,2048 --pass forward,step --precision fp32,bf16 "
     "--target h200",
     "the peak of every cell; none of it is run"},
    {"memory --model small --part timeline --format csv", "bytes by role at every launch"},
    {"memory --model medium --context 1024 --mode compiled --memory 8GiB --part advice",
     "what would save how much, and what it would cost"},
    {"memory --model small --snapshot small.pickle", "for pytorch.org/memory_viz"},
    {"memory --ranks 4 --parallel ddp-flat,zero1,fsdp --mode compiled --target h200",
     "what one of four ranks needs, with its state sharded or not"},
    {"memory --layers 2 --mode eager,compiled --measure", "predicted and measured"},
};

static const flags_rule RULES[] = {
    {"threads", "!measure",
     "is how many threads run a step, and nothing is run: add --measure, or leave it out"},
};

static const flags_verb VERB = {
    .name = "memory",
    .summary =
        "Tells where every byte of a step goes: the timeline by role, the peak with its launch "
        "and the values alive there, the largest allocations as formulas, what each block "
        "saves for the backward, and what each change would save and cost. Nothing is run, so "
        "any size answers at once; a step that needs more than there is says OOM.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

typedef struct memory_job {
    plan_grid grid;
    sweep sweep; /* of --measure: the device */
    bool is_measuring;
    const char *snapshot; /* the file; NULL: none */
    text parts;           /* that were asked for, "grid,timeline" */
} memory_job;

/* What a step of one cell left in its pool. */
typedef struct measurement {
    memory_record *records; /* texts are the pool's */
    int count;
    memory_sample *samples; /* NULL: it was not measured */
    memory_pool *pool;
    storage *shared;
} measurement;

static bool shows(const memory_job *job, const char *part) {
    return flags_is_set(job->grid.given, "part")
               ? flags_list_has(job->grid.given, "part", part)
               : job->grid.run->planned_cells == 1 || strcmp(part, "grid") == 0;
}

/* ---- --measure ---- */

static void measurement_release(measurement *m) {
    free(m->samples);
    storage_destroy(m->shared);
    memory_pool_destroy(m->pool);
    *m = (measurement){0};
}

/* The first step is recorded; the second is as all others are, which a GPU replays. Weights stay zero:
 * bytes do not depend on them. */
static dyno_status run_steps(const memory_job *job, const plan *p, const model_config *config,
                             measurement *m) {
    RETURN_IF_FAILED(memory_pool_create(job->sweep.device, job->sweep.memory_limit, &m->pool));
    m->shared = storage_create(m->pool);
    memory_return_freed();
    timing_reset_peak_rss();
    memory_pool_start_recording(m->pool);
    executor *e;
    RETURN_IF_FAILED(executor_create(p, m->pool, m->shared, &e));
    dyno_status status = step_inputs_fill(e, config, 0, 0);
    if (status == DYNO_OK)
        status = executor_run(e, NULL, NULL);
    memory_pool_stop_recording(m->pool);
    if (status == DYNO_OK)
        status = executor_run(e, NULL, NULL);
    executor_destroy(e);
    return status;
}

static void record_tensors(const plan *p, const measurement *m, results_cell *cell) {
    int most = 0;
    for (int i = 1; i <= p->launch_count; i++)
        if (m->samples[i].tensor_bytes > m->samples[most].tensor_bytes)
            most = i;
    cell_set_metric(cell, METRIC_TENSOR_BYTES, "B", m->samples[most].tensor_bytes);
    cell_set_metric(cell, METRIC_TENSOR_PEAK_LAUNCH, "", most - 1);
}

static dyno_status measure(memory_job *job, const plan *p, const plan_point *at,
                           const memory_account *account, results_cell *cell, measurement *m) {
    if (!job->is_measuring || !sweep_admit(&job->sweep, cell, account))
        return DYNO_OK;
    dyno_status status = run_steps(job, p, at->config, m);
    if (status == DYNO_OK)
        status = sweep_record_memory(&job->sweep, cell, m->pool);
    if (status == DYNO_OK) {
        m->records = (memory_record *)memory_pool_records(m->pool, &m->count);
        m->samples = memory_allocate((size_t)p->launch_count + 1, sizeof *m->samples);
        memory_detail_sample(m->records, m->count, m->samples, p->launch_count);
        record_tensors(p, m, cell);
    }
    return sweep_settle(cell, status);
}

/* ---- a cell ---- */

static dyno_status write_snapshot(const memory_job *job, const plan *p, const measurement *m,
                                  const memory_account *account) {
    if (!job->snapshot)
        return DYNO_OK;
    memory_record *predicted = NULL;
    const memory_record *records = m->records;
    int count = m->count;
    if (!m->samples) {
        memory_snapshot_predict(p, &predicted, &count);
        records = predicted;
    }
    text pickle = {0};
    memory_snapshot_append(p, records, count, account->reserved_bytes, &pickle);
    free(predicted);
    file_writer *writer;
    dyno_status status =
        file_writer_create_as(job->snapshot, !job->grid.context->replaces_anything, &writer);
    if (status == DYNO_OK) {
        status = file_writer_append(writer, pickle.data, pickle.length);
        if (status == DYNO_OK)
            status = file_writer_commit(writer);
        else
            file_writer_abandon(writer);
    }
    text_release(&pickle);
    return status;
}

static int64_t limit_of(const memory_job *job) {
    if (job->is_measuring)
        return job->sweep.memory_limit;
    int64_t given = flags_bytes(job->grid.given, "memory");
    return given ? given : job->grid.target.memory_bytes;
}

/* Not measured: OK, or OOM where more is needed than there is. */
static void settle(const memory_job *job, const memory_account *account, results_cell *cell) {
    int64_t limit = limit_of(job);
    bool fits = !limit || account->reserved_bytes <= limit;
    if (limit)
        cell_set_metric(cell, METRIC_MEMORY_BYTES, "B", limit);
    if (job->is_measuring)
        return;
    cell_set_status(cell, fits ? RESULTS_OK : RESULTS_OOM, "");
    if (!fits) {
        cell_set_metric(cell, METRIC_NEEDED_BYTES, "B", account->reserved_bytes);
        cell_set_metric(cell, METRIC_AVAILABLE_BYTES, "B", limit);
    }
}

static dyno_status advise(const memory_job *job, const plan_point *at, const step_options *options,
                          const memory_account *account, results_cell *cell) {
    int64_t limit = limit_of(job);
    if (!shows(job, "advice"))
        return DYNO_OK;
    RETURN_IF_FAILED(memory_advice_record(options, at->asked->has_attention, limit, cell));
    if (!limit || account->reserved_bytes <= limit)
        return DYNO_OK;
    plan_advice advice;
    RETURN_IF_FAILED(plan_advice_find(options, at->asked->has_attention, limit, &advice));
    cell_set_text(cell, PARAM_FITS_WITH, advice.text);
    return DYNO_OK;
}

static dyno_status describe(memory_job *job, const plan *p, const plan_point *at,
                            const step_options *options, results_cell *cell) {
    memory_account account = memory_account_plan(p);
    measurement m = {0};
    cell_set_metric(cell, METRIC_PARAMETERS, "", model_parameter_elements(at->config));
    memory_detail_record_peak(p, &account, options->batch, at->context, cell);
    settle(job, &account, cell);
    dyno_status status = measure(job, p, at, &account, cell, &m);
    bool is_single = job->grid.run->planned_cells == 1;
    if (is_single || shows(job, "timeline"))
        memory_detail_record_timeline(p, m.samples, cell);
    if (is_single || shows(job, "peak") || shows(job, "allocations") || shows(job, "saved") ||
        shows(job, "blocks"))
        memory_detail_record_values(p, &account, cell);
    if (status == DYNO_OK)
        status = advise(job, at, options, &account, cell);
    if (status == DYNO_OK)
        status = write_snapshot(job, p, &m, &account);
    measurement_release(&m);
    return status;
}

static dyno_status plan_cell(memory_job *job, const plan_point *at) {
    plan_grid *g = &job->grid;
    results_cell *cell =
        plan_grid_add_cell(g, at, job->is_measuring ? job->sweep.device->name : NULL);
    cell_set_text(cell, PARAM_PART, text_string(&job->parts));
    step_options options = plan_grid_options(g, at);
    plan *p;
    RETURN_IF_FAILED(plan_grid_plan(g, at, &options, cell, &p));
    if (!p)
        return DYNO_OK;
    dyno_status status = describe(job, p, at, &options, cell);
    plan_destroy(p);
    return status;
}

/* ---- the grid ---- */

static dyno_status check_snapshot(const memory_job *job) {
    if (!job->snapshot)
        return DYNO_OK;
    int64_t cells = job->grid.run->planned_cells;
    if (cells != 1)
        return dyno_fail(DYNO_INVALID,
                         "--snapshot is of one cell, but %lld are asked for; give one --model, "
                         "--context, --pass, --mode, --precision and --recompute",
                         (long long)cells);
    dyno_status status = file_check_output(job->snapshot, !job->grid.context->replaces_anything);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--snapshot");
}

static void list_parts(memory_job *job) {
    static const char *const parts[] = {"grid",  "timeline", "peak",  "allocations",
                                        "saved", "blocks",   "advice"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (shows(job, parts[i]))
            text_format(&job->parts, "%s%s", job->parts.length ? "," : "", parts[i]);
}

/* The chip to plan for; with --measure the device that runs. */
static dyno_status start(memory_job *job) {
    plan_grid *g = &job->grid;
    if (job->is_measuring) {
        if (flags_integer(g->given, "ranks") > 1)
            return dyno_fail(DYNO_INVALID,
                             "--measure with --ranks %lld: memory measures steps of one process; "
                             "dyno bench --ranks shows what ranks take, beside what is predicted",
                             (long long)flags_integer(g->given, "ranks"));
        RETURN_IF_FAILED(sweep_prepare(&job->sweep, g->given, g->context, g->run));
        g->target = job->sweep.device->target;
        g->tuned = job->sweep.tuned;
        return DYNO_OK;
    }
    RETURN_IF_FAILED(plan_grid_find_target(g->given, &g->target));
    if (!flags_bytes(g->given, "memory"))
        results_set_environment_text(g->run, ENV_PLANNED_CHIP, g->target.description);
    RETURN_IF_FAILED(experiment_start(g->context));
    g->is_unverified = true;
    if (target_is_this_cpu(&g->target))
        g->tuned = autotune_create(&g->target);
    return DYNO_OK;
}

static dyno_status run_job(memory_job *job) {
    plan_grid *g = &job->grid;
    RETURN_IF_FAILED(start(job));
    RETURN_IF_FAILED(
        check_snapshot(job)); /* its directory may be that of --out, which is there now */
    list_parts(job);
    for (int64_t i = 0; i < g->run->planned_cells; i++) {
        plan_point at = plan_grid_at(g, i);
        RETURN_IF_FAILED(plan_grid_go_on(g));
        RETURN_IF_FAILED(plan_cell(job, &at));
        experiment_keep_cell(g->context);
    }
    return plan_grid_conclude(g);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    memory_job job = {.is_measuring = flags_switch(given, "measure"),
                      .snapshot = flags_text(given, "snapshot")};
    dyno_status status = plan_grid_resolve(&job.grid, given, context, out->run);
    if (status == DYNO_OK)
        status = run_job(&job);
    if (job.is_measuring)
        sweep_close(&job.sweep);
    else
        autotune_destroy(job.grid.tuned);
    plan_grid_release(&job.grid);
    text_release(&job.parts);
    return status;
}

const experiment experiment_memory = {.settings = &VERB,
                                      .plans_ranks = true,
                                      .out_help =
                                          "keeps it all in DIR/run.json, written after every cell",
                                      .run = run};
