/* fuse.h - decides which nodes become one generated kernel. */
#ifndef COMPILER_PASSES_FUSE_H
#define COMPILER_PASSES_FUSE_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Groups element-wise chains and row reductions with their producers and consumers, wherever
 * they work on the same rows and columns and nothing outside lies between them. Sets node.group and
 * moves no node: schedule_groups.h does. */
NODISCARD dyno_status fuse_groups(graph *g, const target *chip);

/* Makes each node that can be generated a group of its own and moves none: how eager mode runs on a
 * target without kernels for such ops. */
NODISCARD dyno_status fuse_each(graph *g);

#endif
