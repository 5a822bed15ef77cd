/* mark_saved.h - gives the role saved-for-backward to values that the forward computes for later
 * phases. */
#ifndef COMPILER_PASSES_MARK_SAVED_H
#define COMPILER_PASSES_MARK_SAVED_H

#include "graph/graph.h"

/* Every activation that the forward computes and another phase reads. Run again after a pass that
 * changes the readers, it also withdraws the role where it no longer holds. */
NODISCARD dyno_status mark_saved_activations(graph *g);

#endif
