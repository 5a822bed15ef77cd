/* split_sums.h - a sum over all rows in two stages: partial sums over blocks of rows, which can
 * join a fused group, and a small sum over the blocks. */
#ifndef COMPILER_PASSES_SPLIT_SUMS_H
#define COMPILER_PASSES_SPLIT_SUMS_H

#include "graph/graph.h"
#include "ops/kernel.h"

NODISCARD dyno_status split_sums(graph *g, const target *chip);

/* Rows in a block of partial column sums over this many rows. Depends on nothing else but the
 * target, so that the order of the sum does not. */
int64_t split_sums_rows_per_block(int64_t rows, const target *chip);

#endif
