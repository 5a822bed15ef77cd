/* swap_attention.h - recognises attention written in small ops and swaps it for the op. */
#ifndef COMPILER_PASSES_SWAP_ATTENTION_H
#define COMPILER_PASSES_SWAP_ATTENTION_H

#include "graph/graph.h"

/* Comes before autodiff, so that the op's gradient rule makes the backward. Swaps, wherever it is,
 *
 *   scores = scale (matmul Q K^T)
 *   seen = select causal scores -infinity    (or scores, where nothing is hidden)
 *   P = softmax seen: max, subtract, exp, sum, divide        ->   O, LSE = attention Q K V
 *   O = matmul P V
 *
 * with the casts and reshapes between them, and drops what nobody reads any more. The new node has
 * the scope "flash" beside those of the old ones. Attention of which anybody reads anything else,
 * and what looks different, is left as it is. */
NODISCARD dyno_status swap_attention(graph *g);

#endif
