/* rewrite.h - helpers of passes that rewrite a graph. */
#ifndef COMPILER_PASSES_REWRITE_H
#define COMPILER_PASSES_REWRITE_H

#include "graph/graph.h"

/* Sets the attribute of that name, or adds it. */
void rewrite_set_attribute(graph *g, node *n, attribute item);

/* Infers the node's output types again, by its op's shape rule. */
NODISCARD dyno_status rewrite_infer_types(node *n);

/* Removes the marked nodes (by position); their outputs must have no readers. */
void rewrite_drop_nodes(graph *g, const bool *is_dropped);

#endif
