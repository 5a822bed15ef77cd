/* low_copies.h - weights in the low type that live across steps instead of being cast in each.
 *
 * A low copy of parameter P is a leaf of the role parameter, in the low type, named "low.P". It
 * always holds P rounded: whoever initializes P fills it (train/split_weights.h), and the optimizer
 * writes it in the launch that updates P. It has no gradient of its own: this pass runs after
 * autodiff, which has seen the cast.
 *
 * A parameter that is only read through its bf16 copy need not be stored twice: P is then split
 * into "low.P" and its low 16 bits, the leaf "rest.P" in u16 (ops/adamw/split_weight.h). */
#ifndef COMPILER_PASSES_LOW_COPIES_H
#define COMPILER_PASSES_LOW_COPIES_H

#include "graph/graph.h"

/* Every cast of a parameter to bf16 or f16 becomes a leaf. */
NODISCARD dyno_status low_copies_bind(graph *g);
/* Splits every parameter that has a bf16 copy and that no node reads. Its leaf stays the leaf of
 * the parameter, under the name and in the type of the rest. */
void low_copies_split(graph *g);

#endif
