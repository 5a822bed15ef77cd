#ifndef OPS_MEAN_H
#define OPS_MEAN_H

#include "graph/graph.h"

/* The mean over `axes` (rising), which stay as dimensions of size 1. */
value *build_mean(graph *g, value *a, const shape *axes);

#endif
