#include "ops/exp/exp.h"

#include "ops/elementwise.h"
#include "ops/multiply/multiply.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_multiply(g, dy[0], n->outputs[0]);
}

/* FLOPs: transcendental functions count as one, as every tool of the field counts them. */
ELEMENTWISE_OP_1(exp, "e to the power a", 1, gradient, EXP(a))

value *build_exp(graph *g, value *a) { return elementwise_build(g, &op_exp, &a, 1); }
