/* gather_sums.h - the last halves of sums of columns, several in one launch.
 *
 * A sum over all rows is split in two: over the rows of each block, which other kernels do on the
 * way, and over blocks, a launch of its own for a few thousand numbers (split_sums.h). Where nobody is in
 * a hurry for the results, up to eight of these launches become one:
 *
 *   a = sum [P, C]                 all = sum (concat, as [8, 1, P, C]) over P
 *   ...                   ==>      a, ... = split all
 *   h = sum [P, C]
 *
 * which stands where the last of them stood. */
#ifndef COMPILER_PASSES_GATHER_SUMS_H
#define COMPILER_PASSES_GATHER_SUMS_H

#include "graph/graph.h"

/* Comes after the sums have been split, before nodes are grouped. */
void gather_sums(graph *g);

#endif
