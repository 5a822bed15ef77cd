/* rematerialize.h - saves for the backward only what is expensive to recompute, and recomputes the
 * MLPs of some blocks. */
#ifndef COMPILER_PASSES_REMATERIALIZE_H
#define COMPILER_PASSES_REMATERIALIZE_H

#include "graph/graph.h"

typedef struct rematerialize_options {
    bool is_everywhere; /* all that is cheap, in every block; else in the MLPs of mlp_every alone */
    int blocks;         /* of the residual stream the input of every so many is saved */
    int mlp_every;      /* the MLPs of blocks 0, K, 2K, ... but the last run again; 0: none does */
} rematerialize_options;

/* Every saved value that element-wise ops, casts and copies alone compute from leaves and from
 * other saved values is recomputed in the backward, right before it is read, and no longer saved:
 * sigmoid and silu from the gate, a normalised row from the row and its inverse norm, attention
 * probabilities from the exponentials and their sum. Long contexts drop the exponentials too: a
 * product much larger than its operands (the scores) is cheap, with its rows' maxima saved. Of a
 * value and its cast the smaller is saved; of the residual stream the input of every `blocks`-th
 * block, and for the sums between what was added, where that is in a low type: the more blocks, the
 * less is saved and the more is read to recompute a sum. No reduction runs twice, and results are
 * bitwise the same.
 *
 * Inside the MLP of a block that `mlp_every` selects the products are cheap too: gate and up, not
 * down, whose result leaves it. Those of the last block are needed at once and stay saved; the
 * backward begins there, so that all others count the same at the peak.
 *
 * On a graph that ends with the backward, after mark_saved, which it repeats. Runs before
 * recompute_apply, so that a recomputed segment keeps as little alive. */
NODISCARD dyno_status rematerialize_apply(graph *g, const rematerialize_options *options);

#endif
