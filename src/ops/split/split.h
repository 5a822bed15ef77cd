#ifndef OPS_SPLIT_H
#define OPS_SPLIT_H

#include "graph/graph.h"

/* A value cut into pieces along a dimension, in order. Always views. Returns the first; the others
 * are its producer's outputs. At most 6 sizes, which add up to the dimension's. */
value *build_split(graph *g, value *a, int axis, const shape *sizes);
/* Into any number of equal pieces. */
value *build_split_evenly(graph *g, value *a, int axis, int64_t parts);

#endif
