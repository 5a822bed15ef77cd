#ifndef OPS_ROPE_H
#define OPS_ROPE_H

#include "graph/graph.h"

/* Rotary position embedding, the half-split form of Hugging Face's Llama: in each row of
 * x[..., T, D], element j < D/2 and its partner j + D/2 are rotated by the angle
 * t * theta^(-2j/D), t being the row's position. */

/* cos and sin of the angles, f32[T, D/2] each. */
typedef struct rope_table {
    value *cos, *sin;
} rope_table;
rope_table build_rope_table(graph *g, int64_t length, int64_t head_dim, double theta);

/* `inverse` rotates back, which is also the gradient. */
value *build_rope(graph *g, value *x, rope_table table, bool inverse);
/* The same for x[..., T, H, D], as products of all heads lie: of each position's H rows the first
 * `heads` are rotated, the others pass. 0 heads: as above. */
value *build_rope_heads(graph *g, value *x, rope_table table, bool inverse, int64_t heads);

#endif
