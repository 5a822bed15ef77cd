/* limits.h - the most ranks before a way to be parallel is bound by communication (experiment 19).
 *
 * A step has B tokens in all, however many ranks share them. A rank computes at C FLOP/s and sends at
 * W(N) bytes/s (network_bandwidth). F and K are the FLOPs of the forward and of the backward over all B
 * tokens, P and G the bytes of the weights as they are gathered and of the gradients as they are sent, S the
 * bytes of the residual stream of all B tokens, L the blocks. Communication-bound is where collectives take
 * longer than what is computed meanwhile:
 *
 *   ddp      2(N-1)/N G / W > K / (N C)                   beside the backward
 *            largest N = 1 + floor(K W / (2 G C))
 *   fsdp     (N-1)/N P / W > F / (N C)                    beside the forward
 *            (N-1)/N (P+G) / W > K / (N C)                beside the backward
 *            largest N = 1 + floor(min(F W / (P C), K W / ((P+G) C)))
 *   tp       2L x 2(N-1)/N S / W > F / (N C)              two all-reduces in a block's forward; its backward
 *            largest N = 1 + floor(F W / (4 L S C))       has two as well and twice the FLOPs
 *   fsdp+tp  N = X Y, Y ranks of a group with tp, X groups with fsdp of parts of 1/Y:
 *            (X-1)/X P/Y / W + 4L (Y-1)/Y S/X / W > F / (X Y C), and likewise the backward
 *            largest X for a Y = 1 + floor((F/(Y C) - 4L (Y-1)/Y S / W(Y)) Y W(N) / P)
 *
 * W is network_bandwidth: up to the ranks of a node the bandwidth inside. Where the limit inside is not
 * reached by a whole node, the limit is that across nodes, and at least a node. */
#ifndef SIMULATE_LIMITS_H
#define SIMULATE_LIMITS_H

#include "simulate/network.h"

typedef struct limits_model {
    double forward_flops, backward_flops; /* F, K: of all tokens of a step */
    double weight_bytes, gradient_bytes;  /* P, G */
    double residual_bytes;                /* S */
    int64_t layers;                       /* L */
    double flops_a_second;                /* C: of one rank */
    int64_t heads;                        /* tp divides them: no group is larger */
} limits_model;

typedef enum limit_kind {
    LIMIT_DDP,
    LIMIT_FSDP,
    LIMIT_TP,
    LIMIT_FSDP_TP,
    LIMIT_KIND_COUNT
} limit_kind;

const char *limit_name(limit_kind kind); /* "ddp" */
/* The condition and its solution for N, as above, in one line. */
const char *limit_formula(limit_kind kind);

typedef struct limit {
    int64_t ranks; /* the most that are not bound by communication; 1: even two are */
    int64_t group; /* fsdp+tp: the ranks of a group with tp, Y; else 1 */
} limit;

/* Latency is left out: it is what the bandwidth allows. Groups with tp are powers of two. */
limit limit_find(limit_kind kind, const limits_model *m, const network *n);

#endif
