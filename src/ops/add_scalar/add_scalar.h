#ifndef OPS_ADD_SCALAR_H
#define OPS_ADD_SCALAR_H

#include "graph/graph.h"

/* a + s, s a constant. */
value *build_add_scalar(graph *g, value *a, double s);

#endif
