#ifndef OPS_LOG_H
#define OPS_LOG_H

#include "graph/graph.h"

/* The natural logarithm. */
value *build_log(graph *g, value *a);

#endif
