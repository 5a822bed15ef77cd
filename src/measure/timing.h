/* timing.h - steps of an executor, timed into a cell of a run.
 *
 * Timing and tracing are separate runs: timing_run times whole steps and their phases,
 * timing_break_down times every launch and reports what tracing cost. */
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

/* Adds the breakdowns "by_class", "by_kernel", "by_phase" and "by_scope" of an average step over
 * options->steps traced ones. Each sums to the traced step: the gaps between launches have a row of
 * their own. The metric traced_step_ns is that step's length, to be compared with the untraced
 * ones; cast_ns is the time in it of launches that are casts.
 *
 * Where the device has activity records, steps run as usual and are broken down by these: the step
 * is device_span_ns, from the begin of its first launch to the end of its last, of which the device
 * was busy for device_busy_ns; the column "running" is how long launches ran, "time" the same with
 * overlapping time divided among those that ran. between_steps_ns is the gap between two steps.
 * Lost records make it fail with DYNO_CORRUPT, without a breakdown.
 *
 * Elsewhere launches run one by one with events around each; in_launches_ns is the part of the
 * traced step in which they ran. */
NODISCARD dyno_status timing_break_down(executor *e, const plan *p, const timing_options *options,
                                        results_cell *cell);

/* Most bytes of this process resident at once since the last call of timing_reset_peak_rss;
 * 0 where the system does not tell. */
int64_t timing_peak_rss_bytes(void);
void timing_reset_peak_rss(void);

#endif
