/* swap_loss_head.h - recognises the end of a language model and replaces it by the loss head. */
#ifndef COMPILER_PASSES_SWAP_LOSS_HEAD_H
#define COMPILER_PASSES_SWAP_LOSS_HEAD_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Runs after autodiff (and the passes on casts). Replaces
 *
 *   logits = matmul x W^T                     losses = loss_head_forward x W targets
 *   losses, lse = cross_entropy logits    ->
 *
 * or, where these follow,
 *
 *   dlogits = cross_entropy_gradient          losses, dx, dW = loss_head x W targets dy
 *   dx = matmul dlogits W                 ->
 *   dW = matmul dlogits^T x
 *
 * by one op in the forward, together with the nodes that compute dy. Leaves the graph alone when
 * the logits have another reader, or dy depends on the losses. How many tokens a chunk has depends
 * on the target. */
NODISCARD dyno_status swap_loss_head(graph *g, const target *chip);

#endif
