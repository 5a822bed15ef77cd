#ifndef OPS_ADD_H
#define OPS_ADD_H

#include "graph/graph.h"

/* a + b, of equal shapes. */
value *build_add(graph *g, value *a, value *b);

#endif
