/* transformer.c - the Llama family's decoder, written in small ops.
 *
 *   B batch, T context, D d_model, H heads, S head size, V vocabulary; N = B*T rows of the
 *   residual stream [N, D]. */
#include "model/transformer.h"

#include "base/checked.h"
#include "graph/graph_parameter.h"
#include "model/attention.h"
#include "model/parameters.h"
#include "ops/add/add.h"
#include "ops/add_scalar/add_scalar.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/mean/mean.h"
#include "ops/multiply/multiply.h"
#include "ops/reshape/reshape.h"
#include "ops/rope/rope.h"
#include "ops/rsqrt/rsqrt.h"
#include "ops/sigmoid/sigmoid.h"
#include "ops/transpose/transpose.h"

typedef struct builder {
    graph *g;
    const model_config *config;
    int64_t B, T;
    int next_parameter;
    int64_t layer; /* being built */
    /* Made once, used by every layer. */
    rope_table rope;
    attention_mask mask;
} builder;

/* Parameters are asked for in the order of parameters.h. */
static value *next_parameter(builder *b) {
    model_parameter p = model_parameter_at(b->config, b->next_parameter++);
    return graph_add_parameter(b->g, DTYPE_F32, &p.shape, p.name);
}

/* Weights of products of one x, contiguous, so that one product can replace them. */
static void join_family(builder *b, value *const *weights, int count, const char *name) {
    graph_join_family(
        b->g, weights, count,
        arena_format(b->g->memory, "model.layers.%lld.%s", (long long)b->layer, name));
}

/* y = x W^T */
static value *linear(builder *b, const char *scope, value *x, value *weight) {
    int outer = graph_enter_scope(b->g, scope);
    value *y = build_matmul(b->g, x, weight, false, true);
    graph_leave_scope(b->g, outer);
    return y;
}

/* y = x / sqrt(mean(x^2) + eps) * w */
static value *rmsnorm(builder *b, const char *scope, block_part part, value *x) {
    graph *g = b->g;
    int outer = graph_enter_part(g, scope, part);
    value *weight = next_parameter(b);
    shape columns = SHAPE(1), row = SHAPE(1, weight->shape.dim[0]);
    value *square = build_multiply(g, x, x);
    value *inverse =
        build_rsqrt(g, build_add_scalar(g, build_mean(g, square, &columns), b->config->norm_eps));
    value *normal = build_multiply(g, x, build_broadcast(g, inverse, &x->shape));
    value *scale = build_broadcast(g, build_reshape(g, weight, &row), &x->shape);
    value *y = build_multiply(g, normal, scale);
    graph_leave_scope(g, outer);
    return y;
}

/* [N, heads*S] -> [B, heads, T, S] */
static value *split_heads(builder *b, value *x, int64_t heads) {
    shape split = SHAPE(b->B, b->T, heads, b->config->head_dim), order = SHAPE(0, 2, 1, 3);
    return build_transpose(b->g, build_reshape(b->g, x, &split), &order);
}

static value *rotate(builder *b, value *x) {
    int outer = graph_enter_scope(b->g, "rope");
    value *y = build_rope(b->g, x, b->rope, false);
    graph_leave_scope(b->g, outer);
    return y;
}

/* [B, H, T, S] -> [N, H*S] */
static value *merge_heads(builder *b, value *x) {
    graph *g = b->g;
    int64_t B = b->B, T = b->T, H = b->config->heads, S = b->config->head_dim;
    shape apart = SHAPE(B, H, T, S), merged = SHAPE(B * T, H * S), order = SHAPE(0, 2, 1, 3);
    int outer = graph_enter_scope(g, "merge");
    value *heads = build_transpose(g, build_reshape(g, x, &apart), &order);
    value *y = build_reshape(g, heads, &merged);
    graph_leave_scope(g, outer);
    return y;
}

static value *attention(builder *b, value *x) {
    const model_config *c = b->config;
    int outer = graph_enter_scope(b->g, "attn");
    value *wq = next_parameter(b), *wk = next_parameter(b), *wv = next_parameter(b);
    value *wo = next_parameter(b);
    join_family(b, (value *[]){wq, wk, wv}, 3, "self_attn.qkv_proj.weight");
    value *q = rotate(b, split_heads(b, linear(b, "q", x, wq), c->heads));
    value *k = rotate(b, split_heads(b, linear(b, "k", x, wk), c->kv_heads));
    value *v = split_heads(b, linear(b, "v", x, wv), c->kv_heads);
    attention_shape heads = {b->B, b->T, c->heads, c->kv_heads, c->head_dim};
    value *mixed = build_attention(b->g, &heads, &b->mask, q, k, v);
    value *y = linear(b, "o", merge_heads(b, mixed), wo);
    graph_leave_scope(b->g, outer);
    return y;
}

/* (silu(x Wg^T) * x Wu^T) Wd^T, silu(z) = z sigmoid(z) */
static value *swiglu(builder *b, value *x) {
    graph *g = b->g;
    int outer = graph_enter_part(g, "mlp", BLOCK_MLP);
    value *wg = next_parameter(b), *wu = next_parameter(b), *wd = next_parameter(b);
    join_family(b, (value *[]){wg, wu}, 2, "mlp.gate_up_proj.weight");
    value *gate = linear(b, "gate", x, wg), *up = linear(b, "up", x, wu);
    int inner = graph_enter_scope(g, "swiglu");
    value *silu = build_multiply(g, gate, build_sigmoid(g, gate));
    value *hidden = build_multiply(g, silu, up);
    graph_leave_scope(g, inner);
    value *y = linear(b, "down", hidden, wd);
    graph_leave_scope(g, outer);
    return y;
}

static value *residual_add(builder *b, value *x, value *branch) {
    int outer = graph_enter_scope(b->g, "residual");
    value *y = build_add(b->g, x, branch);
    graph_leave_scope(b->g, outer);
    return y;
}

static void build_shared(builder *b) {
    graph *g = b->g;
    int outer = graph_enter_scope(g, "constants");
    b->mask = build_causal_mask(g, b->T);
    b->rope = build_rope_table(g, b->T, b->config->head_dim, b->config->rope_theta);
    graph_leave_scope(g, outer);
}

static void build_layer(builder *b, int64_t index, value **x) {
    int outer = graph_enter_block(b->g, (int)index);
    b->layer = index;
    *x = residual_add(b, *x, attention(b, rmsnorm(b, "attn_norm", BLOCK_OTHER, *x)));
    *x = residual_add(b, *x, swiglu(b, rmsnorm(b, "mlp_norm", BLOCK_MLP, *x)));
    graph_leave_scope(b->g, outer);
}

static void build_loss(builder *b, value *logits, value *targets) {
    graph *g = b->g;
    int outer = graph_enter_scope(g, "loss");
    shape all = SHAPE(0), scalar = SHAPE_SCALAR;
    value *losses = build_cross_entropy(g, logits, targets);
    graph_add_output(g, build_reshape(g, build_mean(g, losses, &all), &scalar), "loss");
    graph_leave_scope(g, outer);
}

dyno_status transformer_build(const model_config *config, const transformer_options *options,
                              graph **out) {
    *out = NULL;
    RETURN_IF_FAILED(model_config_check(config));
    int64_t rows;
    if (options->batch < 1 || options->context < 1 || options->context > INT32_MAX ||
        !checked_multiply(options->batch, options->context, &rows) || rows > INT32_MAX)
        return dyno_fail(DYNO_INVALID,
                         "batch %lld x context %lld: both must be at least 1 and their product at "
                         "most 2147483647",
                         (long long)options->batch, (long long)options->context);
    graph *g = graph_create(config->name);
    builder b = {.g = g, .config = config, .B = options->batch, .T = options->context};
    shape ids = SHAPE(rows);
    value *tokens = graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &ids, "tokens");
    value *targets = graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &ids, "targets");
    build_shared(&b);
    int outer = graph_enter_scope(g, "embed");
    value *x = build_gather(g, next_parameter(&b), tokens);
    graph_leave_scope(g, outer);
    for (int64_t i = 0; i < config->layers; i++)
        build_layer(&b, i, &x);
    x = rmsnorm(&b, "final_norm", BLOCK_OTHER, x);
    value *logits = linear(&b, "head", x, next_parameter(&b));
    if (options->keep_logits)
        graph_add_output(g, logits, "logits");
    build_loss(&b, logits, targets);
    dyno_status status = graph_status(g);
    if (status != DYNO_OK) {
        graph_destroy(g);
        return status;
    }
    *out = g;
    return DYNO_OK;
}
