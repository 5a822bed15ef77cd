/* memory_plan.c - buffers one after another, each at the lowest offset that fits.
 *
 * Invariant: two buffers share bytes only if their lifetimes do not overlap.
 *
 * Largest first is the usual heuristic: small buffers fill the gaps that large ones leave. A
 * training step also has buffers that live from the forward to the backward among many that live
 * for a launch or two, and then placing the long-lived ones first is sometimes better. Each order
 * is tried, and tried again with the buffer first that did not fit below the best size so far. An
 * attempt takes a microsecond for each buffer (arena_map.h). The search stops at the bytes alive at the peak, which is
 * the lower bound.
 *
 * Buffers are aligned to a few cache lines and not to a page: large buffers that all begin at the
 * same offset in a page would compete for the same cache sets. */
#include "plan/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/arena_map.h"
#include "plan/operand.h"

/* ---- in place ----
 *
 * An output takes over the buffer of an input that dies at the same launch. The two become one
 * buffer, born with the first and alive until the last use of the second. */

/* Whether the buffer of output `o` of launch `index` may become that of input `i`: it dies here,
 * and wherever the launch would write over something it reads, the kernel allows it. */
static bool can_overwrite(const plan *p, int index, int o, int i) {
    const plan_launch *l = &p->launches[index];
    const plan_operand *in = &l->inputs[i], *out = &l->outputs[o];
    const plan_buffer *from = &p->buffers[in->buffer], *to = &p->buffers[out->buffer];
    if (from->is_persistent || to->is_persistent || from == to || from->last_used != index ||
        to->born != index || from->bytes != to->bytes)
        return false;
    for (int k = 0; k < l->output_count; k++) {
        if (l->outputs[k].buffer == in->buffer)
            return false;
        for (int j = 0; j < l->input_count && l->outputs[k].buffer == out->buffer; j++) {
            if (l->inputs[j].buffer != in->buffer ||
                plan_operands_are_apart(&l->inputs[j], &l->outputs[k]))
                continue;
            bool is_allowed = j < 64 && l->overwrites[k] >> j & 1;
            if (!is_allowed || !plan_operands_coincide(&l->inputs[j], &l->outputs[k]))
                return false;
        }
    }
    return true;
}

/* The label of a merged buffer: that of the value a report would look for. */
static role stronger_role(role a, role b) {
    static const role order[] = {ROLE_GRADIENT, ROLE_SAVED};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i] || b == order[i])
            return order[i];
    return b;
}

static void merge(plan *p, int gone, int stays) {
    const plan_buffer *from = &p->buffers[gone];
    plan_buffer *into = &p->buffers[stays];
    into->last_used = from->last_used;
    into->role = stronger_role(into->role, from->role);
    if (from->name)
        into->name = from->name;
}

static void rename_operands(plan_operand *operands, int count, const int *moved) {
    for (int i = 0; i < count; i++)
        operands[i].buffer = moved[operands[i].buffer];
}

static void rename_launch(plan_launch *l, const int *moved) {
    rename_operands(l->inputs, l->input_count, moved);
    rename_operands(l->outputs, l->output_count, moved);
    if (l->workspace >= 0)
        l->workspace = moved[l->workspace];
}

/* One launch after another, so that a chain of them runs in the buffer of the first: merged[b]
 * is by then the buffer that b has become part of. */
static void reuse_in_place(plan *p) {
    int count = p->buffer_count, kept = 0;
    int *merged = memory_allocate((size_t)count, sizeof *merged);
    int *number = memory_allocate((size_t)count, sizeof *number);
    for (int i = 0; i < count; i++)
        merged[i] = i;
    for (int i = 0; i < p->launch_count; i++) {
        plan_launch *l = &p->launches[i];
        rename_launch(l, merged);
        for (int o = 0; o < l->output_count; o++)
            for (int j = 0; j < l->input_count && j < 64 && l->overwrites[o]; j++) {
                if (!(l->overwrites[o] >> j & 1) || !can_overwrite(p, i, o, j))
                    continue;
                int gone = l->outputs[o].buffer, stays = l->inputs[j].buffer;
                merge(p, gone, stays);
                merged[gone] = stays;
                rename_launch(l, merged);
                break;
            }
    }
    for (int i = 0; i < count; i++)
        if (merged[i] == i) {
            p->buffers[kept] = p->buffers[i];
            number[i] = kept++;
        }
    for (int i = 0; i < count; i++)
        number[i] = number[merged[i]];
    if (kept < count) {
        for (int i = 0; i < p->launch_count; i++)
            rename_launch(&p->launches[i], number);
        for (int i = 0; i < p->name_count; i++)
            rename_operands(&p->names[i].operand, 1, number);
        for (int i = 0; i < p->parameter_count; i++)
            if (p->parameters[i].gradient_at.buffer >= 0)
                rename_operands(&p->parameters[i].gradient_at, 1, number);
        p->buffer_count = kept;
        plan_finish(p);
    }
    free(merged);
    free(number);
}

/* ---- placing ---- */

typedef struct item {
    int buffer, born, last_used;
    int64_t bytes;  /* rounded up */
    double urgency; /* the larger, the earlier it is placed */
} item;

static int64_t aligned(int64_t bytes) {
    return (bytes + MEMORY_PLAN_ALIGNMENT - 1) / MEMORY_PLAN_ALIGNMENT * MEMORY_PLAN_ALIGNMENT;
}

/* Buffers of equal urgency are sorted by size, then in plan order, so that the sort is
 * deterministic. */
static int most_urgent_first(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->urgency != y->urgency)
        return x->urgency > y->urgency ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->buffer - y->buffer;
}

/* Places the items in their order; the arena's size. As soon as that is `limit` or more it is -1,
 * and *too_late the item for which there was no room. */
static int64_t place(const item *items, int count, int64_t limit, arena_map *taken,
                     int64_t *offsets, int *too_late) {
    int64_t arena_bytes = 0;
    arena_map_clear(taken);
    for (int i = 0; i < count; i++) {
        const item *it = &items[i];
        int64_t offset = arena_map_lowest_fit(taken, it->born, it->last_used, it->bytes);
        if (offset + it->bytes >= limit) {
            *too_late = i;
            return -1;
        }
        if (offset + it->bytes > arena_bytes)
            arena_bytes = offset + it->bytes;
        arena_map_take(taken, it->born, it->last_used, offset, offset + it->bytes);
        offsets[it->buffer] = offset;
    }
    return arena_bytes;
}

static int collect_items(const plan *p, item *items) {
    int count = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (!b->is_persistent)
            items[count++] = (item){.buffer = i,
                                    .born = b->born,
                                    .last_used = b->last_used,
                                    .bytes = aligned(b->bytes)};
    }
    return count;
}

static double by_size(const item *it) { return (double)it->bytes; }
static double by_life(const item *it) { return it->last_used - it->born; }
static double by_both(const item *it) { return by_size(it) * (1 + by_life(it)); }
static double by_birth(const item *it) { return -it->born; }

static void move_to_front(item *items, int index) {
    item first = items[index];
    memmove(items + 1, items, (size_t)index * sizeof *items);
    items[0] = first;
}

static void place_buffers(plan *p) {
    enum { TRIES = 16 };
    static double (*const orders[])(const item *) = {by_size, by_both, by_life, by_birth};
    size_t buffers = (size_t)p->buffer_count;
    item *items = memory_allocate(buffers, sizeof *items);
    arena_map *taken = arena_map_create(p->launch_count);
    int64_t *offsets = memory_allocate(buffers, sizeof *offsets);
    int count = collect_items(p, items);
    int64_t least = memory_plan_live_bytes(p), best = INT64_MAX;
    for (size_t i = 0; i < sizeof orders / sizeof *orders && best > least; i++) {
        for (int j = 0; j < count; j++)
            items[j].urgency = orders[i](&items[j]);
        qsort(items, (size_t)count, sizeof *items, most_urgent_first);
        for (int try = 0; try < TRIES && best > least; try++) {
            int too_late = 0;
            int64_t arena_bytes = place(items, count, best, taken, offsets, &too_late);
            if (arena_bytes < 0) {
                move_to_front(items, too_late);
                continue;
            }
            best = arena_bytes;
            for (int j = 0; j < count; j++)
                p->buffers[items[j].buffer].offset = offsets[items[j].buffer];
        }
    }
    p->arena_bytes = best;
    free(items);
    arena_map_destroy(taken);
    free(offsets);
}

void memory_plan_apply(plan *p) {
    reuse_in_place(p);
    place_buffers(p);
    p->memory_mode = PLAN_MEMORY_STATIC;
}

int64_t memory_plan_live_bytes(const plan *p) {
    int64_t alive = 0, most = 0;
    for (int launch = 0; launch < p->launch_count; launch++) {
        for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++)
            alive += aligned(p->buffers[p->births[i]].bytes);
        most = alive > most ? alive : most;
        for (int i = p->death_start[launch]; i < p->death_start[launch + 1]; i++)
            alive -= aligned(p->buffers[p->deaths[i]].bytes);
    }
    return most;
}
