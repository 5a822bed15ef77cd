/* repeat_sums.h - sums of the residual stream that are recomputed rather than written and read.
 *
 *   group A: h = x + cast o; norm of h          group A: norm of (x + cast o)
 *   ...                                   ==>   ...
 *   group B: y = h + cast d; norm of y          group B: y = (x + cast o) + cast d; norm of y
 *
 * x and o are in memory and stay there: writing h and reading it is 8 bytes an element, reading x
 * and o a second time 6. */
#ifndef COMPILER_PASSES_REPEAT_SUMS_H
#define COMPILER_PASSES_REPEAT_SUMS_H

#include "graph/graph.h"

/* Runs between grouping and scheduling: the additions join the group that reads them. Forward only,
 * and only where o is saved, so that no lifetime grows but that of one sum at a time. */
void repeat_sums(graph *g);

#endif
