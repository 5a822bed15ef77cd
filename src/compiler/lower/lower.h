/* lower.h - from graph to plan. */
#ifndef COMPILER_LOWER_LOWER_H
#define COMPILER_LOWER_LOWER_H

#include "compiler/lower/choose_kernel.h"
#include "graph/graph.h"
#include "plan/plan.h"

/* One launch for each node or fused group, in the graph's order; nodes that are views of their
 * input's memory launch nothing. The plan keeps no reference to the graph. On failure *out is NULL
 * and the message says, for each kernel of the op, why it declined. */
NODISCARD dyno_status lower_graph(const graph *g, const target *chip, plan **out);

typedef struct lower_options {
    bool is_placed;                /* values are produced where a concat or a reshape wants them */
    const kernel_options *kernels; /* NULL: every op's first kernel that takes the operands */
} lower_options;
NODISCARD dyno_status lower_graph_with(const graph *g, const target *chip,
                                       const lower_options *options, plan **out);

/* Assigns updates of weights that precede other work to stream 1 (plan_launch.stream), and extends
 * the lifetimes of what they use accordingly. Runs before the memory is planned. */
void lower_streams(plan *p);

/* Moves collectives that may run beside other launches to PLAN_STREAM_COMMUNICATION, and extends the
 * lifetimes of what they use. Runs before the memory is planned. */
void lower_overlap(plan *p);

#endif
