#include "ops/mean/mean.h"

#include "ops/broadcast/broadcast.h"
#include "ops/reduction.h"
#include "ops/scale/scale.h"

/* Scaled before it is broadcast: it is smaller then. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_broadcast(g, build_scale(g, dy[0], 1.0 / (double)reduction_length(n)),
                                &n->inputs[0]->shape);
}

REDUCTION_OP(mean, REDUCTION_MEAN, "mean over axes", gradient)
