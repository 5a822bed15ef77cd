/* memory_pool.h - the caching allocator: one range of a device's memory, cut by block_allocator.
 *
 * Address space for all of `limit_bytes` is reserved at once; memory comes behind it as the
 * highest block rises and stays, which is what makes the second step cheap. Every allocation and
 * release can be recorded with what it was for. */
#ifndef RUNTIME_MEMORY_POOL_H
#define RUNTIME_MEMORY_POOL_H

#include "base/status.h"
#include "plan/block_allocator.h"
#include "plan/plan.h"
#include "runtime/device.h"

typedef struct memory_pool memory_pool;

/* One allocation or release, as it happened. */
typedef struct memory_record {
    bool is_allocation;
    int launch; /* at which it happened; -1 before the first */
    int64_t offset, bytes;
    role role;
    dtype type;
    shape shape;
    const char *scope; /* "" for what no launch made */
    const char *name;  /* NULL unless it is a leaf or an output */
} memory_record;

/* Borrows the device, which must outlive it. */
NODISCARD dyno_status memory_pool_create(device *d, int64_t limit_bytes, memory_pool **out);
void memory_pool_destroy(memory_pool *pool);
device *memory_pool_device(const memory_pool *pool);

/* Memory for `what`, of plan `p`, at a launch. Past the limit, or when the device has no more:
 * DYNO_OUT_OF_MEMORY, saying how much was asked for, in which scope, how much is taken and how
 * much there is. The pool then is as it was. */
NODISCARD dyno_status memory_pool_allocate(memory_pool *pool, const plan *p,
                                           const plan_buffer *what, int launch, block **out);
void memory_pool_release(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                         block *b);
void *memory_pool_address(const memory_pool *pool, const block *b);

/* The arena of a static plan, all of it at once. It is not recorded: the buffers in it are, one
 * by one, when the executor says that they come to life and die (memory_pool_record). */
NODISCARD dyno_status memory_pool_allocate_arena(memory_pool *pool, const plan *p, block **out);
void memory_pool_release_arena(memory_pool *pool, block *b);

/* Gives what is now free back to the device, as far as that can take it, and starts the peaks
 * anew. Waits for what is running. */
void memory_pool_trim(memory_pool *pool);

int64_t memory_pool_limit_bytes(const memory_pool *pool);
/* Behind which there is memory: the limit is a promise, this is what the device has given. */
int64_t memory_pool_committed_bytes(const memory_pool *pool);
int64_t memory_pool_taken_bytes(const memory_pool *pool);
/* Since the last trim: the most bytes ever taken at once, and the most the range was long. */
int64_t memory_pool_peak_taken_bytes(const memory_pool *pool);
int64_t memory_pool_reserved_bytes(const memory_pool *pool);

/* Recording is off until asked for: it is a run of its own, never one that is timed. Records
 * belong to the pool, until the next recording starts. */
void memory_pool_start_recording(memory_pool *pool);
bool memory_pool_is_recording(const memory_pool *pool);
/* A buffer of the static plan `p`, whose arena is `b`, comes to life or dies at a launch. */
void memory_pool_record(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                        const block *b, bool is_allocation);
const memory_record *memory_pool_records(const memory_pool *pool, int *count);

#endif
