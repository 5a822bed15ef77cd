/* fold_casts.h - removes casts that need not be launched. */
#ifndef COMPILER_PASSES_FOLD_CASTS_H
#define COMPILER_PASSES_FOLD_CASTS_H

#include "graph/graph.h"

/* Four rules, for compiled mode; eager mode launches every cast, as autocast does:
 *   - a cast to the type its input has is its input;
 *   - a low type cast to f32 and back is itself (f32 through a low type and back is not);
 *   - a product in a low type that is only ever cast to f32 to be a parameter's gradient is that
 *     gradient, in the low type. Where `are_gradients_full`, or where the gradient is an output, it
 *     gives f32 at once instead: it has its sums in f32 anyway. Other products stay in the low
 *     type: their casts are free inside a generated kernel, and half the bytes go through memory;
 *   - a rotation (rope) between casts from and to a low type rotates that type. */
NODISCARD dyno_status fold_casts(graph *g, bool are_gradients_full);

#endif
