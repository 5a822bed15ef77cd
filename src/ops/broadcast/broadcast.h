#ifndef OPS_BROADCAST_H
#define OPS_BROADCAST_H

#include "graph/graph.h"

/* Repeats dimensions of size 1 to the sizes of `s` (of equal rank). Always a view. */
value *build_broadcast(graph *g, value *a, const shape *s);
/* A scalar repeated to any shape. */
value *build_broadcast_scalar(graph *g, value *a, const shape *s);

#endif
