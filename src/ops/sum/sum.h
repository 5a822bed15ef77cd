#ifndef OPS_SUM_H
#define OPS_SUM_H

#include "graph/graph.h"

/* The sum over `axes` (rising), which stay as dimensions of size 1. */
value *build_sum(graph *g, value *a, const shape *axes);

#endif
