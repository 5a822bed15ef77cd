#ifndef OPS_SELECT_H
#define OPS_SELECT_H

#include "graph/graph.h"

/* mask ? a : b, of equal shapes; the mask is bool. */
value *build_select(graph *g, value *mask, value *a, value *b);

#endif
