#include "ops/rsqrt/rsqrt.h"

#include "ops/elementwise.h"

/* From the result y: a is dy, b is y. */
ELEMENTWISE_OP_2(rsqrt_gradient, "-a * b^3 / 2, rsqrt's gradient", 4, NULL, a *b *b *b / -2)

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = elementwise_build(g, &op_rsqrt_gradient, (value *[]){dy[0], n->outputs[0]}, 2);
}

ELEMENTWISE_OP_1(rsqrt, "1 / sqrt(a)", 2, gradient, 1 / SQRT(a))

value *build_rsqrt(graph *g, value *a) { return elementwise_build(g, &op_rsqrt, &a, 1); }
