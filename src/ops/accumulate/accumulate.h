#ifndef OPS_ACCUMULATE_H
#define OPS_ACCUMULATE_H

#include "graph/graph.h"

/* Adds `term` (f32, bf16 or f16, widened) to `sum`, an f32 leaf of the same shape, in place. In the
 * first micro-batch of a step (launch_context.repetition 0) the sum becomes the term itself: nothing
 * has to be cleared, and the result has the bits of ((t0 + t1) + t2) + ..., which is also what
 * collectives compute over ranks. */
value *build_accumulate(graph *g, value *sum, value *term);

#endif
