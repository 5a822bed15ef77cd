/* executor.h - runs a plan on the CPU, launch after launch.
 *
 * Eager plan: a transient buffer is taken from the pool at the launch that makes it and given back
 * after the last that uses it. Outputs stay until the next run, or until destroyed.
 *
 * Static plan: the arena is taken when the executor is made, which is when memory can run out;
 * addresses never change, and a step is nothing but the launches. Outputs stay until the next run
 * reaches what lies over them, or until destroyed. */
#ifndef RUNTIME_EXECUTOR_H
#define RUNTIME_EXECUTOR_H

#include "plan/plan.h"
#include "profile/trace.h"
#include "runtime/memory_pool.h"
#include "runtime/storage.h"

typedef struct executor executor;

/* When the step began and each phase ended, by the host's clock; phases that do not occur take
 * no time. */
typedef struct step_times {
    int64_t total_ns;
    int64_t phase_ns[PHASE_COUNT];
} step_times;

/* Borrows plan, pool and storage, which must outlive it. Adds to the storage what the plan needs
 * and is not there; on failure nothing was added. */
NODISCARD dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared,
                                      executor **out);
void executor_destroy(executor *e);

/* One step. `recorder` and `times` may be NULL. On failure (out of memory, in eager plans only)
 * everything transient has been given back. */
NODISCARD dyno_status executor_run(executor *e, trace *recorder, step_times *times);

/* A leaf, or after a run an output; data is NULL when there is no such name or it was not
 * computed. */
tensor executor_find(const executor *e, const char *name);

#endif
