#include "ops/add_scalar/add_scalar.h"

#include "ops/elementwise.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    (void)g;
    (void)n;
    if (wanted[0])
        dx[0] = dy[0];
}

ELEMENTWISE_OP_SCALAR(add_scalar, "a + s, s a constant", 1, gradient, a + s)

value *build_add_scalar(graph *g, value *a, double s) {
    return elementwise_build_scalar(g, &op_add_scalar, a, s);
}
