#include "measure/step_trace.h"

#include <stdlib.h>

#include "base/memory.h"
#include "measure/cpu_counters.h"
#include "measure/keys.h"

void step_trace_release(step_trace *trace) {
    launch_log_release(&trace->log);
    *trace = (step_trace){0};
}

static dyno_status check_stop(const timing_options *options, int64_t done) {
    if (options->should_stop && options->should_stop(options->context))
        return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld traced steps",
                         (long long)done, (long long)step_trace_steps(options->steps));
    return DYNO_OK;
}

static dyno_status settle(const plan *p, int first_step, int steps, step_trace *trace) {
    int *streams = memory_allocate((size_t)p->launch_count, sizeof *streams);
    int *times = memory_allocate((size_t)p->launch_count, sizeof *times);
    for (int i = 0; i < p->launch_count; i++) {
        streams[i] = trace->is_observed ? p->launches[i].stream : 0;
        times[i] = plan_launch_times(p, i);
    }
    dyno_status status = launch_log_settle(&trace->log,
                                           &(launch_log_question){.launch_count = p->launch_count,
                                                                  .stream = streams,
                                                                  .times = times,
                                                                  .repetitions = p->micro_batches,
                                                                  .first_step = first_step,
                                                                  .step_count = steps},
                                           &trace->sums);
    free(streams);
    free(times);
    if (status == DYNO_OK)
        launch_plan_describe(&trace->log, p);
    return status;
}

/* ---- steps in a row ---- */

/* The first is for one-time work. */
static dyno_status observe_row(executor *e, const timing_options *options, int steps,
                               launch_log *out) {
    RETURN_IF_FAILED(executor_observe_begin(e));
    dyno_status status = DYNO_OK;
    for (int step = 0; step <= steps && status == DYNO_OK; step++) {
        status = check_stop(options, step ? step - 1 : 0);
        if (status == DYNO_OK)
            status = executor_run(e, NULL, NULL);
        if (status == DYNO_OK && options->on_step)
            options->on_step(options->context, step);
    }
    dyno_status ended = executor_observe_end(e, out);
    if (status != DYNO_OK)
        launch_log_release(out);
    return status == DYNO_OK ? ended : status;
}

static dyno_status record_row(executor *e, const timing_options *options, int steps,
                              launch_log *out) {
    for (int step = 0; step <= steps; step++) {
        RETURN_IF_FAILED(check_stop(options, step ? step - 1 : 0));
        RETURN_IF_FAILED(executor_run(e, out, NULL));
        if (options->on_step)
            options->on_step(options->context, step);
    }
    return DYNO_OK;
}

dyno_status step_trace_run(executor *e, const plan *p, const timing_options *options,
                           step_trace *out) {
    int steps = step_trace_steps(options->steps);
    *out = (step_trace){.is_observed = true};
    dyno_status status = observe_row(e, options, steps, &out->log);
    if (status == DYNO_UNSUPPORTED) {
        out->is_observed = false;
        status = record_row(e, options, steps, &out->log);
    }
    if (status == DYNO_OK)
        status = settle(p, 1, steps, out);
    if (status != DYNO_OK)
        step_trace_release(out);
    return status;
}

/* ---- traced and untraced steps by turns ---- */

/* Steps of which only the last is kept: observing captures a step anew, and so does the first step
 * after it; elsewhere only the first of all is for one-time work. */
static int steps_for_one(bool is_observed, int round) { return is_observed || !round ? 2 : 1; }

static dyno_status trace_one(executor *e, int round, step_trace *trace) {
    launch_log one = {0};
    dyno_status status = executor_observe_begin(e);
    bool is_observed = status == DYNO_OK;
    if (status == DYNO_UNSUPPORTED && trace->log.step_count && trace->is_observed)
        return status; /* it could a moment ago */
    if (status != DYNO_OK && status != DYNO_UNSUPPORTED)
        return status;
    status = DYNO_OK;
    int steps = steps_for_one(is_observed, round);
    for (int i = 0; i < steps && status == DYNO_OK; i++)
        status = executor_run(e, is_observed ? NULL : &one, NULL);
    if (is_observed) {
        dyno_status ended = executor_observe_end(e, &one);
        status = status == DYNO_OK ? ended : status;
    }
    trace->is_observed = is_observed;
    if (status == DYNO_OK)
        launch_log_append(&trace->log, &one, steps - 1);
    launch_log_release(&one);
    return status;
}

static dyno_status run_untraced(executor *e, int steps, results_cell *cell) {
    step_times times = {0};
    for (int i = 0; i < steps; i++)
        RETURN_IF_FAILED(executor_run(e, NULL, &times));
    cell_add_sample(cell, SERIES_UNTRACED, "ns", times.total_ns);
    cell_add_sample(cell, SERIES_ENQUEUE, "ns", times.enqueue_ns);
    return DYNO_OK;
}

dyno_status step_trace_run_interleaved(executor *e, const plan *p, const timing_options *options,
                                       results_cell *cell, step_trace *out) {
    int steps = step_trace_steps(options->steps);
    dyno_status status = DYNO_OK;
    *out = (step_trace){0};
    for (int i = 0; i < steps && status == DYNO_OK; i++) {
        status = check_stop(options, i);
        if (status == DYNO_OK)
            status = run_untraced(e, steps_for_one(out->is_observed, i), cell);
        if (status == DYNO_OK)
            status = trace_one(e, i, out);
        if (status != DYNO_OK)
            break;
        const logged_step *traced = &out->log.steps[out->log.step_count - 1];
        cell_add_sample(cell, SERIES_TRACED, "ns", traced->end_ns - traced->begin_ns);
        if (options->on_step)
            options->on_step(options->context, i + 1);
    }
    if (status == DYNO_OK)
        status = settle(p, 0, steps, out);
    if (status != DYNO_OK)
        step_trace_release(out);
    return status;
}

/* ---- counters ---- */

typedef struct counting {
    cpu_counters *counters;
    launch_counters last;
    launch_counters *by_launch;
} counting;

/* Of a launch that runs several times the last is kept. */
static bool count_launch(void *context, int launch, const tensor *outputs) {
    counting *c = context;
    (void)outputs;
    launch_counters now = cpu_counters_read(c->counters);
    c->by_launch[launch] =
        (launch_counters){now.cycles - c->last.cycles, now.instructions - c->last.instructions,
                          now.cache_misses - c->last.cache_misses};
    c->last = cpu_counters_read(c->counters); /* reading is not the next launch's */
    return true;
}

dyno_status step_trace_count(executor *e, const plan *p, step_trace *trace) {
    counting c = {0};
    if (!device_is_host(executor_device(e)))
        return dyno_fail(DYNO_UNSUPPORTED, "the counters of a CPU say nothing about a GPU");
    RETURN_IF_FAILED(cpu_counters_open(&c.counters));
    c.by_launch = memory_allocate((size_t)p->launch_count, sizeof *c.by_launch);
    c.last = cpu_counters_read(c.counters);
    dyno_status status = executor_inspect(e, count_launch, &c);
    for (int64_t i = 0; i < trace->log.count && status == DYNO_OK; i++) {
        launch_record *r = &trace->log.records[i];
        r->has_counters = r->launch != LAUNCH_UNKNOWN;
        if (r->has_counters)
            r->counters = c.by_launch[r->launch];
    }
    cpu_counters_close(c.counters);
    free(c.by_launch);
    return status;
}
