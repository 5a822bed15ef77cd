#ifndef OPS_SUBTRACT_H
#define OPS_SUBTRACT_H

#include "graph/graph.h"

/* a - b, of equal shapes. */
value *build_subtract(graph *g, value *a, value *b);

#endif
