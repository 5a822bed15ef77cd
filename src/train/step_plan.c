#include "train/step_plan.h"

#include "model/transformer.h"

optimizer_options step_default_optimizer(void) {
    return (optimizer_options){
        .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1}};
}

dyno_status step_plan_create(const step_options *options, plan **out) {
    *out = NULL;
    transformer_options shape_of_step = {
        .batch = options->batch, .context = options->context, .keep_logits = options->keep_logits};
    graph *g;
    RETURN_IF_FAILED(recompute_check(&options->pipeline.recompute, options->config.layers));
    RETURN_IF_FAILED(transformer_build(&options->config, &shape_of_step, &g));
    dyno_status status = pipeline_compile(g, &options->pipeline, out);
    graph_destroy(g);
    return status;
}
