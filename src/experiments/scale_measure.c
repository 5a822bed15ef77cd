#include "experiments/scale_measure.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "distributed/silent.h"
#include "distributed/world.h"
#include "experiments/step_inputs.h"
#include "measure/statistics.h"
#include "measure/step_trace.h"
#include "plan/memory_account.h"
#include "runtime/executor.h"
#include "simulate/network.h"
#include "train/weights.h"

struct scale_measure {
    int steps;
    bool takes_least;
    device *device;
    world *world;
};

dyno_status scale_measure_create(int steps, bool takes_least, scale_measure **out) {
    scale_measure *m = memory_allocate(1, sizeof *m);
    *out = NULL;
    m->steps = step_trace_steps(steps);
    m->takes_least = takes_least;
    dyno_status status = device_open("cpu", &m->device);
    if (status == DYNO_OK)
        status = world_open(&(world_options){.timeout_s = 30}, &m->world);
    if (status != DYNO_OK) {
        scale_measure_destroy(m);
        return status;
    }
    *out = m;
    return DYNO_OK;
}

void scale_measure_destroy(scale_measure *m) {
    if (!m)
        return;
    if (m->device)
        device_close(m->device);
    world_close(m->world);
    free(m);
}

static int64_t ranks_of(const plan *p) {
    for (int i = 0; i < p->launch_count; i++) {
        collective_op which;
        if (network_launch_is_collective(&p->launches[i], &which))
            return attribute_integer(&p->launches[i].attributes, "ranks");
    }
    return 1;
}

/* `samples` has the times of launch i in [i x steps, (i + 1) x steps): the mean of its runs in a step. */
static dyno_status time_steps(scale_measure *m, executor *e, const plan *p, double *samples) {
    step_trace trace;
    timing_options options = {.steps = m->steps};
    RETURN_IF_FAILED(step_trace_run(e, p, &options, &trace));
    for (int64_t i = 0; i < trace.log.count; i++) {
        const launch_record *r = &trace.log.records[i];
        if (r->launch != LAUNCH_UNKNOWN && r->step < m->steps)
            samples[(int64_t)r->launch * m->steps + r->step] +=
                (double)(r->end_ns - r->begin_ns) / plan_launch_times(p, r->launch);
    }
    step_trace_release(&trace);
    return DYNO_OK;
}

/* Of the steps the one in which launches took least altogether. */
static int find_fastest(const scale_measure *m, const plan *p, const double *samples) {
    int fastest = 0;
    double least = 0;
    for (int step = 0; step < m->steps; step++) {
        double total = 0;
        for (int i = 0; i < p->launch_count; i++)
            total += samples[(int64_t)i * m->steps + step] * plan_launch_times(p, i);
        if (step == 0 || total < least) {
            least = total;
            fastest = step;
        }
    }
    return fastest;
}

static void choose_times(const scale_measure *m, const plan *p, const double *samples,
                         double *launch_ns) {
    int fastest = find_fastest(m, p, samples);
    for (int i = 0; i < p->launch_count; i++) {
        const double *mine = samples + (int64_t)i * m->steps;
        collective_op which;
        bool is_collective = network_launch_is_collective(&p->launches[i], &which);
        launch_ns[i] = is_collective    ? 0
                       : m->takes_least ? mine[fastest]
                                        : statistics_of_reals(mine, m->steps).median;
    }
}

static dyno_status run_plan(scale_measure *m, const plan *p, const model_config *config,
                            memory_pool *pool, storage *shared, communicator *ranks,
                            double *launch_ns) {
    executor *e;
    RETURN_IF_FAILED(executor_create(p, pool, shared, &e));
    executor_set_communicator(e, ranks);
    double *samples = memory_allocate((size_t)p->launch_count * (size_t)m->steps, sizeof *samples);
    dyno_status status = weights_init(shared, config, 0);
    if (status == DYNO_OK)
        status = step_inputs_fill(e, config, 0, 0);
    if (status == DYNO_OK)
        status = time_steps(m, e, p, samples);
    if (status == DYNO_OK)
        choose_times(m, p, samples, launch_ns);
    free(samples);
    executor_destroy(e);
    return status;
}

static dyno_status check_memory(const scale_measure *m, const plan *p, int64_t *limit) {
    int64_t needed = memory_account_plan(p).reserved_bytes;
    *limit = m->device->functions->available_bytes(m->device);
    return needed <= *limit ? DYNO_OK
                            : dyno_fail(DYNO_UNSUPPORTED,
                                        "--measure: one rank needs %s and %s are free; use a "
                                        "smaller --model or --batch",
                                        units_bytes(needed).text, units_bytes(*limit).text);
}

dyno_status scale_measure_plan(scale_measure *m, const plan *p, const model_config *config,
                               int threads, double *launch_ns) {
    int64_t limit;
    memory_pool *pool;
    RETURN_IF_FAILED(check_memory(m, p, &limit));
    RETURN_IF_FAILED(threads_check(threads));
    RETURN_IF_FAILED(memory_pool_create(m->device, limit, &pool));
    threads_set_count(threads);
    storage *shared = storage_create(pool);
    int64_t count = ranks_of(p);
    communicator *ranks = count > 1 ? silent_create(m->world, (int)count) : NULL;
    storage_set_communicator(shared, ranks);
    dyno_status status = run_plan(m, p, config, pool, shared, ranks, launch_ns);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    communicator_destroy(ranks);
    threads_set_count(0);
    return status;
}
