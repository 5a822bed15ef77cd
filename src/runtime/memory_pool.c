#define _GNU_SOURCE
#include "runtime/memory_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system_memory.h"
#include "base/units.h"

/* Kept free for the process itself: code, stacks, the libraries' own buffers. */
#define PROCESS_BYTES ((int64_t)256 << 20)

struct memory_pool {
    char *base;
    int64_t limit_bytes;
    block_allocator *blocks;
    int64_t peak_taken, peak_reserved; /* since the last trim */
    bool is_recording;
    memory_record *records;
    int record_count, record_capacity;
    arena *strings; /* of the records */
};

int64_t memory_pool_available_bytes(void) {
    int64_t available = system_memory_read().available_bytes;
    if (available <= 0)
        available = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    available -= PROCESS_BYTES;
    return available > 0 ? available : 0;
}

dyno_status memory_pool_create(int64_t limit_bytes, memory_pool **out) {
    *out = NULL;
    int64_t page = 2 << 20; /* so that huge pages can back it whole */
    int64_t bytes = (limit_bytes + page - 1) / page * page;
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "cannot reserve %s of address space: %s",
                         units_bytes(bytes).text, strerror(errno));
    madvise(base, (size_t)bytes, MADV_HUGEPAGE); /* a wish; small pages work too */
    memory_pool *pool = memory_allocate(1, sizeof *pool);
    pool->base = base;
    pool->limit_bytes = limit_bytes;
    pool->blocks = block_allocator_create();
    *out = pool;
    return DYNO_OK;
}

void memory_pool_destroy(memory_pool *pool) {
    if (!pool)
        return;
    int64_t page = 2 << 20;
    munmap(pool->base, (size_t)((pool->limit_bytes + page - 1) / page * page));
    block_allocator_destroy(pool->blocks);
    free(pool->records);
    arena_destroy(pool->strings);
    free(pool);
}

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
                        .role = what->role,
                        .type = what->type,
                        .shape = what->shape,
                        .scope = keep(pool, p->scopes[what->scope]),
                        .name = keep(pool, what->name)};
}

/* Counts a block that was just taken, or gives it back: then the message is the caller's. */
static bool keep_within_limit(memory_pool *pool, block *b) {
    if (block_offset(b) + block_bytes(b) > pool->limit_bytes) {
        block_release(pool->blocks, b);
        return false;
    }
    int64_t taken = block_allocator_taken_bytes(pool->blocks);
    if (taken > pool->peak_taken)
        pool->peak_taken = taken;
    if (block_offset(b) + block_bytes(b) > pool->peak_reserved)
        pool->peak_reserved = block_offset(b) + block_bytes(b);
    return true;
}

dyno_status memory_pool_allocate(memory_pool *pool, const plan *p, const plan_buffer *what,
                                 int launch, block **out) {
    *out = NULL;
    block *b = block_allocate(pool->blocks, what->bytes);
    if (!keep_within_limit(pool, b))
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "out of memory: %s for %s[%s] (%s) in scope '%s'; %s are taken, the limit "
                         "is %s",
                         units_bytes(what->bytes).text, dtype_name(what->type),
                         shape_format(&what->shape).text, role_name(what->role),
                         p->scopes[what->scope], units_bytes(memory_pool_taken_bytes(pool)).text,
                         units_bytes(pool->limit_bytes).text);
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
    block *b = block_allocate(pool->blocks, p->arena_bytes);
    if (!keep_within_limit(pool, b))
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "out of memory: %s for all that a step of '%s' makes; %s are taken, the "
                         "limit is %s",
                         units_bytes(p->arena_bytes).text, p->name,
                         units_bytes(memory_pool_taken_bytes(pool)).text,
                         units_bytes(pool->limit_bytes).text);
    *out = b;
    return DYNO_OK;
}

void memory_pool_release_arena(memory_pool *pool, block *b) { block_release(pool->blocks, b); }

void *memory_pool_address(const memory_pool *pool, const block *b) {
    return pool->base + block_offset(b);
}

typedef struct trim_context {
    char *base;
    int64_t limit, page;
} trim_context;

static void give_back(void *context, int64_t offset, int64_t bytes) {
    const trim_context *t = context;
    int64_t begin = (offset + t->page - 1) / t->page * t->page;
    int64_t end = offset + bytes < t->limit ? offset + bytes : t->limit;
    end = end / t->page * t->page;
    if (begin < end)
        madvise(t->base + begin, (size_t)(end - begin), MADV_DONTNEED);
}

void memory_pool_trim(memory_pool *pool) {
    trim_context t = {pool->base, pool->limit_bytes, sysconf(_SC_PAGESIZE)};
    block_allocator_for_each_free(pool->blocks, give_back, &t);
    pool->peak_taken = block_allocator_taken_bytes(pool->blocks);
    pool->peak_reserved = pool->peak_taken;
}

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
