#include "model/model_flops.h"

static model_flops with_backward(double forward) { return (model_flops){forward, 2 * forward}; }

model_flops model_flops_of_attention(const attention_shape *s, bool is_causal) {
    double scores = (double)s->batch * (double)s->heads * (double)s->context * (double)s->context;
    return with_backward((is_causal ? 2 : 4) * scores * (double)s->head_dim);
}

model_flops model_flops_of_step(const model_config *config, int64_t batch, int64_t context) {
    const model_config *c = config;
    attention_shape heads = {batch, context, c->heads, c->kv_heads, c->head_dim};
    double width = (double)c->d_model, tokens = (double)batch * (double)context;
    double q_and_o = 2 * width * (double)(c->heads * c->head_dim);
    double k_and_v = 2 * width * (double)(c->kv_heads * c->head_dim);
    double mlp = 3 * width * (double)c->d_ff;
    double block =
        2 * tokens * (q_and_o + k_and_v + mlp) + model_flops_of_attention(&heads, true).forward;
    return with_backward((double)c->layers * block + 2 * tokens * width * (double)c->vocab);
}
