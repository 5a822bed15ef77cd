#include "ops/sigmoid/sigmoid.h"

#include "ops/elementwise.h"

/* From the result y: a is dy, b is y. */
ELEMENTWISE_OP_2(sigmoid_gradient, "a * b * (1 - b), sigmoid's gradient", 3, NULL, a *b *(1 - b))

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = elementwise_build(g, &op_sigmoid_gradient, (value *[]){dy[0], n->outputs[0]}, 2);
}

ELEMENTWISE_OP_1(sigmoid, "1 / (1 + e^-a)", 4, gradient, 1 / (1 + EXP(-a)))

value *build_sigmoid(graph *g, value *a) { return elementwise_build(g, &op_sigmoid, &a, 1); }
