/* reemit.h - what the passes that recompute forward values in the backward share. */
#ifndef COMPILER_PASSES_REEMIT_H
#define COMPILER_PASSES_REEMIT_H

#include "graph/graph.h"

/* Adds, at the end of the graph, a node like `n` that belongs to the backward and reads `inputs`
 * instead. Same op, attributes and scope, so the same kernel and bitwise the same result. */
node *reemit_node(graph *g, const node *n, value *const *inputs);

#endif
