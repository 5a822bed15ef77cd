/* step_memory.h - when the buffers of a plan have memory, and where.
 *
 * Eager plan: a transient buffer is allocated from the pool at the launch that writes it first and
 * released after its last use. Static plan: all transient buffers lie in one arena, which is allocated
 * at once, and their addresses never change; their births and deaths are recorded where the pool records
 * them. Persistent buffers are those of the storage in both. */
#ifndef RUNTIME_STEP_MEMORY_H
#define RUNTIME_STEP_MEMORY_H

#include "plan/plan.h"
#include "runtime/memory_pool.h"
#include "runtime/storage.h"

typedef struct step_memory {
    const plan *p;
    memory_pool *pool;
    void **address;    /* by buffer; NULL while it has no memory */
    block **memory;    /* eager, by transient buffer; else NULL */
    block *arena;      /* static; NULL where there are no transient buffers */
    bool is_recording; /* static: the step under way is recorded */
    bool has_records;  /* static: births of outputs are recorded, their deaths not yet */
} step_memory;

/* Borrows all three. The storage has the plan's persistent buffers. On failure there is nothing to release. */
NODISCARD dyno_status step_memory_create(const plan *p, memory_pool *pool, const storage *shared,
                                         step_memory *out);
/* Everything that is still allocated. */
void step_memory_destroy(step_memory *m);

/* Outputs, which outlive the launches, die when the next step begins. */
void step_memory_begin_step(step_memory *m);
/* What the launch writes first gets memory. On failure all transient buffers of an eager plan are released. */
NODISCARD dyno_status step_memory_begin_launch(step_memory *m, int launch);
/* What the launch used last loses its memory. */
void step_memory_end_launch(step_memory *m, int launch);
/* Between micro-batches, and after a step that failed: eager plans release all transient buffers. */
void step_memory_release_all(step_memory *m, int launch);
/* All launches have run. */
void step_memory_end_step(step_memory *m);

#endif
