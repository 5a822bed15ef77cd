#ifndef OPS_MULTIPLY_H
#define OPS_MULTIPLY_H

#include "graph/graph.h"

/* a * b, of equal shapes. */
value *build_multiply(graph *g, value *a, value *b);

#endif
