#include "plan/memory_walk.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/block_allocator.h"

typedef struct walk {
    const plan *p;
    const memory_visitor *visitor;
    block_allocator *allocator;
    block **blocks; /* by buffer: those that pass through the allocator */
    int64_t arena_offset;
    memory_moment now;
} walk;

static int64_t in_blocks(int64_t bytes) {
    int64_t rounded = (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    return rounded ? rounded : BLOCK_ALIGNMENT;
}

static bool is_in_arena(const walk *w, const plan_buffer *b) {
    return w->p->memory_mode == PLAN_MEMORY_STATIC && !b->is_persistent;
}

static void count(walk *w, const plan_buffer *b, int sign) {
    w->now.alive[b->role] += sign * b->bytes;
    w->now.alive_bytes += sign * b->bytes;
    w->now.block_bytes += sign * in_blocks(b->bytes);
}

static int64_t offset_of(const walk *w, int buffer) {
    const plan_buffer *b = &w->p->buffers[buffer];
    return is_in_arena(w, b) ? w->arena_offset + b->offset : block_offset(w->blocks[buffer]);
}

static void bear(walk *w, int buffer) {
    const plan_buffer *b = &w->p->buffers[buffer];
    if (!is_in_arena(w, b))
        w->blocks[buffer] = block_allocate(w->allocator, b->bytes);
    count(w, b, 1);
    if (w->visitor->on_birth)
        w->visitor->on_birth(w->visitor->context, buffer, w->now.launch, offset_of(w, buffer),
                             in_blocks(b->bytes));
}

static void bury(walk *w, int buffer) {
    const plan_buffer *b = &w->p->buffers[buffer];
    if (w->visitor->on_death)
        w->visitor->on_death(w->visitor->context, buffer, w->now.launch, offset_of(w, buffer),
                             in_blocks(b->bytes));
    count(w, b, -1);
    if (!is_in_arena(w, b))
        block_release(w->allocator, w->blocks[buffer]);
}

static void show_moment(walk *w) {
    w->now.reserved_bytes = block_allocator_high_water(w->allocator);
    if (w->visitor->on_moment)
        w->visitor->on_moment(w->visitor->context, &w->now);
}

static void begin(walk *w) {
    const plan *p = w->p;
    w->now.launch = -1;
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            bear(w, i);
    if (p->memory_mode == PLAN_MEMORY_STATIC && p->arena_bytes)
        w->arena_offset = block_offset(block_allocate(w->allocator, p->arena_bytes));
    show_moment(w);
}

void memory_walk(const plan *p, const memory_visitor *visitor) {
    walk w = {.p = p,
              .visitor = visitor,
              .allocator = block_allocator_create(),
              .blocks = memory_allocate((size_t)p->buffer_count, sizeof *w.blocks)};
    begin(&w);
    for (int launch = 0; launch < p->launch_count; launch++) {
        w.now.launch = launch;
        for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++)
            bear(&w, p->births[i]);
        show_moment(&w);
        for (int i = p->death_start[launch]; i < p->death_start[launch + 1]; i++)
            bury(&w, p->deaths[i]);
    }
    block_allocator_destroy(w.allocator);
    free(w.blocks);
}
