/* shard.h - weights, or what updates them, divided among ranks.
 *
 * Parameters of one block that are stored alike become one list, padded so that every rank has an equal
 * part of it:
 *
 *             whole list on every rank        this rank's part
 *   zero1     weights, sums of gradients      moments
 *   fsdp      what is being used              weights, sums of gradients, moments
 *
 * zero1: gradients are summed over ranks and scattered (reduce-scatter), each rank updates its part, and
 * the updated parts are gathered (all-gather).
 *
 * fsdp: the list of a block is gathered shortly before its first use in the forward, and again before
 * that in the backward, beside the computation of the block before; it is free after its last use. Its
 * gradients are scattered when the last of them is there, in every micro-batch. */
#ifndef COMPILER_PASSES_SHARD_H
#define COMPILER_PASSES_SHARD_H

#include "compiler/passes/parallel.h"

/* The graph's parameters are those lists from now on, and g->shards says where each of the model's is.
 * Comes behind everything that reads weights (recompute.h) and before the optimizer. */
NODISCARD dyno_status shard_parameters(graph *g, const parallel_options *options);

/* zero1: behind the optimizer, the collectives that bring its results to all ranks. */
NODISCARD dyno_status shard_gather_updates(graph *g, const parallel_options *options);

#endif
