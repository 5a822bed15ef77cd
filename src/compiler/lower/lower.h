/* lower.h - from graph to plan. */
#ifndef COMPILER_LOWER_LOWER_H
#define COMPILER_LOWER_LOWER_H

#include "graph/graph.h"
#include "ops/kernel.h"
#include "plan/plan.h"

/* One launch for each node or fused group, in the graph's order; nodes that are views of their
 * input's memory launch nothing. The plan keeps no reference to the graph. On failure *out is NULL
 * and the message says, for each kernel of the op, why it declined. */
NODISCARD dyno_status lower_graph(const graph *g, const target *chip, plan **out);

/* The same, with values produced directly where a concat or a reshape wants them (lower_place.h).
 * */
NODISCARD dyno_status lower_graph_placed(const graph *g, const target *chip, plan **out);

/* Assigns updates of weights that precede other work to stream 1 (plan_launch.stream), and extends
 * the lifetimes of what they use accordingly. Runs before the memory is planned. */
void lower_streams(plan *p);

#endif
