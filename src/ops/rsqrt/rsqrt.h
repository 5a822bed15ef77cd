#ifndef OPS_RSQRT_H
#define OPS_RSQRT_H

#include "graph/graph.h"

/* 1 / sqrt(a). */
value *build_rsqrt(graph *g, value *a);

#endif
