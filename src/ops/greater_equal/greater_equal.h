#ifndef OPS_GREATER_EQUAL_H
#define OPS_GREATER_EQUAL_H

#include "graph/graph.h"

/* a >= b, as bool. */
value *build_greater_equal(graph *g, value *a, value *b);

#endif
