/* accumulate.h - makes a step of several micro-batches, or of several ranks, out of the graph of one
 * micro-batch. */
#ifndef COMPILER_PASSES_ACCUMULATE_H
#define COMPILER_PASSES_ACCUMULATE_H

#include "graph/graph.h"

/* The part of a step that the graph computes at a time. */
typedef struct step_part {
    int64_t micro_batches; /* of this rank */
    int64_t ranks;
    bool is_sharded; /* gradients are left to shard.h; only the loss is summed here */
} step_part;

/* 1 over the number of micro-batches of all ranks: what a micro-batch's mean contributes to the mean
 * of the step. The backward starts from it (autodiff.h), so that gradients need only be added up. */
double step_part_share(const step_part *part);

/* Every gradient of a parameter is added to a persistent sum in f32 ("sum.P"), as soon as it is there,
 * and the parameter's gradient is that sum from now on. The output "loss" becomes the sum of the
 * micro-batches' shares of it. With several micro-batches, inputs that have dimensions hold the rows
 * of all of them, and forward and backward read those of the one being computed.
 *
 * With one rank the sums are complete behind the last micro-batch; collectives over ranks come behind
 * the nodes that this adds. */
NODISCARD dyno_status accumulate_gradients(graph *g, const step_part *part);

#endif
