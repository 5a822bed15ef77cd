#ifndef OPS_EXP_H
#define OPS_EXP_H

#include "graph/graph.h"

/* e to the power a. */
value *build_exp(graph *g, value *a);

#endif
