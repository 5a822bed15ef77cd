/* common_subexpressions.h - computes the same thing once. */
#ifndef COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H
#define COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H

#include "graph/graph.h"

/* Of nodes of one phase with the same op, inputs and attributes, the first serves the readers of
 * all. Nodes that update in place are left alone, and so is what the backward computes: it may do
 * so again on purpose, to save memory. */
NODISCARD dyno_status common_subexpressions_merge(graph *g);

#endif
