/* step_plan.h - from a model's configuration to the plan of one of its steps. */
#ifndef TRAIN_STEP_PLAN_H
#define TRAIN_STEP_PLAN_H

#include "compiler/pipeline.h"
#include "model/config.h"
#include "plan/plan.h"

typedef struct step_options {
    model_config config;
    int64_t batch, context;
    bool keep_logits;
    pipeline_options pipeline;
} step_options;

/* The defaults of torch.optim.AdamW with the betas of language models; no clipping. */
optimizer_options step_default_optimizer(void);

/* Whether this machine has nothing to compile generated kernels with; plans are unfused then. */
bool must_be_unfused(step_mode mode, const target *chip);

/* Allocates no weights: a plan of any size takes milliseconds. On failure *out is NULL. */
NODISCARD dyno_status step_plan_create(const step_options *options, plan **out);

#endif
