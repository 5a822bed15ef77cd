/* fuse.h - decides which nodes become one generated kernel. */
#ifndef COMPILER_PASSES_FUSE_H
#define COMPILER_PASSES_FUSE_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Groups element-wise chains and row reductions with their producers and consumers, wherever
 * they work on the same rows and columns and nothing outside lies between them. Sets node.group
 * and orders the nodes so that a group's members stand together (views between them aside).
 * Column sums are first split into partial sums over blocks of rows, which can join a group, and
 * a small sum over the blocks. */
NODISCARD dyno_status fuse_groups(graph *g, const target *chip);

/* Makes each node that can be generated a group of its own and moves none: what a backend without
 * kernels for such ops runs in eager mode. */
NODISCARD dyno_status fuse_each(graph *g);

/* Rows in a block of partial column sums over this many rows. Depends on nothing else but the
 * target, so that the order of the sum does not. */
int64_t fuse_rows_per_block(int64_t rows, const target *chip);

#endif
