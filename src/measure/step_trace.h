/* step_trace.h - traces steps of an executor: a settled log with a record of every launch.
 *
 * Where the device has activity records (CUPTI on a GPU), steps run as usual, replayed ones
 * included, and the records are the device's; elsewhere launches run one by one with events around
 * each. */
#ifndef MEASURE_STEP_TRACE_H
#define MEASURE_STEP_TRACE_H

#include "measure/timing.h"
#include "profile/launch_plan.h"

typedef struct step_trace {
    launch_log log; /* settled, and described by the plan */
    launch_log_sums sums;
    bool is_observed; /* by the device's own records; launches may overlap then */
} step_trace;

/* How many steps are traced where so many are asked for: a step of a large model leaves thousands of
 * records, and more steps would not tell more. */
enum { STEP_TRACE_MOST = 32 };
static inline int step_trace_steps(int64_t asked) {
    return asked < STEP_TRACE_MOST ? (int)asked : STEP_TRACE_MOST;
}

/* step_trace_steps(options->steps) traced steps in a row, after one that is not kept. DYNO_CORRUPT when records were lost; DYNO_INTERRUPTED when asked to stop.
 * On failure *out is empty. */
NODISCARD dyno_status step_trace_run(executor *e, const plan *p, const timing_options *options,
                                     step_trace *out);

/* The same, with an untraced step before each traced one, so that what tracing costs is measured
 * under the same conditions: the cell's series "untraced" and "traced", by the host's clock, and
 * "enqueue", the part of an untraced step until all launches were handed to the device. Steps that do
 * one-time work, such as capturing, are not kept. */
NODISCARD dyno_status step_trace_run_interleaved(executor *e, const plan *p,
                                                 const timing_options *options, results_cell *cell,
                                                 step_trace *out);
/* Counts cycles, instructions and cache misses of every launch in one more step, on a CPU, and
 * completes the records with them: another step, because counting takes time. DYNO_UNSUPPORTED, with
 * the reason, where they cannot be counted. */
NODISCARD dyno_status step_trace_count(executor *e, const plan *p, step_trace *trace);
void step_trace_release(step_trace *trace);

#endif
