#ifndef OPS_CAST_H
#define OPS_CAST_H

#include "graph/graph.h"

/* The same numbers in another element type, rounded to nearest even. */
value *build_cast(graph *g, value *a, dtype type);

#endif
