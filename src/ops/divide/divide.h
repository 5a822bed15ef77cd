#ifndef OPS_DIVIDE_H
#define OPS_DIVIDE_H

#include "graph/graph.h"

/* a / b, of equal shapes. */
value *build_divide(graph *g, value *a, value *b);

#endif
