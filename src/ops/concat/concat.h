#ifndef OPS_CONCAT_H
#define OPS_CONCAT_H

#include "graph/graph.h"

/* Values laid side by side along a dimension; they agree in all others. Lowering has what makes
 * them write straight to their place where it can (compiler/lower/lower_place.h), and then nothing is
 * copied. */
value *build_concat(graph *g, value *const *pieces, int count, int axis);

#endif
