#include "plan/memory_account.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/block_allocator.h"

/* What the allocator holds while a step runs in the order of the plan: a static plan's arena
 * never comes back, so its buffers do not pass through the allocator. */
memory_account memory_account_plan(const plan *p) {
    memory_account account = {.peak_launch = -1};
    bool is_static = p->memory_mode == PLAN_MEMORY_STATIC;
    int64_t alive[ROLE_COUNT] = {0}, total = 0;
    block_allocator *allocator = block_allocator_create();
    block **blocks = memory_allocate((size_t)p->buffer_count, sizeof *blocks);
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        account.total[b->role] += b->bytes;
        if (!b->is_persistent)
            continue;
        blocks[i] = block_allocate(allocator, b->bytes);
        account.persistent_bytes += b->bytes;
        alive[b->role] += b->bytes;
        total += b->bytes;
    }
    account.peak_bytes = total;
    for (int r = 0; r < ROLE_COUNT; r++)
        account.at_peak[r] = alive[r];
    for (int launch = 0; launch < p->launch_count; launch++) {
        for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++) {
            const plan_buffer *b = &p->buffers[p->births[i]];
            if (!is_static)
                blocks[p->births[i]] = block_allocate(allocator, b->bytes);
            alive[b->role] += b->bytes;
            total += b->bytes;
        }
        if (total > account.peak_bytes) {
            account.peak_bytes = total;
            account.peak_launch = launch;
            for (int r = 0; r < ROLE_COUNT; r++)
                account.at_peak[r] = alive[r];
        }
        for (int i = p->death_start[launch]; i < p->death_start[launch + 1]; i++) {
            const plan_buffer *b = &p->buffers[p->deaths[i]];
            if (!is_static)
                block_release(allocator, blocks[p->deaths[i]]);
            alive[b->role] -= b->bytes;
            total -= b->bytes;
        }
    }
    if (is_static && p->arena_bytes)
        block_allocate(allocator, p->arena_bytes);
    account.reserved_bytes = block_allocator_high_water(allocator);
    if (is_static)
        account.peak_bytes = account.reserved_bytes;
    block_allocator_destroy(allocator);
    free(blocks);
    return account;
}

bool memory_account_is_alive(const plan_buffer *b, int launch) {
    return b->is_persistent || (b->born <= launch && launch <= b->last_used);
}

int64_t memory_account_bytes_before(const plan *p, int launch) {
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (b->is_persistent || (b->born < launch && launch <= b->last_used))
            bytes += b->bytes;
    }
    return bytes;
}

int64_t memory_account_saved_bytes(const plan *p) {
    int launch = 0;
    while (launch < p->launch_count && p->launches[launch].phase != PHASE_BACKWARD)
        launch++;
    int64_t bytes = 0;
    for (int i = 0; launch < p->launch_count && i < p->buffer_count; i++)
        if (p->buffers[i].role == ROLE_SAVED && p->buffers[i].born < launch &&
            memory_account_is_alive(&p->buffers[i], launch))
            bytes += p->buffers[i].bytes;
    return bytes;
}
