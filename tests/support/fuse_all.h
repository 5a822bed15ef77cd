/* fuse_all.h - the passes that make fused groups, one after the other. */
#ifndef TESTS_SUPPORT_FUSE_ALL_H
#define TESTS_SUPPORT_FUSE_ALL_H

#include "graph/graph.h"
#include "ops/kernel.h"

NODISCARD dyno_status fuse_all(graph *g, const target *chip);

#endif
