/* plan_advice.h - what makes a step fit that does not. */
#ifndef EXPERIMENTS_PLAN_ADVICE_H
#define EXPERIMENTS_PLAN_ADVICE_H

#include "experiments/step_estimate.h"

typedef struct plan_advice {
    char text[320]; /* "--mode compiled --recompute mlp:2 (7.9 GiB, 1.08x the FLOPs a token)" */
} plan_advice;

/* For a step that needs more than `memory_bytes`. Changes are tried in the order of what they give up:
 * flash attention and compiled mode (nothing), recompute (time, the least that does), bf16 (digits), then
 * half the batch and half the context, again and again. Says so when none will do, and over how many
 * chips which step would fit. Where the attention was named, --mode compiled does not change it, and the advice
 * names it, too. */
NODISCARD dyno_status plan_advice_find(const step_options *options, bool is_attention_named,
                                       int64_t memory_bytes, plan_advice *out);

/* The least number of ranks, by doubling what there are (from 2 on), on each of which the step fits with
 * weights, gradients and state sharded; `needs` are then those of one. 0 where not even the most do. */
NODISCARD dyno_status plan_advice_find_ranks(const step_options *options, int64_t memory_bytes,
                                             int64_t *ranks, step_needs *needs);

#endif
