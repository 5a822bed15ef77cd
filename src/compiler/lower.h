/* lower.h - from graph to plan, for eager execution. */
#ifndef COMPILER_LOWER_H
#define COMPILER_LOWER_H

#include "graph/graph.h"
#include "ops/kernel.h"
#include "plan/plan.h"

/* One launch for each node, in the graph's order; nodes that are views of their input's memory
 * launch nothing. The plan keeps no reference to the graph. On failure *out is NULL and the
 * message says, for each kernel of the op, why it declined. */
NODISCARD dyno_status lower_eager(const graph *g, backend target, plan **out);

#endif
