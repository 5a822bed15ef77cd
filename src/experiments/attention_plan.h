/* attention_plan.h - from the sizes of attention to the plan of computing it alone. */
#ifndef EXPERIMENTS_ATTENTION_PLAN_H
#define EXPERIMENTS_ATTENTION_PLAN_H

#include "compiler/pipeline.h"
#include "model/attention.h"
#include "runtime/executor.h"

typedef struct attention_plan_options {
    attention_shape shape;
    bool is_causal;
    step_extent extent; /* there is nothing to optimize */
    step_mode mode;
    precision precision; /* bf16 and fp16: Q, K, V, O, dO and the gradients are of that type */
    const target *target;
    const char *forward, *backward; /* kernels wanted of flash attention, or NULL */
    const kernel_tuning *tuning;    /* NULL: nothing is known of the device */
} attention_plan_options;

/* As the model computes it: the scores exist, and stay for the backward. Leaves and outputs are
 * those of attention_build; the gradients are "g.Q", "g.K" and "g.V". On failure *out is NULL. */
NODISCARD dyno_status attention_plan_naive(const attention_plan_options *options, plan **out);
/* The same as one op each way: what stays for the backward is O and LSE. */
NODISCARD dyno_status attention_plan_flash(const attention_plan_options *options, plan **out);

/* Draws Q, K, V and, where the plan has it, dO: normal numbers, the same for a seed whatever the
 * plan; about a million of each, repeated where there are more. */
NODISCARD dyno_status attention_fill(executor *e, uint64_t seed);

#endif
