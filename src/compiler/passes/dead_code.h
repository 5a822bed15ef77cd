/* dead_code.h - dead code elimination. */
#ifndef COMPILER_PASSES_DEAD_CODE_H
#define COMPILER_PASSES_DEAD_CODE_H

#include "graph/graph.h"

/* Keeps what outputs, gradients and in-place updates depend on. */
NODISCARD dyno_status dead_code_drop(graph *g);

#endif
