/* weight_views.h - views of weights for the backward alone.
 *
 * A view of weights that the forward makes and the backward reads, such as the weight of a norm broadcast
 * to all rows, would keep the forward's copy of the weights alive until then. */
#ifndef COMPILER_PASSES_WEIGHT_VIEWS_H
#define COMPILER_PASSES_WEIGHT_VIEWS_H

#include "graph/graph.h"

/* The backward reads views of its own, made right before their first use. */
void weight_views_separate(graph *g);

#endif
