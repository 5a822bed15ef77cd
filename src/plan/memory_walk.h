/* memory_walk.h - the allocations and releases of one step in their order, before anything runs.
 *
 * The one walk that every account of bytes is made of: peaks, timelines, snapshots. It follows the
 * executor: what is persistent first, the arena of a static plan, then for each launch the births, the
 * launch, the deaths. Outputs outlive the last launch and do not die here. */
#ifndef PLAN_MEMORY_WALK_H
#define PLAN_MEMORY_WALK_H

#include "plan/plan.h"

/* While a launch runs; with launch -1, before the first, when only what is persistent is there. */
typedef struct memory_moment {
    int launch;
    int64_t alive[ROLE_COUNT]; /* bytes of values, by role */
    int64_t alive_bytes;       /* their sum */
    int64_t block_bytes;       /* the same values in whole blocks of the allocator */
    int64_t reserved_bytes; /* what the pool holds by then: the end of the highest block so far */
} memory_moment;

/* Functions may be NULL. Offsets are in the pool's range, bytes in whole blocks. */
typedef struct memory_visitor {
    void *context;
    void (*on_birth)(void *context, int buffer, int launch, int64_t offset, int64_t bytes);
    void (*on_death)(void *context, int buffer, int launch, int64_t offset, int64_t bytes);
    void (*on_moment)(void *context, const memory_moment *now);
} memory_visitor;

void memory_walk(const plan *p, const memory_visitor *visitor);

#endif
