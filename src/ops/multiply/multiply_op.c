#include "ops/multiply/multiply.h"

#include "ops/elementwise.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            dx[i] = build_multiply(g, dy[0], n->inputs[1 - i]);
}

ELEMENTWISE_OP_2(multiply, "a * b", 1, gradient, a *b)

value *build_multiply(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_multiply, (value *[]){a, b}, 2);
}
