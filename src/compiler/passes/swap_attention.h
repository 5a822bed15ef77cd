/* swap_attention.h - recognises attention written in small ops and replaces it by the op. */
#ifndef COMPILER_PASSES_SWAP_ATTENTION_H
#define COMPILER_PASSES_SWAP_ATTENTION_H

#include "graph/graph.h"

/* Runs before autodiff, so that the op's gradient rule makes the backward. Replaces
 *
 *   scores = scale (matmul Q K^T)
 *   seen = select causal scores -infinity    (or scores, where nothing is masked)
 *   P = softmax seen: max, subtract, exp, sum, divide        ->   O, LSE = attention Q K V
 *   O = matmul P V
 *
 * with the casts and reshapes between them, and drops nodes without readers. The new node has the
 * scope "flash" beside those of the old ones. Attention whose intermediate values have other
 * readers, or in another form, is left alone. */
NODISCARD dyno_status swap_attention(graph *g);

#endif
