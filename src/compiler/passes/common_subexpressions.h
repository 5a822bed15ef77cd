/* common_subexpressions.h - common subexpression elimination. */
#ifndef COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H
#define COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H

#include "graph/graph.h"

/* Of nodes of one phase with the same op, inputs and attributes, the first replaces all. In-place
 * nodes are left alone, and so is what the backward computes: it may recompute on purpose, to save
 * memory. */
NODISCARD dyno_status common_subexpressions_merge(graph *g);

#endif
