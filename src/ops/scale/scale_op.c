#include "ops/scale/scale.h"

#include "ops/elementwise.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_scale(g, dy[0], attribute_real(&n->attributes, "s"));
}

ELEMENTWISE_OP_SCALAR(scale, "a * s, s a constant", 1, gradient, a *s)

value *build_scale(graph *g, value *a, double s) {
    return elementwise_build_scalar(g, &op_scale, a, s);
}
