/* lower_place.c - one walk over the graph; each concat, and each reshape that would copy, claims
 * what it reads.
 *
 * A claim goes back through views, undoing each on the strides, to the value that a kernel makes.
 * It holds only for values with one reader (members of the maker's own group aside, which have it
 * in registers), so no other kernel meets strides that it would not have met, and no buffer lives
 * longer for a piece of it than the piece itself would. */
#include "compiler/lower_place.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/fusion_space.h"
#include "graph/op.h"
#include "ops/op_list.h"

typedef struct placer {
    const graph *g;
    backend target;
    placement *placements; /* by value id */
    tensor *layout;        /* by value id, as lowering will place it */
    int *readers;          /* by value id: nodes outside the maker's group that read it */
} placer;

tensor lower_piece_of(const node *concat, int index, const tensor *whole, int64_t *offset) {
    int64_t axis = attribute_integer(&concat->attributes, "axis");
    tensor piece = *whole;
    piece.shape = concat->inputs[index]->shape;
    *offset = 0;
    for (int i = 0; i < index; i++)
        *offset += concat->inputs[i]->shape.dim[axis] * whole->stride[axis];
    return piece;
}

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

/* The strides the view's input must have for its output to have `layout`. */
static bool undo_view(const node *view, tensor *layout) {
    const shape *from = &view->inputs[0]->shape;
    if (view->op == &op_reshape)
        return tensor_view_reshape(layout, from, layout);
    if (view->op == &op_transpose) {
        const int64_t *order = attribute_list(&view->attributes, "order")->dim;
        tensor undone = *layout;
        undone.shape = *from;
        for (int i = 0; i < from->rank; i++)
            undone.stride[order[i]] = layout->stride[i];
        *layout = undone;
        return true;
    }
    return view->op == &op_detach;
}

/* Whether the maker of `v`, a launch of its own, has a kernel for this layout. */
static bool kernel_can_write(const placer *p, const value *v, const tensor *layout) {
    const node *n = v->producer;
    if (n->output_count != 1 || op_inplace_input(n, 0) >= 0 || n->op == &op_concat)
        return false;
    tensor *inputs = memory_allocate((size_t)n->input_count, sizeof *inputs);
    for (int i = 0; i < n->input_count; i++)
        inputs[i] = p->layout[n->inputs[i]->id];
    kernel_args args = {.input_count = n->input_count,
                        .output_count = 1,
                        .inputs = inputs,
                        .outputs = layout,
                        .attributes = &n->attributes};
    bool can = false;
    for (const kernel *const *k = n->op->kernels; *k && !can; k++)
        can = (*k)->backend == p->target && (*k)->writes_strided &&
              (!(*k)->reject || !(*k)->reject(&args));
    free(inputs);
    return can;
}

static bool can_write(const placer *p, const value *v, const tensor *layout) {
    int last = layout->shape.rank - 1;
    if (last < 0 || (layout->stride[last] != 1 && layout->shape.dim[last] != 1))
        return false;
    if (!v->producer->group)
        return kernel_can_write(p, v, layout);
    return fusion_kind_of(v->producer) != FUSION_BLOCK_REDUCE || tensor_is_contiguous(layout);
}

/* Lets `v` lie so in the memory of `owner`, if all is well with that. */
static void claim(placer *p, const value *v, const value *owner, tensor layout, int64_t offset) {
    const value *root = v;
    bool is_private = p->readers[v->id] == 1;
    while (is_private && root->producer && root->producer->op->view) {
        if (root->is_output || root->role == ROLE_GRADIENT || !undo_view(root->producer, &layout))
            return;
        root = root->producer->inputs[0];
        is_private = p->readers[root->id] == 1;
    }
    if (!is_private || !root->producer || root->is_output || root->role == ROLE_GRADIENT ||
        p->placements[root->id].owner || !can_write(p, root, &layout))
        return;
    p->placements[root->id] = (placement){owner, offset, layout};
    p->layout[root->id] = layout;
    for (int i = root->producer->id; i < p->g->node_count; i++) { /* the views on the way */
        const node *n = p->g->nodes[i];
        int64_t ignored = 0;
        if (n->op->view && n->output_count == 1)
            n->op->view(n, 0, &p->layout[n->inputs[0]->id], &p->layout[n->outputs[0]->id],
                        &ignored);
        if (n->outputs[0] == v)
            break;
    }
}

static void visit_view(placer *p, const node *n) {
    for (int i = 0; i < n->output_count; i++) {
        const value *out = n->outputs[i];
        tensor view;
        int64_t offset = 0;
        if (n->op->view(n, i, &p->layout[n->inputs[0]->id], &view, &offset)) {
            p->layout[out->id] = view;
        } else if (n->op == &op_reshape) {
            tensor wanted;
            if (tensor_view_reshape(&p->layout[out->id], &n->inputs[0]->shape, &wanted))
                claim(p, n->inputs[0], out, wanted, 0);
        }
    }
}

static void visit_concat(placer *p, const node *n) {
    for (int i = 0; i < n->input_count; i++) {
        int64_t offset;
        tensor piece = lower_piece_of(n, i, &p->layout[n->outputs[0]->id], &offset);
        claim(p, n->inputs[i], n->outputs[0], piece, offset);
    }
}

placement *lower_plan_placements(const graph *g, backend target) {
    size_t values = (size_t)g->value_count;
    placer p = {.g = g,
                .target = target,
                .placements = memory_allocate(values, sizeof *p.placements),
                .layout = memory_allocate(values, sizeof *p.layout),
                .readers = memory_allocate(values, sizeof *p.readers)};
    for (int i = 0; i < g->value_count; i++)
        p.layout[i] = tensor_contiguous(NULL, g->values[i]->type, &g->values[i]->shape);
    count_readers(&p);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        if (n->op->view)
            visit_view(&p, n);
        else if (n->op == &op_concat)
            visit_concat(&p, n);
    }
    free(p.layout);
    free(p.readers);
    return p.placements;
}
