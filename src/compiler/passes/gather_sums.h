/* gather_sums.h - the second stages of column sums, several in one launch.
 *
 * A sum over all rows has two stages: over the rows of each block, which is fused into other
 * kernels, and over blocks, a launch of its own for a few thousand numbers (split_sums.h). Where
 * the results are not needed at once, up to eight of these launches become one:
 *
 *   a = sum [P, C]                 all = sum (concat, as [8, 1, P, C]) over P
 *   ...                   ==>      a, ... = split all
 *   h = sum [P, C]
 *
 * which runs where the last of them did. */
#ifndef COMPILER_PASSES_GATHER_SUMS_H
#define COMPILER_PASSES_GATHER_SUMS_H

#include "graph/graph.h"

/* Comes after the sums have been split, before nodes are grouped. */
void gather_sums(graph *g);

#endif
