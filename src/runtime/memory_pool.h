/* memory_pool.h - the caching allocator: one range of a device's memory, managed by
 * block_allocator.
 *
 * Address space for all of `limit_bytes` is reserved at once. Memory is committed as the highest
 * block rises and stays, which is what makes the second step cheap. Every allocation and release
 * can be recorded with its purpose. */
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
    int launch;            /* at which it happened; -1 before the first */
    int64_t offset, bytes; /* of the block */
    int64_t tensor_bytes;  /* that were asked for */
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

/* Allocates memory for buffer `what` of plan `p`, at a launch. Past the limit, or when the device
 * has no more: DYNO_OUT_OF_MEMORY, with the bytes asked for, the scope, the bytes in use and the
 * limit. The pool is then unchanged. */
NODISCARD dyno_status memory_pool_allocate(memory_pool *pool, const plan *p,
                                           const plan_buffer *what, int launch, block **out);
void memory_pool_release(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                         block *b);
void *memory_pool_address(const memory_pool *pool, const block *b);

/* The arena of a static plan, as one block. It is not recorded: its buffers are, one by one, when
 * the executor reports their births and deaths (memory_pool_record). */
NODISCARD dyno_status memory_pool_allocate_arena(memory_pool *pool, const plan *p, block **out);
void memory_pool_release_arena(memory_pool *pool, block *b);

/* Returns free memory to the device, as far as the device can take it, and resets the peaks.
 * Synchronizes. */
void memory_pool_trim(memory_pool *pool);

int64_t memory_pool_limit_bytes(const memory_pool *pool);
/* Bytes that are committed: the limit is a promise, this is what the device has given. */
int64_t memory_pool_committed_bytes(const memory_pool *pool);
int64_t memory_pool_taken_bytes(const memory_pool *pool);
/* Since the last trim: the most bytes ever allocated at once, and the greatest extent of the range.
 * */
int64_t memory_pool_peak_taken_bytes(const memory_pool *pool);
int64_t memory_pool_reserved_bytes(const memory_pool *pool);

/* Recording is off by default: it is a run of its own, never one that is timed. Records belong to
 * the pool, until the next recording starts. */
void memory_pool_start_recording(memory_pool *pool);
/* The records stay. */
void memory_pool_stop_recording(memory_pool *pool);
bool memory_pool_is_recording(const memory_pool *pool);
/* A buffer of the static plan `p`, whose arena is `b`, comes to life or dies at a launch. */
void memory_pool_record(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                        const block *b, bool is_allocation);
const memory_record *memory_pool_records(const memory_pool *pool, int *count);

#endif
