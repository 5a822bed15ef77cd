#ifndef OPS_CROSS_ENTROPY_H
#define OPS_CROSS_ENTROPY_H

#include "graph/graph.h"

/* Softmax cross-entropy of each row: logits[N, V], targets i32[N] -> loss[N] and the rows'
 * log-sum-exp[N], which the gradient uses. */
value *build_cross_entropy(graph *g, value *logits, value *targets);

#endif
