/* model_blocks.c - bytes of buffers told by the names of what lies in them.
 *
 * A buffer may hold a block's value, a part of it, or, as buckets do, parts of many. Names, gradients of parameters and
 * terms of sums say which bytes are whose; these shares are sorted by place, at one place the smallest first, and each
 * takes the bytes from its begin on that no share before it took. So every byte is told once. What no share covers is
 * of the block that the buffer's own name or scope says. */
#include "plan/model_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory_account.h"
#include "plan/scope.h"

/* So many bytes of a buffer that are a block's, or no block's (-1). */
typedef struct share {
    int buffer, block;
    int64_t offset, bytes;
} share;

typedef struct division {
    const plan *p;
    share *shares;
    int count, capacity;
} division;

static void add_share(division *d, const plan_operand *at, int block) {
    if (at->buffer < 0)
        return;
    MEMORY_GROW(d->shares, d->count, d->capacity);
    d->shares[d->count++] = (share){at->buffer, block, at->offset, tensor_bytes(&at->layout)};
}

/* No block is -1. */
enum { NO_NAME = -2 };

/* The block of the value with a name that lies there. */
static int block_named_at(const plan *p, const plan_operand *at) {
    for (int i = 0; i < p->name_count; i++)
        if (p->names[i].operand.buffer == at->buffer && p->names[i].operand.offset == at->offset)
            return scope_block(p->names[i].name);
    return NO_NAME;
}

/* What a micro-batch adds to a sum belongs to the sum's block. */
static void add_terms(division *d) {
    for (int i = 0; i < d->p->launch_count; i++) {
        const plan_launch *l = &d->p->launches[i];
        if (strcmp(l->op_name, "accumulate") != 0 || l->input_count != 2)
            continue;
        int block = block_named_at(d->p, &l->inputs[0]);
        if (block != NO_NAME)
            add_share(d, &l->inputs[1], block);
    }
}

static int by_place(const void *a, const void *b) {
    const share *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void find_shares(division *d) {
    for (int i = 0; i < d->p->name_count; i++)
        add_share(d, &d->p->names[i].operand, scope_block(d->p->names[i].name));
    for (int i = 0; i < d->p->parameter_count; i++)
        add_share(d, &d->p->parameters[i].gradient_at, scope_block(d->p->parameters[i].name));
    add_terms(d);
    if (d->count)
        qsort(d->shares, (size_t)d->count, sizeof *d->shares, by_place);
}

static int column_of(const plan *p, const plan_buffer *b, int backward) {
    bool is_made = b->born >= 0 && b->born < p->launch_count;
    switch (b->role) {
    case ROLE_PARAMETER:
        return BLOCK_WEIGHTS;
    case ROLE_OPTIMIZER_STATE:
        return BLOCK_STATE;
    case ROLE_GRADIENT:
        return b->is_persistent || (is_made && p->launches[b->born].phase == PHASE_COMMUNICATION)
                   ? BLOCK_GRADIENT_SUMS
                   : BLOCK_GRADIENTS;
    case ROLE_SAVED:
        return memory_account_is_saved(b, backward) ? BLOCK_SAVED : -1;
    default:
        return -1;
    }
}

static int block_of(const plan *p, const plan_buffer *b) {
    return scope_block(b->name ? b->name : p->scopes[b->scope]);
}

static int count_blocks(const plan *p, const division *d) {
    int blocks = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        int block = block_of(p, &p->buffers[i]);
        blocks = block >= blocks ? block + 1 : blocks;
    }
    for (int i = 0; i < d->count; i++)
        blocks = d->shares[i].block >= blocks ? d->shares[i].block + 1 : blocks;
    return blocks;
}

model_block_bytes *model_blocks_of(const plan *p, int *blocks) {
    division d = {.p = p};
    find_shares(&d);
    *blocks = count_blocks(p, &d);
    model_block_bytes *rows = memory_allocate((size_t)*blocks + 1, sizeof *rows);
    int backward = memory_account_first_backward(p), next = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        int column = column_of(p, b, backward);
        int64_t end = 0, left = b->bytes;
        for (; next < d.count && d.shares[next].buffer <= i; next++) {
            const share *s = &d.shares[next];
            if (column < 0 || s->offset < end || s->bytes > left)
                continue; /* another name of bytes that were counted */
            rows[s->block < 0 ? *blocks : s->block].of[column] += s->bytes;
            end = s->offset + s->bytes;
            left -= s->bytes;
        }
        int block = block_of(p, b);
        if (column >= 0)
            rows[block < 0 ? *blocks : block].of[column] += left;
    }
    free(d.shares);
    return rows;
}
