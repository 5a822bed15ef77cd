/* trace.h - the time of one step by launch, so that time is attributed by launch and never by time
 * window.
 *
 * The begin and end of the step are by the host's clock, those of launches by the device's,
 * relative to the first launch, as if that began with the step. */
#ifndef PROFILE_TRACE_H
#define PROFILE_TRACE_H

#include <stdint.h>

typedef struct trace {
    int launch_count;
    int64_t *begin_ns, *end_ns; /* by launch */
    int64_t step_begin_ns, step_end_ns;
} trace;

trace *trace_create(int launch_count);
void trace_destroy(trace *t);

#endif
