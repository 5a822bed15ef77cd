#include "train/step_plan.h"

#include "model/transformer.h"
#include "runtime/jit.h"

optimizer_options step_default_optimizer(void) {
    return (optimizer_options){
        .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1}};
}

bool must_be_unfused(step_mode mode, const target *chip) {
    bool is_cpu = !chip || !target_is_cuda(chip);
    return mode == STEP_COMPILED && is_cpu && !jit_is_possible();
}

dyno_status step_plan_create(const step_options *options, plan **out) {
    *out = NULL;
    transformer_options shape_of_step = {
        .batch = options->batch, .context = options->context, .keep_logits = options->keep_logits};
    graph *g;
    RETURN_IF_FAILED(recompute_check(&options->pipeline.recompute, options->config.layers));
    RETURN_IF_FAILED(transformer_build(&options->config, &shape_of_step, &g));
    pipeline_options pipeline = options->pipeline;
    pipeline.is_unfused = must_be_unfused(pipeline.mode, pipeline.target);
    dyno_status status = pipeline_compile(g, &pipeline, out);
    graph_destroy(g);
    return status;
}
