#ifndef OPS_MICRO_BATCH_H
#define OPS_MICRO_BATCH_H

#include "graph/graph.h"

/* The rows of a step's input, a leaf, that the micro-batch being computed reads: its first
 * dimension is divided into `count` equal parts, micro-batch a sees part a. A view; the forward and
 * the backward of its graph run `count` times (plan.micro_batches). */
value *build_micro_batch(graph *g, value *all, int64_t count);

#endif
