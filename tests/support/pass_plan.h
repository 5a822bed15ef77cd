/* pass_plan.h - the plan of a small model's step with chosen passes, without the pipeline. */
#ifndef TESTS_SUPPORT_PASS_PLAN_H
#define TESTS_SUPPORT_PASS_PLAN_H

#include "compiler/passes/recompute.h"
#include "compiler/pipeline.h"
#include "model/config.h"

typedef struct pass_options {
    step_extent extent;
    precision precision;
    recompute_options recompute;
    bool rematerialize;
    bool is_static;
    bool keep_all; /* logits and gradients, as outputs */
} pass_options;

/* Verifies the graph after each pass; aborts when one fails. */
plan *pass_plan(const model_config *config, int64_t batch, int64_t context,
                const pass_options *options);

#endif
