/* scope_ranges.h - nested ranges around what the host does in a step, for profilers of others (runtime/nvtx.h):
 * the step, in it each phase, in it the parts of each scope.
 *
 * Ranges are of the host: they enclose the calls that launch kernels. A step that is replayed as one
 * graph is one range, because the host makes one call for all of it. */
#ifndef RUNTIME_SCOPE_RANGES_H
#define RUNTIME_SCOPE_RANGES_H

#include "plan/plan.h"

/* Who is told. Ranges nest: pop ends the last one that was pushed and has not ended. */
typedef struct range_listener {
    void (*push)(void *context, const char *name); /* `name` is the caller's again after it */
    void (*pop)(void *context);
    void *context;
} range_listener;

typedef struct scope_ranges {
    const range_listener *to;
    const plan *p;
    int64_t steps; /* that were begun */
    int last;      /* launch whose ranges are open; -1: none */
    int open;      /* ranges, without that of the step */
} scope_ranges;

/* Borrows both. */
scope_ranges *scope_ranges_create(const range_listener *to, const plan *p);
void scope_ranges_destroy(scope_ranges *ranges);

/* Nothing happens in each where `ranges` is NULL. */
void scope_ranges_begin_step(scope_ranges *ranges);
void scope_ranges_enter(scope_ranges *ranges, int launch);
void scope_ranges_end_launches(scope_ranges *ranges);
void scope_ranges_end_step(scope_ranges *ranges);

#endif
