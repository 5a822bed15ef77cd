/* breakdown.h - where the time of a step goes: the breakdowns of a timed cell. */
#ifndef MEASURE_BREAKDOWN_H
#define MEASURE_BREAKDOWN_H

#include "measure/timing.h"

/* Adds the breakdowns "by_class", "by_kernel", "by_phase" and "by_scope" of an average step over
 * options->steps traced ones (measure/step_trace.h). Each sums to the traced step: the gaps between
 * launches have a row of their own. The metric traced_step_ns is that step's length, to be compared
 * with the untraced ones; cast_ns is the time in it of launches that are casts.
 *
 * Where the device has activity records, steps run as usual and are broken down by these: the step
 * is device_span_ns, from the begin of its first launch to the end of its last, of which the device
 * was busy for device_busy_ns; the column "running" is how long launches ran, "time" the same with
 * overlapping time divided among those that ran. between_steps_ns is the gap between two steps.
 * Lost records make it fail with DYNO_CORRUPT, without a breakdown.
 *
 * Elsewhere launches run one by one with events around each; in_launches_ns is the part of the
 * traced step in which they ran. */
NODISCARD dyno_status breakdown_run(executor *e, const plan *p, const timing_options *options,
                                    results_cell *cell);

/* The share of the traced steps' time that launches which are casts took, per step. */
double breakdown_cast_ns(const launch_log *log, const plan *p, int64_t steps);

#endif
