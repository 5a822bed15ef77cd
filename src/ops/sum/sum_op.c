#include "ops/sum/sum.h"

#include "ops/broadcast/broadcast.h"
#include "ops/reduction.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_broadcast(g, dy[0], &n->inputs[0]->shape);
}

REDUCTION_OP(sum, REDUCTION_SUM, "sum over axes", gradient)
