#ifndef OPS_SCATTER_ADD_H
#define OPS_SCATTER_ADD_H

#include "graph/graph.h"

/* A zero table of `rows` rows, to which row i of x[ids..., D] is added at ids[i]: gather's
 * gradient. */
value *build_scatter_add(graph *g, value *ids, value *x, int64_t rows);

#endif
