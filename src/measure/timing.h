/* timing.h - steps of an executor, timed into a cell of a run: whole steps and their phases.
 *
 * Timing and tracing are separate runs: measure/step_trace.h times every launch. */
#ifndef MEASURE_TIMING_H
#define MEASURE_TIMING_H

#include "measure/results.h"
#include "runtime/executor.h"

typedef struct timing_options {
    int64_t warmup, steps;
    bool by_events; /* from the first launch's begin to the last one's end, by the device's clock */
    /* Asked between steps; may be NULL. */
    bool (*should_stop)(void *context);
    /* Called after each step, warm-up included; may be NULL. */
    void (*on_step)(void *context, int64_t steps_done);
    void *context;
} timing_options;

/* Adds the metric first_step_ns, which includes all one-time work (on a GPU: tuning products,
 * capturing the launches), and the series "warmup" (separate, never averaged) and "step", and
 * "forward", "backward", "optimizer" for the phases of the plan, or "backward+optimizer" where the
 * executor does not time them separately, all in ns. DYNO_INTERRUPTED when asked to stop: the
 * samples so far are kept. */
NODISCARD dyno_status timing_run(executor *e, const plan *p, const timing_options *options,
                                 results_cell *cell);

/* How often to repeat, when that depends on how long it takes. */
typedef struct timing_span {
    double seconds;
    int64_t least, most; /* steps, whatever the seconds */
} timing_span;

/* options->warmup untimed steps, then timed ones until the seconds are over, one at a time: an
 * estimate from the first ones would be wrong after a short disturbance. The cell's parameter
 * "reps" counts them. options->steps is ignored; options->on_step counts all. */
NODISCARD dyno_status timing_run_for(executor *e, const plan *p, const timing_options *options,
                                     const timing_span *span, results_cell *cell);

/* Most bytes of this process resident at once since the last call of timing_reset_peak_rss;
 * 0 where the system does not tell. */
int64_t timing_peak_rss_bytes(void);
void timing_reset_peak_rss(void);

#endif
