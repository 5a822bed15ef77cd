/* executor.h - runs a plan on a device, launch after launch.
 *
 * Eager plan: a transient buffer is allocated from the pool at the launch that writes it first and
 * released after its last use. Outputs stay until the next run, or until the executor is destroyed.
 *
 * Static plan: the arena is allocated with the executor, which is when memory can run out;
 * addresses never change, and a step is nothing but the launches. A GPU captures them in the first
 * step and then replays them as one graph. Outputs stay until the next run overwrites them, or
 * until the executor is destroyed. */
#ifndef RUNTIME_EXECUTOR_H
#define RUNTIME_EXECUTOR_H

#include "distributed/communicator.h"
#include "plan/plan.h"
#include "profile/launch_log.h"
#include "runtime/memory_pool.h"
#include "runtime/scope_ranges.h"
#include "runtime/storage.h"

typedef struct executor executor;

/* The total is measured by the host's clock, from the start until everything is complete; phases by
 * the device's. Phases and `together_ns` add up to the total: the host's time before and after,
 * outside_ns where it is known, is in the last. Phases that do not occur are 0. Where phases
 * alternate too often in a replayed step, only the first is timed separately, if it does not come back,
 * and the others share together_ns. The time of a launch of two phases is divided by FLOPs. */
typedef struct step_times {
    int64_t total_ns;
    int64_t phase_ns[PHASE_COUNT];
    int64_t together_ns;
    int64_t outside_ns; /* of the total: before the first launch begins and after the last ends */
    /* On a CPU: how long the step's collectives took, and of that how long launches had to wait for
     * them, which is in the phases above. */
    int64_t communication_ns, exposed_ns;
    int64_t enqueue_ns; /* of the total: until the host had handed all launches to the device */
} step_times;

/* Borrows plan, pool and storage, which must outlive it. Adds to the storage what the plan needs
 * and is not there; on failure nothing was added. */
NODISCARD dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared,
                                      executor **out);
void executor_destroy(executor *e);

/* For a plan with collectives, before its first step: the ranks that it was made for. Borrowed. */
void executor_set_communicator(executor *e, communicator *c);

/* Runs one step and waits for its end. `recorder` and `times` may be NULL. The recorder gets one more
 * step, and a record of each launch, in each micro-batch, with its times only; such a step is not
 * replayed. On failure (out of memory in eager plans; a failed GPU) all transient memory is
 * released. */
NODISCARD dyno_status executor_run(executor *e, launch_log *recorder, step_times *times);

/* The same in two halves, between which the host may do other work while a GPU runs the step. A
 * write in between takes effect after the step, a read waits for it. executor_finish fills the
 * recorder; without a step under way it does nothing. */
NODISCARD dyno_status executor_start(executor *e, launch_log *recorder);
NODISCARD dyno_status executor_finish(executor *e, step_times *times);

/* Runs one step launch by launch and shows the outputs of each, in device memory, to `look` before
 * the next one runs; false ends the step there. Nothing is replayed. Afterwards no output of the
 * step is there. */
typedef bool executor_look(void *context, int launch, const tensor *outputs);
NODISCARD dyno_status executor_inspect(executor *e, executor_look *look, void *context);

/* Between begin and end the device records when it ran each launch of every step, by a clock of its
 * own, in steps that are replayed as usual. Steps are counted from 0; a capture comes before the
 * first. DYNO_UNSUPPORTED, with the reason, where the device has no such records; nothing has begun
 * then. On success the records are the caller's (launch_log_release). */
NODISCARD dyno_status executor_observe_begin(executor *e);
NODISCARD dyno_status executor_observe_end(executor *e, launch_log *out);

/* From now on the listener, which is borrowed, is told of steps as ranges, and in them of phases and
 * scopes. NULL: nobody is told. Between steps only. */
void executor_emit_ranges(executor *e, const range_listener *to);

/* A leaf, or after a run an output; data is NULL when there is no such name or it was not computed.
 * Data is in device memory: the host may access it only if device_is_host. */
tensor executor_find(const executor *e, const char *name);

/* All of a leaf, or of an output after a run, from the device and to it. `bytes` must be its size
 * (DYNO_INVALID), and it must be there (DYNO_NOT_FOUND). Reading waits for the step under way, and
 * fails when the device did; with a step under way executor_finish tells that. */
NODISCARD dyno_status executor_read(const executor *e, const char *name, void *to, int64_t bytes);
NODISCARD dyno_status executor_write(executor *e, const char *name, const void *from,
                                     int64_t bytes);

/* A host buffer for all of a leaf: the leaf itself where the host can access it. executor_put then
 * copies it to the device and frees the buffer. NULL when there is no such leaf, or no memory. */
void *executor_place(executor *e, const char *name);
void executor_put(executor *e, const char *name, void *room);

device *executor_device(const executor *e);

#endif
