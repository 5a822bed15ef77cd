#include "runtime/memory_pool.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/units.h"

struct memory_pool {
    device *d;
    char *base;
    int64_t limit_bytes;
    int64_t committed_bytes; /* the bytes from the base on that are backed by memory */
    block_allocator *blocks;
    int64_t peak_taken, peak_reserved; /* since the last trim */
    bool is_recording;
    memory_record *records;
    int record_count, record_capacity;
    arena *strings; /* of the records */
};

dyno_status memory_pool_create(device *d, int64_t limit_bytes, memory_pool **out) {
    *out = NULL;
    void *base;
    RETURN_IF_FAILED(d->functions->reserve(d, limit_bytes, &base));
    memory_pool *pool = memory_allocate(1, sizeof *pool);
    pool->d = d;
    pool->base = base;
    pool->limit_bytes = limit_bytes;
    pool->blocks = block_allocator_create();
    *out = pool;
    return DYNO_OK;
}

/* Before memory is released: clears and writes may still be running. */
static void wait_for_device(const memory_pool *pool) {
    if (pool->d->functions->finish(pool->d) != DYNO_OK) {
        /* A failure is reported to whoever waits for its result; nobody here does. */
    }
}

void memory_pool_destroy(memory_pool *pool) {
    if (!pool)
        return;
    wait_for_device(pool);
    pool->d->functions->release(pool->d, pool->base, pool->limit_bytes, pool->committed_bytes);
    block_allocator_destroy(pool->blocks);
    free(pool->records);
    arena_destroy(pool->strings);
    free(pool);
}

device *memory_pool_device(const memory_pool *pool) { return pool->d; }

/* Plans and storages come and go while a recording lasts. */
static const char *keep(memory_pool *pool, const char *string) {
    return string ? arena_copy_string(pool->strings, string) : NULL;
}

/* Bytes are those of the allocator, in whole blocks. */
static void record(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                   int64_t offset, int64_t bytes, bool is_allocation) {
    if (!pool->is_recording)
        return;
    MEMORY_GROW(pool->records, pool->record_count, pool->record_capacity);
    pool->records[pool->record_count++] =
        (memory_record){.is_allocation = is_allocation,
                        .launch = launch,
                        .offset = offset,
                        .bytes = bytes,
                        .tensor_bytes = what->bytes,
                        .role = what->role,
                        .type = what->type,
                        .shape = what->shape,
                        .scope = keep(pool, p->scopes[what->scope]),
                        .name = keep(pool, what->name)};
}

/* Commits memory for a block that was just allocated and counts it, or frees the block: out of
 * memory, *why_not is the end of the caller's message; any other failure is the device's and has
 * its own message. */
static dyno_status keep_block(memory_pool *pool, block *b, const char **why_not) {
    int64_t end = block_offset(b) + block_bytes(b), got = 0;
    *why_not = "";
    dyno_status status = end <= pool->limit_bytes ? DYNO_OK : DYNO_OUT_OF_MEMORY;
    if (status == DYNO_OK && end > pool->committed_bytes) {
        *why_not = ", but the device has no more";
        status = pool->d->functions->commit(pool->d, pool->base, pool->committed_bytes, end, &got);
        if (status == DYNO_OK)
            pool->committed_bytes = got;
    }
    if (status != DYNO_OK) {
        block_release(pool->blocks, b);
        return status;
    }
    int64_t taken = block_allocator_taken_bytes(pool->blocks);
    if (taken > pool->peak_taken)
        pool->peak_taken = taken;
    if (end > pool->peak_reserved)
        pool->peak_reserved = end;
    return DYNO_OK;
}

dyno_status memory_pool_allocate(memory_pool *pool, const plan *p, const plan_buffer *what,
                                 int launch, block **out) {
    *out = NULL;
    const char *why_not;
    block *b = block_allocate(pool->blocks, what->bytes);
    dyno_status status = keep_block(pool, b, &why_not);
    if (status == DYNO_OUT_OF_MEMORY)
        return dyno_fail(
            DYNO_OUT_OF_MEMORY,
            "out of memory: %s for %s[%s] (%s) in scope '%s'; %s are in use, the limit "
            "is %s%s",
            units_bytes(what->bytes).text, dtype_name(what->type), shape_format(&what->shape).text,
            role_name(what->role), p->scopes[what->scope],
            units_bytes(memory_pool_taken_bytes(pool)).text, units_bytes(pool->limit_bytes).text,
            why_not);
    RETURN_IF_FAILED(status);
    record(pool, p, what, launch, block_offset(b), block_bytes(b), true);
    *out = b;
    return DYNO_OK;
}

void memory_pool_release(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                         block *b) {
    record(pool, p, what, launch, block_offset(b), block_bytes(b), false);
    block_release(pool->blocks, b);
}

dyno_status memory_pool_allocate_arena(memory_pool *pool, const plan *p, block **out) {
    *out = NULL;
    const char *why_not;
    block *b = block_allocate(pool->blocks, p->arena_bytes);
    dyno_status status = keep_block(pool, b, &why_not);
    if (status == DYNO_OUT_OF_MEMORY)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "out of memory: %s for the arena of '%s'; %s are in use, the "
                         "limit is %s%s",
                         units_bytes(p->arena_bytes).text, p->name,
                         units_bytes(memory_pool_taken_bytes(pool)).text,
                         units_bytes(pool->limit_bytes).text, why_not);
    RETURN_IF_FAILED(status);
    *out = b;
    return DYNO_OK;
}

void memory_pool_release_arena(memory_pool *pool, block *b) { block_release(pool->blocks, b); }

void *memory_pool_address(const memory_pool *pool, const block *b) {
    return pool->base + block_offset(b);
}

static void give_back(void *context, int64_t offset, int64_t bytes) {
    memory_pool *pool = context;
    int64_t end = offset + bytes;
    /* What was committed past the last block, to a whole page, goes with it. */
    if (end > pool->committed_bytes || end == block_allocator_high_water(pool->blocks))
        end = pool->committed_bytes;
    if (offset < end)
        pool->d->functions->decommit(pool->d, pool->base, offset, end - offset,
                                     &pool->committed_bytes);
}

void memory_pool_trim(memory_pool *pool) {
    wait_for_device(pool);
    block_allocator_for_each_free(pool->blocks, give_back, pool);
    pool->peak_taken = block_allocator_taken_bytes(pool->blocks);
    pool->peak_reserved = pool->peak_taken;
}

int64_t memory_pool_committed_bytes(const memory_pool *pool) { return pool->committed_bytes; }

int64_t memory_pool_limit_bytes(const memory_pool *pool) { return pool->limit_bytes; }

int64_t memory_pool_taken_bytes(const memory_pool *pool) {
    return block_allocator_taken_bytes(pool->blocks);
}

int64_t memory_pool_peak_taken_bytes(const memory_pool *pool) { return pool->peak_taken; }

int64_t memory_pool_reserved_bytes(const memory_pool *pool) { return pool->peak_reserved; }

void memory_pool_start_recording(memory_pool *pool) {
    arena_destroy(pool->strings);
    pool->strings = arena_create();
    pool->is_recording = true;
    pool->record_count = 0;
}

void memory_pool_stop_recording(memory_pool *pool) { pool->is_recording = false; }

bool memory_pool_is_recording(const memory_pool *pool) { return pool->is_recording; }

void memory_pool_record(memory_pool *pool, const plan *p, const plan_buffer *what, int launch,
                        const block *b, bool is_allocation) {
    int64_t bytes = (what->bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    record(pool, p, what, launch, block_offset(b) + what->offset, bytes, is_allocation);
}

const memory_record *memory_pool_records(const memory_pool *pool, int *count) {
    *count = pool->record_count;
    return pool->records;
}
