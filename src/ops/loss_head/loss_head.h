/* loss_head.h - the last product and the cross-entropy of a language model as one op, a chunk of
 * tokens at a time: all logits [N, V] never exist together.
 *
 *   logits[C, V] = x[C, D] W[V, D]^T      in the workspace, C rows of the N
 *   losses[C]    = log-sum-exp(logits) - logits[target]
 *   dlogits      = (softmax(logits) - onehot(target)) dy, over the logits; bf16 where x is that
 *   dx[C, D]     = dlogits W              dW[V, D] += dlogits^T x
 *
 * The gradient of the losses, dy[N], must be known before they are: that of a mean is. */
#ifndef OPS_LOSS_HEAD_H
#define OPS_LOSS_HEAD_H

#include "graph/graph.h"
#include "ops/kernel.h"

/* x[N, D] and weight[V, D] of one type, f32 or low; targets i32[N]; dy f32[N]. Returns losses
 * f32[N]; outputs 1 and 2 of its producer are dx[N, D] and dW[V, D], each in f32 or in the type of
 * x. A kernel takes a dW in a low type only where it need not add up chunks in it. dx may lie over
 * x: a chunk's is written when its x has been read for the last time. */
value *build_loss_head(graph *g, value *x, value *weight, value *targets, value *dy, int64_t chunk,
                       dtype dx_type, dtype dw_type);

/* Losses alone. */
value *build_loss_head_forward(graph *g, value *x, value *weight, value *targets, int64_t chunk);

/* Tokens in a chunk: so many that their logits take between 4 and 8 MiB, which stays near the
 * cores, but at least 512: with fewer, reading W and adding to dW for every chunk takes longer than
 * the logits cost that leave the caches. */
int64_t loss_head_chunk(int64_t tokens, int64_t vocab);

/* On a GPU, which products of few rows do not fill: so many that their logits, kept in the type of
 * x, take up to 80 MiB (4096 tokens of a vocabulary of 10,000 in bf16), but at least 1024: with
 * fewer, reading and writing dW for every chunk takes longer than the products. */
int64_t loss_head_chunk_cuda(int64_t tokens, int64_t vocab, dtype type);

extern const kernel loss_head_chunked, loss_head_forward_chunked; /* loss_head_chunked.c */

/* loss_head_reference.c */
void loss_head_reference(const node *n, const double *const *inputs, double *const *outputs);

#endif
