/* timing.h - steps of an executor, timed into a cell of a run.
 *
 * Timing and tracing are separate runs: timing_run times whole steps and their phases,
 * timing_break_down times every launch and says what that cost. */
#ifndef MEASURE_TIMING_H
#define MEASURE_TIMING_H

#include "measure/results.h"
#include "runtime/executor.h"

typedef struct timing_options {
    int64_t warmup, steps;
    bool by_marks; /* from the first launch's begin to the last one's end, by the device's clock */
    /* Asked between steps; may be NULL. */
    bool (*should_stop)(void *context);
    /* Called after each step, warm-up included; may be NULL. */
    void (*on_step)(void *context, int64_t steps_done);
    void *context;
} timing_options;

/* Adds the metric first_step_ns, which has all that happens once in it (on a GPU: choosing
 * products, taking the launches down), and the series "warmup" (apart, never averaged) and "step",
 * and "forward", "backward", "optimizer" for the phases the plan has, or "backward+optimizer" where
 * the executor does not tell them apart, all in ns. DYNO_INTERRUPTED when asked to stop: the
 * samples so far are there. */
NODISCARD dyno_status timing_run(executor *e, const plan *p, const timing_options *options,
                                 results_cell *cell);

/* How often to repeat, when that depends on how long it takes. */
typedef struct timing_span {
    double seconds;
    int64_t least, most; /* steps, whatever the seconds */
} timing_span;

/* options->warmup untimed steps, then timed ones until the seconds are over, one at a time: an
 * estimate from the first ones would take a moment's disturbance for the rule. The cell's parameter
 * "reps" counts them. options->steps is not looked at; options->on_step counts all. */
NODISCARD dyno_status timing_run_for(executor *e, const plan *p, const timing_options *options,
                                     const timing_span *span, results_cell *cell);

/* Adds the breakdowns "by_class", "by_kernel", "by_phase" and "by_scope" of an average step over
 * options->steps traced ones. Each sums to the traced step: what lies between launches has a row of
 * its own. The metric traced_step_ns is that step's length, to be held against the untraced ones.
 *
 * Where the device keeps records of its own, steps are run as ever and told from those: the step is
 * device_span_ns, from its first launch's begin to its last one's end, of which device_busy_ns
 * anything ran; the column "running" is how long launches ran, "time" the same with each moment
 * divided among those that ran in it. between_steps_ns lie between two steps. When records were
 * lost, this is DYNO_CORRUPT, and no breakdown is there.
 *
 * Elsewhere launches are run one by one with marks around each; in_launches_ns is what of the
 * traced step they were running. */
NODISCARD dyno_status timing_break_down(executor *e, const plan *p, const timing_options *options,
                                        results_cell *cell);

/* Most bytes of this process resident at once since the last call of timing_reset_peak_rss;
 * 0 where the system does not tell. */
int64_t timing_peak_rss_bytes(void);
void timing_reset_peak_rss(void);

#endif
