#include "ops/divide/divide.h"

#include "ops/elementwise.h"

/* The divisor's gradient, -dy y / b, from the quotient y: a is dy, b is y, c is the divisor. */
ELEMENTWISE_OP_3(divide_gradient, "-(a * b) / c, divide's gradient for its divisor", 3, NULL,
                 -(a *b) / c)

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_divide(g, dy[0], n->inputs[1]);
    if (wanted[1])
        dx[1] = elementwise_build(g, &op_divide_gradient,
                                  (value *[]){dy[0], n->outputs[0], n->inputs[1]}, 3);
}

ELEMENTWISE_OP_2(divide, "a / b", 1, gradient, a / b)

value *build_divide(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_divide, (value *[]){a, b}, 2);
}
