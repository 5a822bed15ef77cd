#ifndef OPS_EQUAL_H
#define OPS_EQUAL_H

#include "graph/graph.h"

/* a == b, as bool. */
value *build_equal(graph *g, value *a, value *b);

#endif
