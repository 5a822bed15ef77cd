/* plan_advice.h - the cheapest change that makes a step fit. */
#ifndef EXPERIMENTS_PLAN_ADVICE_H
#define EXPERIMENTS_PLAN_ADVICE_H

#include "train/step_plan.h"

typedef struct plan_advice {
    char text[160]; /* "--mode compiled --recompute mlp:2 (7.9 GiB, 1.08x the FLOPs a token)" */
} plan_advice;

/* For a step that needs more than `memory_bytes`. Changes are tried in the order of what they
 * cost: flash attention and compiled mode (nothing), recompute (FLOPs, the least that does), bf16 (digits), then
 * half the batch and half the context, again and again. Says so when none will do. Where the attention
 * was named, --mode compiled does not change it, and the advice names it, too. */
NODISCARD dyno_status plan_advice_find(const step_options *options, bool is_attention_named,
                                       int64_t memory_bytes, plan_advice *out);

#endif
