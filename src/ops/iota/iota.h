#ifndef OPS_IOTA_H
#define OPS_IOTA_H

#include "graph/graph.h"

/* 0, 1, 2, ... length-1 as i32[length]. */
value *build_iota(graph *g, int64_t length);

#endif
