#include "support/operand.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

double fill_draw(fill what, draw *d) {
    switch (what.kind) {
    case FILL_NORMAL:
        return draw_normal(d) * (what.high > 0 ? what.high : 1);
    case FILL_UNIFORM:
        return draw_uniform(d, what.low, what.high);
    case FILL_INTEGERS:
        return what.low + (double)draw_below(d, (int64_t)(what.high - what.low));
    case FILL_CHOICE:
        return what.choice[draw_below(d, what.count)];
    }
    return NAN;
}

int64_t tensor_offset(const tensor *t, int64_t i) {
    int64_t offset = 0;
    for (int k = t->shape.rank - 1; k >= 0; k--) {
        offset += i % t->shape.dim[k] * t->stride[k];
        i /= t->shape.dim[k];
    }
    return offset;
}

double *tensor_to_doubles(const tensor *t) {
    int64_t elements = shape_elements(&t->shape);
    double *dense = memory_allocate((size_t)elements, sizeof *dense);
    for (int64_t i = 0; i < elements; i++)
        dense[i] = dtype_load(t->type, t->data, tensor_offset(t, i));
    return dense;
}

static void choose_strides(tensor *t, layout how, draw *d) {
    int rank = t->shape.rank;
    shape order = draw_order(d, rank);
    if (how != LAYOUT_TRANSPOSED)
        for (int i = 0; i < rank; i++)
            order.dim[i] = i;
    int repeated = how == LAYOUT_BROADCAST && rank ? 1 + (int)draw_below(d, (1 << rank) - 1) : 0;
    int64_t stride = how == LAYOUT_SPREAD ? 2 : 1;
    for (int i = rank - 1; i >= 0; i--) {
        int k = (int)order.dim[i];
        if (repeated >> k & 1) {
            t->stride[k] = 0;
            continue;
        }
        t->stride[k] = stride;
        stride *= t->shape.dim[k];
        if (how == LAYOUT_PADDED && i == rank - 1)
            stride += 1 + draw_below(d, 5);
    }
}

operand operand_create(dtype type, const shape *s, layout how, fill what, draw *d) {
    operand o = {.view = tensor_contiguous(NULL, type, s)};
    choose_strides(&o.view, how, d);
    int64_t last = 0;
    for (int i = 0; i < s->rank; i++)
        last += (s->dim[i] - 1) * o.view.stride[i];
    o.block = memory_allocate((size_t)(last + 1), (size_t)dtype_bytes(type));
    o.view.data = o.block;
    /* What lies between the elements must be seen if it is read: NaN, or a huge id. */
    for (int64_t i = 0; i <= last; i++)
        dtype_store(type, o.block, i, dtype_is_float(type) ? NAN : 1e9);
    for (int64_t i = 0; i < shape_elements(s); i++)
        dtype_store(type, o.block, tensor_offset(&o.view, i), fill_draw(what, d));
    o.dense = tensor_to_doubles(&o.view);
    return o;
}

void operand_release(operand *o) {
    free(o->block);
    free(o->dense);
    *o = (operand){0};
}
