#ifndef OPS_SCALE_H
#define OPS_SCALE_H

#include "graph/graph.h"

/* a * s, s a constant. */
value *build_scale(graph *g, value *a, double s);

#endif
