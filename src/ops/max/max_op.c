#include "ops/max/max.h"

#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/divide/divide.h"
#include "ops/equal/equal.h"
#include "ops/multiply/multiply.h"
#include "ops/reduction.h"
#include "ops/sum/sum.h"

/* Goes to the elements that equal the maximum, divided evenly among ties. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (!wanted[0])
        return;
    value *x = n->inputs[0];
    value *is_max = build_equal(g, x, build_broadcast(g, n->outputs[0], &x->shape));
    value *share = build_cast(g, is_max, x->type);
    value *ties = build_sum(g, share, attribute_list(&n->attributes, "axes"));
    value *each = build_broadcast(g, build_divide(g, dy[0], ties), &x->shape);
    dx[0] = build_multiply(g, share, each);
}

REDUCTION_OP(max, REDUCTION_MAX, "largest over axes", gradient)
