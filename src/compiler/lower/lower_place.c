/* lower_place.c - one walk over the graph; each concat, and each reshape that would copy, tries to
 * have its inputs produced in place.
 *
 * The attempt goes back through views, inverting each on the strides, to the value that a kernel
 * computes. It succeeds if that kernel can write such strides and if all readers of the value, or
 * of views of it, accept them. An attempt costs as much as the values that it would change: it
 * takes no walk over the graph. */
#include "compiler/lower/lower_place.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/lower/lowering.h"
#include "compiler/passes/fusion_space.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"

typedef struct placer {
    const graph *g;
    const target *target;
    placement *placements; /* by value id */
    tensor *layout;        /* by value id, as lowering will place it */
    int *readers;          /* by value id: nodes outside the maker's group that read it */
    uses *uses;
    /* By value id, in the current attempt: the layouts values would have, and which would change.
     * */
    tensor *trial;
    bool *is_moved;
    int *moved; /* the ids of those that would */
    int moved_count, moved_capacity;
    int *pending; /* ids of nodes that read them and have to agree, the first in order last */
    int pending_count, pending_capacity;
} placer;

static void count_readers(placer *p) {
    for (int i = 0; i < p->g->node_count; i++) {
        const node *n = p->g->nodes[i];
        for (int j = 0; j < n->input_count; j++) {
            const node *maker = n->inputs[j]->producer;
            if (!maker || !maker->group || maker->group != n->group)
                p->readers[n->inputs[j]->id]++;
        }
    }
}

/* Whether the target has a kernel that runs `n`, a launch of its own, on operands of these layouts.
 * */
static bool has_kernel(const placer *p, const node *n, const tensor *layout) {
    tensor *operands =
        memory_allocate((size_t)(n->input_count + n->output_count), sizeof *operands);
    for (int i = 0; i < n->input_count; i++)
        operands[i] = layout[n->inputs[i]->id];
    for (int i = 0; i < n->output_count; i++)
        operands[n->input_count + i] = layout[n->outputs[i]->id];
    kernel_args args = {.input_count = n->input_count,
                        .output_count = n->output_count,
                        .inputs = operands,
                        .outputs = operands + n->input_count,
                        .attributes = &n->attributes,
                        .target = p->target};
    bool has = kernel_pick(n->op->kernels, &args, NULL) != NULL;
    free(operands);
    return has;
}

/* Whether the producer of `v` can write the layout of p->trial. */
static bool can_make(const placer *p, const value *v) {
    const tensor *layout = &p->trial[v->id];
    const node *n = v->producer;
    int last = layout->shape.rank - 1;
    if (last < 0 || (layout->stride[last] != 1 && layout->shape.dim[last] != 1) ||
        op_inplace_input(n, v->output_index) >= 0 || n->op->piece)
        return false;
    if (n->group)
        return fusion_kind_of(n) != FUSION_BLOCK_REDUCE || tensor_is_contiguous(layout);
    return has_kernel(p, n, p->trial);
}

static bool is_seen_outside(const value *v) { return v->is_output || v->role == ROLE_GRADIENT; }

static void add_pending(placer *p, int node_id) {
    int at = p->pending_count;
    while (at > 0 && p->pending[at - 1] < node_id)
        at--;
    if (at > 0 && p->pending[at - 1] == node_id)
        return;
    MEMORY_GROW(p->pending, p->pending_count, p->pending_capacity);
    memmove(p->pending + at + 1, p->pending + at,
            (size_t)(p->pending_count++ - at) * sizeof *p->pending);
    p->pending[at] = node_id;
}

/* In the current attempt the value has this layout. */
static void try_layout(placer *p, const value *v, const tensor *layout) {
    p->trial[v->id] = *layout;
    p->is_moved[v->id] = true;
    MEMORY_GROW(p->moved, p->moved_count, p->moved_capacity);
    p->moved[p->moved_count++] = v->id;
    for (const node *n = uses_next_reader(p->uses, v, NULL); n; n = uses_next_reader(p->uses, v, n))
        add_pending(p, n->id);
}

/* Ends the attempt: what would have changed does so, or stays as it was. */
static void settle(placer *p, bool is_accepted) {
    for (int i = 0; i < p->moved_count; i++) {
        int id = p->moved[i];
        if (is_accepted)
            p->layout[id] = p->trial[id];
        else
            p->trial[id] = p->layout[id];
        p->is_moved[id] = false;
    }
    p->moved_count = p->pending_count = 0;
}

/* Propagates the layout in p->trial through a view; false where the view becomes a copy. */
static bool follow_view(placer *p, const node *n) {
    const value *in = n->inputs[0];
    for (int i = 0; i < n->output_count; i++) {
        const value *out = n->outputs[i];
        tensor before, after;
        int64_t offset = 0;
        if (n->op->view(n, i, &p->trial[in->id], &after, &offset)) {
            if (is_seen_outside(out) && !tensor_is_contiguous(&after))
                return false;
            try_layout(p, out, &after);
        } else if (n->op->view(n, i, &p->layout[in->id], &before, &offset)) {
            return false;
        }
    }
    return true;
}

static bool takes_over(const node *n, int input) {
    for (int i = 0; i < n->output_count; i++)
        if (op_inplace_input(n, i) == input)
            return true;
    return false;
}

/* Whether all readers of values that would change, and of views of them, accept their layouts in
 * p->trial. Their order is the graph's: a node comes behind the views that it reads. */
static bool readers_agree(placer *p) {
    while (p->pending_count) {
        const node *n = p->g->nodes[p->pending[--p->pending_count]];
        for (int j = 0; j < n->input_count; j++)
            if (p->is_moved[n->inputs[j]->id] && takes_over(n, j))
                return false;
        if (n->group || n->op->piece)
            continue;
        if (n->op->view ? !follow_view(p, n) : !has_kernel(p, n, p->trial))
            return false;
    }
    return true;
}

/* The value behind the views of `v`, and the layout it must have for `v` to have *layout; NULL when
 * there is none. */
static const value *find_root(const placer *p, const value *v, bool must_be_private,
                              tensor *layout) {
    for (;;) {
        if (is_seen_outside(v) || (must_be_private && p->readers[v->id] != 1))
            return NULL;
        const node *n = v->producer;
        if (!n || !n->op->view)
            return n && !p->placements[v->id].owner ? v : NULL;
        if (!n->op->undo_view || !n->op->undo_view(n, layout, layout))
            return NULL;
        v = n->inputs[0];
    }
}

/* Places `v` with that layout in the memory of `owner`, if everything agrees. A part of a larger
 * value must have no other readers: the whole would live as long as any of them needs the part. */
static void claim(placer *p, const value *v, const value *owner, tensor layout, int64_t offset) {
    bool is_piece = owner->producer->op->piece != NULL;
    const value *root = find_root(p, v, is_piece, &layout);
    if (!root)
        return;
    try_layout(p, root, &layout);
    bool is_accepted = can_make(p, root) && readers_agree(p);
    settle(p, is_accepted);
    if (is_accepted)
        p->placements[root->id] = (placement){owner, offset, layout};
}

static void visit_view(placer *p, const node *n) {
    for (int i = 0; i < n->output_count; i++) {
        const value *out = n->outputs[i];
        tensor view, wanted;
        int64_t offset = 0;
        if (n->op->view(n, i, &p->layout[n->inputs[0]->id], &view, &offset))
            p->layout[out->id] = p->trial[out->id] = view;
        else if (n->op->undo_view && n->op->undo_view(n, &p->layout[out->id], &wanted))
            claim(p, n->inputs[0], out, wanted, 0);
    }
}

static void visit_concat(placer *p, const node *n) {
    for (int i = 0; i < n->input_count; i++) {
        int64_t offset;
        tensor piece = n->op->piece(n, i, &p->layout[n->outputs[0]->id], &offset);
        claim(p, n->inputs[i], n->outputs[0], piece, offset);
    }
}

placement *lower_plan_placements(const graph *g, const target *chip) {
    size_t values = (size_t)g->value_count;
    placer p = {.g = g,
                .target = chip,
                .placements = memory_allocate(values, sizeof *p.placements),
                .layout = memory_allocate(values, sizeof *p.layout),
                .readers = memory_allocate(values, sizeof *p.readers),
                .uses = uses_create(g),
                .trial = memory_allocate(values, sizeof *p.trial),
                .is_moved = memory_allocate(values, sizeof *p.is_moved)};
    for (int i = 0; i < g->value_count; i++)
        p.layout[i] = p.trial[i] =
            tensor_contiguous(NULL, g->values[i]->type, &g->values[i]->shape);
    count_readers(&p);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        if (n->op->view)
            visit_view(&p, n);
        else if (n->op->piece)
            visit_concat(&p, n);
    }
    free(p.layout);
    free(p.readers);
    uses_destroy(p.uses);
    free(p.trial);
    free(p.is_moved);
    free(p.moved);
    free(p.pending);
    return p.placements;
}
