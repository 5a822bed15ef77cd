#include "plan/block_allocator.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/ordered_set.h"

struct block {
    ordered_item by_size; /* first, so that an item is its block; of free blocks only */
    int64_t offset, bytes;
    block *before, *after; /* neighbours in the range */
    bool is_free;
};

struct block_allocator {
    block *first, *last;
    ordered_set free_blocks; /* by bytes, then by offset */
    int64_t taken_bytes, high_water;
};

block_allocator *block_allocator_create(void) {
    return memory_allocate(1, sizeof(block_allocator));
}

void block_allocator_destroy(block_allocator *a) {
    if (!a)
        return;
    for (block *b = a->first; b;) {
        block *after = b->after;
        free(b);
        b = after;
    }
    free(a);
}

static void add_free(block_allocator *a, block *b) {
    b->is_free = true;
    b->by_size.key = b->bytes;
    b->by_size.second = b->offset;
    ordered_set_add(&a->free_blocks, &b->by_size);
}

static void remove_free(block_allocator *a, block *b) {
    b->is_free = false;
    ordered_set_remove(&a->free_blocks, &b->by_size);
}

static block *insert_after(block_allocator *a, block *before, int64_t offset, int64_t bytes) {
    block *b = memory_allocate(1, sizeof *b);
    *b = (block){.offset = offset, .bytes = bytes, .before = before};
    b->after = before ? before->after : a->first;
    if (before)
        before->after = b;
    else
        a->first = b;
    if (b->after)
        b->after->before = b;
    else
        a->last = b;
    return b;
}

static void remove_block(block_allocator *a, block *b) {
    if (b->before)
        b->before->after = b->after;
    else
        a->first = b->after;
    if (b->after)
        b->after->before = b->before;
    else
        a->last = b->before;
    free(b);
}

/* The smallest free block that is large enough, of several the lowest. Never the last block: it
 * stands for all memory above, allocated before or not, so that a second step finds every block at
 * the same offset as the first. */
static block *best_fit(const block_allocator *a, int64_t bytes) {
    block *best = (block *)ordered_set_first_from(&a->free_blocks, bytes, 0);
    if (best && best == a->last)
        best = (block *)ordered_set_first_from(&a->free_blocks, best->bytes, best->offset + 1);
    return best;
}

block *block_allocate(block_allocator *a, int64_t bytes) {
    bytes = (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    if (bytes == 0)
        bytes = BLOCK_ALIGNMENT;
    block *b = best_fit(a, bytes);
    if (!b && a->last && a->last->is_free)
        b = a->last;
    if (b) {
        remove_free(a, b);
        if (b->bytes > bytes)
            add_free(a, insert_after(a, b, b->offset + bytes, b->bytes - bytes));
        b->bytes = bytes;
    } else {
        b = insert_after(a, a->last, a->last ? a->last->offset + a->last->bytes : 0, bytes);
    }
    a->taken_bytes += bytes;
    if (b->offset + bytes > a->high_water)
        a->high_water = b->offset + bytes;
    return b;
}

void block_release(block_allocator *a, block *b) {
    a->taken_bytes -= b->bytes;
    block *before = b->before, *after = b->after;
    if (after && after->is_free) {
        remove_free(a, after);
        b->bytes += after->bytes;
        remove_block(a, after);
    }
    if (before && before->is_free) {
        remove_free(a, before);
        before->bytes += b->bytes;
        remove_block(a, b);
        b = before;
    }
    add_free(a, b);
}

int64_t block_offset(const block *b) { return b->offset; }
int64_t block_bytes(const block *b) { return b->bytes; }
int64_t block_allocator_taken_bytes(const block_allocator *a) { return a->taken_bytes; }
int64_t block_allocator_high_water(const block_allocator *a) { return a->high_water; }

void block_allocator_for_each_free(const block_allocator *a,
                                   void (*visit)(void *context, int64_t offset, int64_t bytes),
                                   void *context) {
    int64_t end = 0;
    for (const block *b = a->first; b; b = b->after) {
        if (b->is_free)
            visit(context, b->offset, b->bytes);
        end = b->offset + b->bytes;
    }
    if (end < a->high_water)
        visit(context, end, a->high_water - end);
}
