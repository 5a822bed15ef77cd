/* fold_rope_gradient.h - folds the inverse RoPE of dQ and dK into attention's gradient. */
#ifndef COMPILER_PASSES_FOLD_ROPE_GRADIENT_H
#define COMPILER_PASSES_FOLD_ROPE_GRADIENT_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Where attention itself does not rotate (fold_rope.h), its gradient still can, in its epilogue.
 * Runs after the casts around the rotation are folded. Folds, wherever the target has a kernel,
 *
 *   dQ, dK, dV = attention_gradient Q K ...        dQ, dK, dV = attention_gradient Q K ... tables
 *   x = concat of their transposes            ->   x = concat of their transposes
 *   y = inverse rope x of dQ's and dK's heads
 *
 * and y is x. What has another reader or another form is left alone. */
NODISCARD dyno_status fold_rope_gradient(graph *g, const target *chip);

#endif
