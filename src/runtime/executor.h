/* executor.h - runs a plan on a device, launch after launch.
 *
 * Eager plan: a transient buffer is taken from the pool at the launch that makes it and given back
 * after the last that uses it. Outputs stay until the next run, or until destroyed.
 *
 * Static plan: the arena is taken when the executor is made, which is when memory can run out;
 * addresses never change, and a step is nothing but the launches; a GPU takes them down in the
 * first step and then replays them as one. Outputs stay until the next run reaches what lies over
 * them, or until destroyed. */
#ifndef RUNTIME_EXECUTOR_H
#define RUNTIME_EXECUTOR_H

#include "plan/plan.h"
#include "profile/activity.h"
#include "profile/trace.h"
#include "runtime/memory_pool.h"
#include "runtime/storage.h"

typedef struct executor executor;

/* The total by the host's clock, from the start until everything is done; phases by the device's.
 * Phases and `together_ns` add up to the total: what the host takes before and after, outside_ns
 * where it is known, is in the last. Phases that do not occur take no time. Where phases take turns
 * too often in a step that is replayed, only the first has a time of its own, and all others have
 * together_ns. */
typedef struct step_times {
    int64_t total_ns;
    int64_t phase_ns[PHASE_COUNT];
    int64_t together_ns;
    int64_t outside_ns; /* of the total: before the first launch begins and after the last ends */
} step_times;

/* Borrows plan, pool and storage, which must outlive it. Adds to the storage what the plan needs
 * and is not there; on failure nothing was added. */
NODISCARD dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared,
                                      executor **out);
void executor_destroy(executor *e);

/* One step, to its end. `recorder` and `times` may be NULL; a recorder makes it a step that is not
 * replayed. On failure (out of memory in eager plans; a GPU's own) everything transient has been
 * given back. */
NODISCARD dyno_status executor_run(executor *e, trace *recorder, step_times *times);

/* The same in two halves, between which the host may do something else: a GPU runs the step
 * meanwhile. What is written in between is written after the step, what is read waits for it. The
 * recorder is filled by executor_finish; without a step under way that does nothing. */
NODISCARD dyno_status executor_start(executor *e, trace *recorder);
NODISCARD dyno_status executor_finish(executor *e, step_times *times);

/* From begin to end the device records, of every step, when it ran each launch, by a clock of its
 * own and in steps that are replayed as ever. Steps are counted from 0; the first has a capture
 * before it. DYNO_UNSUPPORTED, and nothing has begun, where the device has no such records, with
 * the reason. On success the records are the caller's (activity_release). */
NODISCARD dyno_status executor_observe_begin(executor *e);
NODISCARD dyno_status executor_observe_end(executor *e, activity *out);

/* A leaf, or after a run an output; data is NULL when there is no such name or it was not
 * computed. Data is the device's: not for the host to touch unless device_is_host. */
tensor executor_find(const executor *e, const char *name);

/* All of a leaf, or of an output after a run, from the device and to it. `bytes` must be its size
 * (DYNO_INVALID), and it must be there (DYNO_NOT_FOUND). Reading waits for the step under way, and
 * fails when the device did; with a step under way executor_finish tells that. */
NODISCARD dyno_status executor_read(const executor *e, const char *name, void *to, int64_t bytes);
NODISCARD dyno_status executor_write(executor *e, const char *name, const void *from,
                                     int64_t bytes);

/* Room for the host to fill with all of a leaf: the leaf itself where the host can reach it.
 * executor_put then brings it to the device and takes the room back. NULL when there is no such
 * leaf, or no memory. */
void *executor_place(executor *e, const char *name);
void executor_put(executor *e, const char *name, void *room);

device *executor_device(const executor *e);

#endif
