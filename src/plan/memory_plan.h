/* memory_plan.h - gives every transient buffer of a plan an offset in one arena.
 *
 * Computed once per plan, so that a training step never allocates: the arena is allocated with the
 * executor, and its size is known to the byte before. */
#ifndef PLAN_MEMORY_PLAN_H
#define PLAN_MEMORY_PLAN_H

#include "plan/plan.h"

/* The alignment of every buffer: what GPUs prefer, and no vector or cache line is wider. */
enum { MEMORY_PLAN_ALIGNMENT = 256 };

/* Makes a finished plan static: merges buffers where a launch may write over what it is the last
 * to read, then sets the offset of each transient buffer and the size of the arena. Merging
 * renumbers buffers. */
void memory_plan_apply(plan *p);

/* The most bytes of transient buffers alive at one launch, each rounded up to the alignment: no
 * arena can be smaller. */
int64_t memory_plan_live_bytes(const plan *p);

#endif
