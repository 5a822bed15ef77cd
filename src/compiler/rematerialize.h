/* rematerialize.h - saves for the backward only what element-wise work cannot bring back. */
#ifndef COMPILER_REMATERIALIZE_H
#define COMPILER_REMATERIALIZE_H

#include "graph/graph.h"

/* Every saved value that element-wise ops, casts and copies alone make from leaves and from other
 * saved values is computed again in the backward, right before it is read, and no longer saved:
 * sigmoid and silu from the gate, a normalised row from the row and its inverse norm, attention
 * probabilities from the exponentials and their sum. Nothing is saved that was not before, no
 * reduction or matrix product runs twice, and results are bitwise the same.
 *
 * On a graph that ends with the backward, saved values marked. Marks them anew. */
NODISCARD dyno_status rematerialize_elementwise(graph *g);

#endif
