/* attention.h - scaled dot-product attention in small ops: inside the model, and alone.
 *
 *   B batch, T context, H query heads, K key/value heads, G = H / K query heads sharing one,
 *   S head size. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "graph/graph.h"

typedef struct attention_shape {
    int64_t batch, context, heads, kv_heads, head_dim;
} attention_shape;

/* The causal mask, made once and used by every layer. All NULL: every query sees every key. */
typedef struct attention_mask {
    value *visible; /* bool [T, T]: a query sees keys up to its own position */
    value *minus_infinity;
} attention_mask;

attention_mask build_causal_mask(graph *g, int64_t context);

/* softmax(q k^T / sqrt(S)) v for q [B, H, T, S] and k, v [B, K, T, S] of one type; the softmax is
 * f32 of any. The result is [B, K, G*T, S], in memory the same as [B, H, T, S]. */
value *build_attention(graph *g, const attention_shape *s, const attention_mask *mask, value *q,
                       value *k, value *v);

typedef struct attention_options {
    attention_shape shape;
    bool is_causal;
    bool has_gradient; /* that reaches O, as the input "dO": for those of Q, K and V */
    bool is_flash; /* the op `attention` instead of small ones: the scores never exist together */
    dtype low;     /* a low type: of Q, K, V, O and dO; anything else: they are f32 */
} attention_options;

/* Attention alone. Parameters: "Q" [B, H, T, S], "K" and "V" [B, K, T, S]. Output: "O"
 * [B, H, T, S]. With a gradient, an input more: "dO", like O, from which the backward starts. On
 * failure *out is NULL. */
NODISCARD dyno_status attention_build(const attention_options *options, graph **out);

#endif
