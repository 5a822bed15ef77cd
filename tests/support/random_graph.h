/* random_graph.h - forward graphs for code generators: element-wise chains with row reductions,
 * broadcasts, casts and transposes between them, whose numbers stay of moderate size. */
#ifndef TESTS_SUPPORT_RANDOM_GRAPH_H
#define TESTS_SUPPORT_RANDOM_GRAPH_H

#include "graph/graph.h"
#include "support/draw.h"

/* Adds an island of its own to the graph. Leaves are f32, named "xI.0", "xI.1", ... for island I,
 * outputs "yI.0", ...; their number is returned. Rows and columns are of the draw's budget.
 * `has_low` lets values be rounded to bf16 and f16 on their way. */
int random_graph_add(graph *g, draw *d, bool has_low, int island);

#endif
