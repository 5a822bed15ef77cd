#include "plan/operand.h"

#include "plan/hazards.h"

byte_range plan_operand_range(const plan_operand *o) {
    if (shape_elements(&o->layout.shape) == 0)
        return (byte_range){o->offset, o->offset};
    tensor at_zero = o->layout;
    at_zero.data = NULL;
    hazard_range range = hazard_range_of(&at_zero, false);
    return (byte_range){o->offset + (int64_t)range.begin, o->offset + (int64_t)range.end};
}

static bool same_layout(const tensor *a, const tensor *b) {
    if (!shape_equal(&a->shape, &b->shape))
        return false;
    for (int i = 0; i < a->shape.rank; i++)
        if (a->shape.dim[i] != 1 && a->stride[i] != b->stride[i])
            return false;
    return true;
}

bool plan_operands_coincide(const plan_operand *a, const plan_operand *b) {
    tensor x = a->layout, y = b->layout;
    tensor_collapse(&x, 1);
    tensor_collapse(&y, 1);
    return a->offset == b->offset && dtype_bytes(x.type) == dtype_bytes(y.type) &&
           same_layout(&x, &y);
}

/* Whether all bytes that `t` touches are, modulo `period`, in the first *length bytes of a period;
 * its longer strides are multiples of the period and repeat these. */
static bool repeats_with(const tensor *t, int64_t period, int64_t *length) {
    *length = dtype_bytes(t->type);
    for (int i = 0; i < t->shape.rank; i++) {
        int64_t stride = t->stride[i] * dtype_bytes(t->type);
        if (stride < 0 || (stride >= period && stride % period != 0 && t->shape.dim[i] > 1))
            return false;
        if (stride < period)
            *length += (t->shape.dim[i] - 1) * stride;
    }
    return true;
}

/* Whether some stride of `a` is a period in which the two touch disjoint bytes. */
static bool are_interleaved(const plan_operand *a, const plan_operand *b) {
    for (int i = 0; i < a->layout.shape.rank; i++) {
        int64_t period = a->layout.stride[i] * dtype_bytes(a->layout.type), first, second;
        if (period <= 0 || !repeats_with(&a->layout, period, &first) ||
            !repeats_with(&b->layout, period, &second))
            continue;
        int64_t gap = ((b->offset - a->offset) % period + period) % period;
        if (first <= gap && gap + second <= period)
            return true;
    }
    return false;
}

bool plan_operands_are_apart(const plan_operand *a, const plan_operand *b) {
    byte_range x = plan_operand_range(a), y = plan_operand_range(b);
    return x.end <= y.begin || y.end <= x.begin || are_interleaved(a, b) || are_interleaved(b, a);
}

static bool meets_any(const plan_operand *o, const plan_operand *others, int count) {
    for (int i = 0; i < count; i++)
        if (others[i].buffer == o->buffer && !plan_operands_are_apart(o, &others[i]))
            return true;
    return false;
}

bool plan_launches_conflict(const plan *p, int a, int b) {
    const plan_launch *x = &p->launches[a], *y = &p->launches[b];
    for (int i = 0; i < x->output_count; i++)
        if (meets_any(&x->outputs[i], y->inputs, y->input_count) ||
            meets_any(&x->outputs[i], y->outputs, y->output_count))
            return true;
    for (int i = 0; i < x->input_count; i++)
        if (meets_any(&x->inputs[i], y->outputs, y->output_count))
            return true;
    return false;
}
