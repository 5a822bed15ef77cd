#ifndef OPS_FILL_H
#define OPS_FILL_H

#include "graph/graph.h"

/* A scalar constant. */
value *build_fill(graph *g, dtype type, double number);

#endif
