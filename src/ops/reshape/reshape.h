#ifndef OPS_RESHAPE_H
#define OPS_RESHAPE_H

#include "graph/graph.h"

/* The same elements in row-major order under another shape. A view of its input's memory where
 * strides can express it, else a copy. */
value *build_reshape(graph *g, value *a, const shape *s);

#endif
