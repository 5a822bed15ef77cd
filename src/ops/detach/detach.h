#ifndef OPS_DETACH_H
#define OPS_DETACH_H

#include "graph/graph.h"

/* The same value, through which no gradient flows. A view. */
value *build_detach(graph *g, value *a);

#endif
