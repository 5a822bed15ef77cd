/* swap_loss_head.h - recognises the end of a language model and swaps it for the loss head. */
#ifndef COMPILER_PASSES_SWAP_LOSS_HEAD_H
#define COMPILER_PASSES_SWAP_LOSS_HEAD_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* Comes after autodiff (and the passes on casts). Swaps
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
 * the whole of it into the forward, together with the nodes that make dy. Leaves the graph as it
 * is when anybody else reads the logits, or dy depends on the losses. How many tokens a chunk has
 * depends on the target. */
NODISCARD dyno_status swap_loss_head(graph *g, const target *chip);

#endif
