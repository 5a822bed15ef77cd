#ifndef OPS_SLICE_H
#define OPS_SLICE_H

#include "graph/graph.h"

/* The elements of a list [n] from `offset` on, in this shape; a view. */
value *build_slice(graph *g, value *list, int64_t offset, const shape *s);

#endif
