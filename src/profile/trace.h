/* trace.h - the hooks every launch passes through, so that time is attributed by launch and
 * never by time window.
 *
 * A trace holds one step's begin and end of each launch. An executor without a trace pays one
 * comparison with NULL. */
#ifndef PROFILE_TRACE_H
#define PROFILE_TRACE_H

#include <stdint.h>

#include "base/clock.h"

typedef struct trace {
    int launch_count;
    int64_t *begin_ns, *end_ns; /* by launch */
    int64_t step_begin_ns, step_end_ns;
} trace;

trace *trace_create(int launch_count);
void trace_destroy(trace *t);

static inline void trace_begin_step(trace *t) {
    if (t)
        t->step_begin_ns = clock_now_ns();
}

static inline void trace_end_step(trace *t) {
    if (t)
        t->step_end_ns = clock_now_ns();
}

static inline void trace_begin_launch(trace *t, int launch) {
    if (t)
        t->begin_ns[launch] = clock_now_ns();
}

static inline void trace_end_launch(trace *t, int launch) {
    if (t)
        t->end_ns[launch] = clock_now_ns();
}

#endif
