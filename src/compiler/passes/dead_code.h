/* dead_code.h - drops nodes that nothing needs. */
#ifndef COMPILER_PASSES_DEAD_CODE_H
#define COMPILER_PASSES_DEAD_CODE_H

#include "graph/graph.h"

/* Keeps what outputs, gradients and updates in place depend on. */
NODISCARD dyno_status dead_code_drop(graph *g);

#endif
