/* fold_rope.h - lets attention rotate queries and keys itself. */
#ifndef COMPILER_PASSES_FOLD_ROPE_H
#define COMPILER_PASSES_FOLD_ROPE_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Runs after attention is one op and before autodiff, so that the op's gradient rule applies the
 * inverse RoPE to the gradients. Folds, wherever the target has kernels that rotate,
 *
 *   Q = rope X, K = rope Y by the same tables           ->   O, LSE = attention X Y V, tables
 *   O, LSE = attention Q K V
 *
 * where X and Y are heads of their own, or Q, K and V are slices of one rope that rotates Q's and
 * K's heads and passes V's through (merge_products.h). Casts of a low type to f32 for the rotation
 * and back are folded with it: kernels rotate in f32 and round once. A rotation with another
 * reader, or in another form, is left alone. */
NODISCARD dyno_status fold_rope(graph *g, const target *chip);

#endif
