#ifndef OPS_SPLIT_H
#define OPS_SPLIT_H

#include "graph/graph.h"

/* Splits a value along a dimension, in order. Always views. Returns the first part; the others are
 * outputs of its producer. At most 6 sizes, which add up to that of the dimension. */
value *build_split(graph *g, value *a, int axis, const shape *sizes);
/* Splits into any number of equal parts. */
value *build_split_evenly(graph *g, value *a, int axis, int64_t parts);

#endif
