#ifndef OPS_GATHER_H
#define OPS_GATHER_H

#include "graph/graph.h"

/* Rows of table[V, D] chosen by ids (i32, any shape): result [ids..., D]. */
value *build_gather(graph *g, value *table, value *ids);

#endif
