/* low_copies.h - weights in the low type that live across steps instead of being cast in each.
 *
 * A low copy of parameter P is a leaf of the role parameter, in the low type, named "low.P". It
 * always holds P rounded: whoever gives P its first value fills it (weights_fill_low_copies), and
 * the optimizer writes it in the launch that updates P. It has no gradient of its own: this pass
 * comes after autodiff, which has seen the cast. */
#ifndef COMPILER_LOW_COPIES_H
#define COMPILER_LOW_COPIES_H

#include "graph/graph.h"

#define LOW_COPY_PREFIX "low."

/* Every cast of a parameter to bf16 or f16 becomes a leaf. */
NODISCARD dyno_status low_copies_bind(graph *g);

bool low_copy_is(const value *v);
/* The low copy of a parameter, NULL when it has none. */
value *low_copy_find(const graph *g, const value *parameter);

#endif
