#include "compiler/passes/fusion_space.h"

#include <string.h>

#include "graph/op.h"

/* The last dimension and the product of the others; a scalar is 1 x 1. */
static fusion_space space_of_shape(const shape *s) {
    int64_t columns = s->rank ? s->dim[s->rank - 1] : 1;
    return (fusion_space){shape_elements(s) / columns, columns};
}

/* Types the code generator can load and store. */
static bool is_generated(dtype type) {
    return dtype_is_f32_or_low(type) || type == DTYPE_I32 || type == DTYPE_BOOL;
}

fusion_kind fusion_kind_of(const node *n) {
    if (n->op->view)
        return FUSION_VIEW;
    if (n->op->reduction && n->inputs[0]->type != DTYPE_F64) {
        const shape *axes = attribute_list(&n->attributes, "axes"), *in = &n->inputs[0]->shape;
        if (axes->rank == 1 && axes->dim[0] == in->rank - 1)
            /* A row of one element is its own sum; there is nothing to fuse, and rows and
             * their scalars would be indistinguishable. */
            return in->dim[in->rank - 1] > 1 ? FUSION_ROW_REDUCE : FUSION_NONE;
        if (n->op->reduction == REDUCTION_SUM && in->rank == 3 && axes->rank == 1 &&
            axes->dim[0] == 1 && n->outputs[0]->type == DTYPE_F32)
            return FUSION_BLOCK_REDUCE;
        return FUSION_NONE;
    }
    if (!n->op->expression || n->output_count != 1)
        return FUSION_NONE;
    for (int i = 0; i < n->input_count; i++)
        if (!is_generated(n->inputs[i]->type))
            return FUSION_NONE;
    return is_generated(n->outputs[0]->type) ? FUSION_ELEMENTWISE : FUSION_NONE;
}

fusion_space fusion_space_of(const node *n) {
    return space_of_shape(n->op->reduction ? &n->inputs[0]->shape : &n->outputs[0]->shape);
}

const value *fusion_root_of(const value *v) {
    while (v->producer && v->producer->op->view)
        v = v->producer->inputs[0];
    return v;
}

bool fusion_is_row_value(const value *v, fusion_space s) {
    fusion_space own = space_of_shape(&v->shape);
    return own.columns == 1 && own.rows == s.rows && s.columns != 1;
}

/* Whether a broadcast repeats along the last dimension only. */
static bool repeats_rows_only(const shape *from, const shape *to) {
    for (int i = 0; i < to->rank - 1; i++)
        if (from->dim[i] != to->dim[i])
            return false;
    return to->rank > 0 && from->dim[to->rank - 1] == 1;
}

fusion_read fusion_read_of(const node *n, int index, fusion_space s) {
    value *v = n->inputs[index];
    fusion_read read = {v, FUSION_SAME};
    if (fusion_is_row_value(v, s))
        read.access = FUSION_OF_ROW;
    for (;;) {
        read.source = v;
        if (!v->producer || !v->producer->op->view)
            return read;
        const node *view = v->producer;
        value *below = view->inputs[0];
        const shape *from = &below->shape, *to = &v->shape;
        if (view->op->view_order == OP_VIEW_MOVED)
            return read;
        if (view->op->view_order == OP_VIEW_IN_ORDER) {
            fusion_space a = space_of_shape(from), b = space_of_shape(to);
            bool same_rows = a.rows == b.rows && a.columns == b.columns;
            /* [R] and [R, 1]: one number a row either way */
            bool both_rows = read.access == FUSION_OF_ROW && shape_elements(from) == s.rows;
            if (!same_rows && !both_rows)
                return read;
        } else if (!shape_equal(from, to)) {
            if (read.access != FUSION_SAME || !repeats_rows_only(from, to))
                return read;
            read.access = FUSION_OF_ROW;
        }
        v = below;
    }
}
