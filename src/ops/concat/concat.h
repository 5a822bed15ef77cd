#ifndef OPS_CONCAT_H
#define OPS_CONCAT_H

#include "graph/graph.h"

/* Concatenates values along a dimension; they agree in all others. Lowering has them produced in
 * place where it can (compiler/lower/lower_place.h), and then nothing is copied. */
value *build_concat(graph *g, value *const *pieces, int count, int axis);

#endif
