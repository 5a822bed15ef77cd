#ifndef OPS_MAX_H
#define OPS_MAX_H

#include "graph/graph.h"

/* The largest over `axes` (rising), which stay as dimensions of size 1. */
value *build_max(graph *g, value *a, const shape *axes);

#endif
