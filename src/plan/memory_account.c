#include "plan/memory_account.h"

#include <string.h>

#include "plan/memory_walk.h"

/* The peak is the first moment with most bytes of values. */
static void look(void *context, const memory_moment *now) {
    memory_account *account = context;
    account->reserved_bytes = now->reserved_bytes;
    if (now->block_bytes > account->peak_block_bytes)
        account->peak_block_bytes = now->block_bytes;
    if (now->launch >= 0 && now->alive_bytes <= account->peak_bytes)
        return;
    account->peak_bytes = now->alive_bytes;
    account->peak_launch = now->launch;
    memcpy(account->at_peak, now->alive, sizeof account->at_peak);
}

memory_account memory_account_plan(const plan *p) {
    memory_account account = {.peak_launch = -1};
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        account.total[b->role] += b->bytes;
        account.persistent_bytes += b->is_persistent ? b->bytes : 0;
    }
    memory_walk(p, &(memory_visitor){.context = &account, .on_moment = look});
    account.alive_bytes = account.peak_bytes;
    if (p->memory_mode == PLAN_MEMORY_STATIC)
        account.peak_bytes = account.reserved_bytes;
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

int memory_account_first_backward(const plan *p) {
    int launch = 0;
    while (launch < p->launch_count && p->launches[launch].phase != PHASE_BACKWARD)
        launch++;
    return launch;
}

bool memory_account_is_saved(const plan_buffer *b, int first_backward) {
    return b->role == ROLE_SAVED && b->born < first_backward &&
           memory_account_is_alive(b, first_backward);
}

int64_t memory_account_saved_bytes(const plan *p) {
    int backward = memory_account_first_backward(p);
    int64_t bytes = 0;
    for (int i = 0; backward < p->launch_count && i < p->buffer_count; i++)
        if (memory_account_is_saved(&p->buffers[i], backward))
            bytes += p->buffers[i].bytes;
    return bytes;
}
