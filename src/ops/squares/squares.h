/* squares.h - sums of squares that are exact, so that they have the same bits however their terms are
 * divided among threads, ranks and shards.
 *
 * The square of a float is an integer below 2^48 times a power of two that follows from the float's
 * exponent. A sum of squares is kept as one integer for each exponent, in SQUARES_LIMBS limbs of 32
 * bits; each limb is a whole number in a double:
 *
 *   the sum = over exponents e from 1 to 254 of (limb0 + limb1 2^32 + limb2 2^64) 2^(2 (e - 150))
 *
 * Place 0 counts terms that are NaN (limb 0) and infinite (limb 1). */
#ifndef OPS_SQUARES_H
#define OPS_SQUARES_H

#include "graph/graph.h"
#include "ops/squares/squares_layout.h"

/* The sum of the squares of all elements of the values (f32, bf16, f16), f64[SQUARES_LENGTH]. */
value *build_squares(graph *g, value *const *values, int count);

/* The root of one or several such sums together, an f32 scalar: `sums` is f64[k * SQUARES_LENGTH]. */
value *build_root_of_squares(graph *g, value *sums);

#endif
