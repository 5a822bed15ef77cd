#include "tensor/tensor.h"

#include <assert.h>

tensor tensor_contiguous(void *data, dtype type, const shape *s) {
    tensor t = {.data = data, .type = type, .shape = *s};
    int64_t stride = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        t.stride[i] = stride;
        stride *= s->dim[i];
    }
    return t;
}

bool tensor_is_contiguous(const tensor *t) {
    int64_t stride = 1;
    for (int i = t->shape.rank - 1; i >= 0; i--) {
        if (t->shape.dim[i] != 1 && t->stride[i] != stride)
            return false;
        stride *= t->shape.dim[i];
    }
    return true;
}

int64_t tensor_bytes(const tensor *t) { return shape_elements(&t->shape) * dtype_bytes(t->type); }

/* Walks both shapes from the innermost dimension, matching runs of source dimensions to runs of
 * target dimensions with the same number of elements; within a run the source must be dense. */
bool tensor_view_reshape(const tensor *t, const shape *s, tensor *view) {
    assert(shape_elements(&t->shape) == shape_elements(s));
    tensor out = {.data = t->data, .type = t->type, .shape = *s};
    int from = t->shape.rank - 1, to = s->rank - 1;
    while (to >= 0) {
        while (from >= 0 && t->shape.dim[from] == 1)
            from--;
        if (from < 0) { /* only dimensions of size 1 are left */
            for (; to >= 0; to--)
                out.stride[to] = 1;
            break;
        }
        int64_t base = t->stride[from], have = t->shape.dim[from], want = s->dim[to];
        out.stride[to] = base;
        int inner = to--;
        while (have != want) {
            if (have < want) {
                do {
                    if (--from < 0)
                        return false;
                } while (t->shape.dim[from] == 1);
                if (t->stride[from] != base * have)
                    return false;
                have *= t->shape.dim[from];
            } else {
                if (to < 0)
                    return false;
                out.stride[to] = out.stride[inner] * s->dim[inner];
                want *= s->dim[to];
                inner = to--;
            }
        }
        from--;
    }
    *view = out;
    return true;
}

tensor tensor_view_transpose(const tensor *t, const int64_t *order) {
    tensor view = *t;
    for (int i = 0; i < t->shape.rank; i++) {
        view.shape.dim[i] = t->shape.dim[order[i]];
        view.stride[i] = t->stride[order[i]];
    }
    return view;
}

tensor tensor_view_broadcast(const tensor *t, const shape *s) {
    assert(t->shape.rank == s->rank);
    tensor view = *t;
    view.shape = *s;
    for (int i = 0; i < s->rank; i++)
        if (t->shape.dim[i] != s->dim[i])
            view.stride[i] = 0;
    return view;
}

void tensor_collapse(tensor *tensors, int count) {
    shape *s = &tensors[0].shape;
    shape merged = {0};
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] == 1)
            continue;
        int last = merged.rank - 1;
        bool mergeable = last >= 0;
        for (int t = 0; t < count && mergeable; t++)
            mergeable = tensors[t].stride[last] == tensors[t].stride[i] * s->dim[i];
        if (mergeable) {
            merged.dim[last] *= s->dim[i];
        } else {
            last = merged.rank++;
            merged.dim[last] = s->dim[i];
        }
        for (int t = 0; t < count; t++)
            tensors[t].stride[last] = tensors[t].stride[i];
    }
    if (merged.rank == 0) {
        merged = SHAPE(1);
        for (int t = 0; t < count; t++)
            tensors[t].stride[0] = 1;
    }
    for (int t = 0; t < count; t++)
        tensors[t].shape = merged;
}
