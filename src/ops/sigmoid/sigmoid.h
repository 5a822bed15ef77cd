#ifndef OPS_SIGMOID_H
#define OPS_SIGMOID_H

#include "graph/graph.h"

/* 1 / (1 + e^-a). */
value *build_sigmoid(graph *g, value *a);

#endif
