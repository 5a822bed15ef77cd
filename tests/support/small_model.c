#include "support/small_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/weights.h"

const model_config small_model_fixed = {.name = "tiny",
                                        .d_model = 16,
                                        .d_ff = 24,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 4,
                                        .vocab = 20,
                                        .norm_eps = 1e-5,
                                        .rope_theta = 10000};

model_config small_model_draw(draw *d) {
    model_config config = {.name = "drawn",
                           .d_ff = 1 + draw_below(d, 40),
                           .layers = 1 + draw_below(d, 3),
                           .kv_heads = 1 + draw_below(d, 3),
                           .head_dim = 2 * (1 + draw_below(d, 4)),
                           .vocab = 2 + draw_below(d, 60),
                           .norm_eps = 1e-5,
                           .rope_theta = 10000};
    config.heads = config.kv_heads * (1 + draw_below(d, 3));
    config.d_model = config.heads * (1 + draw_below(d, 6));
    return config;
}

transformer_options small_model_draw_size(draw *d) {
    return (transformer_options){.batch = 1 + draw_below(d, 2), .context = 1 + draw_below(d, 7)};
}

step_options small_model_step(const model_config *config, int64_t batch, int64_t context,
                              step_extent extent) {
    step_options options = {.config = *config,
                            .batch = batch,
                            .context = context,
                            .keep_logits = true,
                            .pipeline = {.extent = extent,
                                         .target = BACKEND_CPU,
                                         .keep_gradients = true,
                                         .optimizer = step_default_optimizer()}};
    options.pipeline.optimizer.clip_norm = 1;
    return options;
}

static void expect(dyno_status status) {
    if (status == DYNO_OK)
        return;
    fprintf(stderr, "%s\n", dyno_error_message());
    abort();
}

plan *small_model_plan(const model_config *config, int64_t batch, int64_t context,
                       step_extent extent) {
    step_options options = small_model_step(config, batch, context, extent);
    plan *p;
    expect(step_plan_create(&options, &p));
    return p;
}

void small_model_fill(executor *e, storage *shared, const model_config *config, uint64_t seed) {
    static const char *const names[] = {"tokens", "targets"};
    draw d = draw_create(seed, 1);
    expect(weights_init(shared, config, seed));
    for (int i = 0; i < 2; i++) {
        tensor at = executor_find(e, names[i]);
        int32_t *ids = executor_place(e, names[i]);
        for (int64_t j = 0; j < shape_elements(&at.shape); j++)
            ids[j] = (int32_t)draw_below(&d, config->vocab);
        executor_put(e, names[i], ids);
    }
    double rate = 1e-3;
    int64_t step = 1;
    if (executor_find(e, "learning_rate").data)
        expect(executor_write(e, "learning_rate", &rate, sizeof rate));
    if (executor_find(e, "step").data)
        expect(executor_write(e, "step", &step, sizeof step));
}
