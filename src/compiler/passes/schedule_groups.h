/* schedule_groups.h - orders nodes so that each fused group can be one launch. */
#ifndef COMPILER_PASSES_SCHEDULE_GROUPS_H
#define COMPILER_PASSES_SCHEDULE_GROUPS_H

#include "graph/graph.h"

/* Orders the nodes so that a group's members are adjacent (views between them aside) behind all
 * that any of them reads from outside, and numbers the groups from 1. Runs after grouping. */
NODISCARD dyno_status schedule_groups(graph *g);

#endif
