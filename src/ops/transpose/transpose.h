#ifndef OPS_TRANSPOSE_H
#define OPS_TRANSPOSE_H

#include "graph/graph.h"

/* Dimensions reordered: output dimension i is input dimension order[i]. Always a view. */
value *build_transpose(graph *g, value *a, const shape *order);

#endif
