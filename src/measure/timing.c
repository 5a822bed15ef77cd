#include "measure/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "measure/keys.h"

/* Without what the host takes before and after, which is in the last phase. */
static step_times without_host(const plan *p, step_times times) {
    if (p->launch_count) {
        times.total_ns -= times.outside_ns;
        times.phase_ns[p->launches[p->launch_count - 1].phase] -= times.outside_ns;
    }
    return times;
}

static void add_step(results_cell *cell, const plan *p, const step_times *times) {
    char together[64] = "";
    cell_add_sample(cell, SERIES_STEP, "ns", times->total_ns);
    if (times->communication_ns) {
        cell_add_sample(cell, SERIES_COLLECTIVES, "ns", times->communication_ns);
        cell_add_sample(cell, SERIES_EXPOSED, "ns", times->exposed_ns);
    }
    for (int i = 0; i < PHASE_COUNT; i++) {
        int launches = plan_total_cost(p, (phase)i).launches;
        if (!launches || launches == plan_total_cost(p, PHASE_COUNT).launches)
            continue;
        if (times->phase_ns[i]) {
            cell_add_sample(cell, phase_name((phase)i), "ns", times->phase_ns[i]);
        } else {
            size_t used = strlen(together);
            snprintf(together + used, sizeof together - used, "%s%s", used ? "+" : "",
                     phase_name((phase)i));
        }
    }
    /* Where no phase was timed by itself, they are the whole step, which is a series already. */
    if (times->together_ns && times->together_ns < times->total_ns)
        cell_add_sample(cell, together, "ns", times->together_ns);
}

dyno_status timing_run(executor *e, const plan *p, const timing_options *options,
                       results_cell *cell) {
    for (int64_t i = 0; i < options->warmup + options->steps; i++) {
        step_times times;
        bool is_stopped = options->should_stop && options->should_stop(options->context);
        dyno_status status = is_stopped ? DYNO_INTERRUPTED : executor_run(e, NULL, &times);
        if (status == DYNO_INTERRUPTED) /* before this step, or in it */
            return dyno_fail(status, "interrupted after %lld of %lld steps", (long long)i,
                             (long long)(options->warmup + options->steps));
        RETURN_IF_FAILED(status);
        if (!cell_find_metric(cell, METRIC_FIRST_STEP_NS))
            cell_set_metric(cell, METRIC_FIRST_STEP_NS, "ns", times.total_ns);
        if (options->by_events)
            times = without_host(p, times);
        if (i < options->warmup)
            cell_add_sample(cell, SERIES_WARMUP, "ns", times.total_ns);
        else
            add_step(cell, p, &times);
        if (options->on_step)
            options->on_step(options->context, i + 1);
    }
    return DYNO_OK;
}

/* Steps done before, beside what timing_run counts. */
typedef struct counting {
    const timing_options *options;
    int64_t before;
} counting;

static void count_step(void *context, int64_t steps_done) {
    const counting *c = context;
    if (c->options->on_step)
        c->options->on_step(c->options->context, c->before + steps_done);
}

static bool should_stop(void *context) {
    const counting *c = context;
    return c->options->should_stop && c->options->should_stop(c->options->context);
}

dyno_status timing_run_for(executor *e, const plan *p, const timing_options *options,
                           const timing_span *span, results_cell *cell) {
    counting count = {.options = options};
    timing_options part = *options;
    part.on_step = count_step;
    part.should_stop = should_stop;
    part.context = &count;
    part.steps = 0;
    RETURN_IF_FAILED(timing_run(e, p, &part, cell));
    count.before = options->warmup;
    part.warmup = 0;
    part.steps = 1;
    int64_t until = clock_now_ns() + (int64_t)(span->seconds * 1e9);
    for (int64_t reps = 0; reps < span->most; reps++) {
        if (reps >= span->least && clock_now_ns() >= until)
            break;
        if (should_stop(&count))
            return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld timed repetitions",
                             (long long)reps);
        RETURN_IF_FAILED(timing_run(e, p, &part, cell));
        count.before++;
        cell_set_integer(cell, PARAM_REPS, reps + 1);
    }
    return DYNO_OK;
}

int64_t timing_peak_rss_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        return 0;
    char line[256];
    long long kibibytes = 0, number;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &number) == 1)
            kibibytes = number;
    fclose(file);
    return kibibytes * 1024;
}

void timing_reset_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return; /* the peak then counts from the start of the process */
    fputs("5", file);
    fclose(file);
}
