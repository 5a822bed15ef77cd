/* mark_saved.h - gives the role saved-for-backward to what the forward leaves for later. */
#ifndef COMPILER_PASSES_MARK_SAVED_H
#define COMPILER_PASSES_MARK_SAVED_H

#include "graph/graph.h"

/* Every activation that the forward makes and another phase reads. Called again after a pass that
 * changes who reads what, it takes the role back where it no longer holds. */
NODISCARD dyno_status mark_saved_activations(graph *g);

#endif
