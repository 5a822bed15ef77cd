#include "ops/log/log.h"

#include "ops/divide/divide.h"
#include "ops/elementwise.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_divide(g, dy[0], n->inputs[0]);
}

ELEMENTWISE_OP_1(log, "natural logarithm of a", 1, gradient, LOG(a))

value *build_log(graph *g, value *a) { return elementwise_build(g, &op_log, &a, 1); }
