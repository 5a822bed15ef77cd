#include "model/attention.h"

#include <math.h>

#include "base/checked.h"
#include "graph/graph_parameter.h"
#include "ops/attention/attention.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/detach/detach.h"
#include "ops/divide/divide.h"
#include "ops/exp/exp.h"
#include "ops/fill/fill.h"
#include "ops/greater_equal/greater_equal.h"
#include "ops/iota/iota.h"
#include "ops/matmul/matmul.h"
#include "ops/max/max.h"
#include "ops/reshape/reshape.h"
#include "ops/scale/scale.h"
#include "ops/select/select.h"
#include "ops/subtract/subtract.h"
#include "ops/sum/sum.h"

attention_mask build_causal_mask(graph *g, int64_t context) {
    shape column = SHAPE(context, 1), row = SHAPE(1, context), square = SHAPE(context, context);
    value *position = build_iota(g, context);
    value *visible =
        build_greater_equal(g, build_broadcast(g, build_reshape(g, position, &column), &square),
                            build_broadcast(g, build_reshape(g, position, &row), &square));
    return (attention_mask){.visible = visible,
                            .minus_infinity = build_fill(g, DTYPE_F32, -INFINITY)};
}

/* Over the last dimension. The maximum is subtracted for range only, so it is detached: its
 * gradient would cancel out exactly. */
static value *softmax(graph *g, value *x) {
    int outer = graph_enter_scope(g, "softmax");
    shape last = SHAPE(x->shape.rank - 1);
    value *largest = build_broadcast(g, build_detach(g, build_max(g, x, &last)), &x->shape);
    value *e = build_exp(g, build_subtract(g, x, largest));
    value *total = build_broadcast(g, build_sum(g, e, &last), &e->shape);
    value *y = build_divide(g, e, total);
    graph_leave_scope(g, outer);
    return y;
}

static value *hide_unseen(graph *g, const attention_mask *mask, value *scores) {
    int64_t T = mask->visible->shape.dim[0];
    shape one_mask = SHAPE(1, 1, 1, T, T);
    int outer = graph_enter_scope(g, "mask");
    value *visible = build_broadcast(g, build_reshape(g, mask->visible, &one_mask), &scores->shape);
    value *hidden = build_broadcast_scalar(g, mask->minus_infinity, &scores->shape);
    scores = build_select(g, visible, scores, hidden);
    graph_leave_scope(g, outer);
    return scores;
}

static value *in_type(graph *g, value *v, dtype type) {
    return v->type == type ? v : build_cast(g, v, type);
}

/* Query heads that share a key/value head are stacked as G*T rows, so that one product serves the
 * group and its gradient sums over it. */
value *build_attention(graph *g, const attention_shape *s, const attention_mask *mask, value *q,
                       value *k, value *v) {
    int64_t B = s->batch, T = s->context, K = s->kv_heads, G = s->heads / K, S = s->head_dim;
    shape grouped = SHAPE(B, K, G * T, S), by_query = SHAPE(B, K, G, T, T);
    shape rows = SHAPE(B, K, G * T, T);

    int outer = graph_enter_scope(g, "scores");
    value *scores = build_matmul(g, build_reshape(g, q, &grouped), k, false, true);
    graph_leave_scope(g, outer);
    outer = graph_enter_scope(g, "scale");
    scores = build_scale(g, in_type(g, scores, DTYPE_F32), 1 / sqrt((double)S));
    scores = build_reshape(g, scores, &by_query);
    graph_leave_scope(g, outer);
    if (mask->visible)
        scores = hide_unseen(g, mask, scores);
    value *weights = softmax(g, scores);
    outer = graph_enter_scope(g, "values");
    weights = build_reshape(g, in_type(g, weights, v->type), &rows);
    value *mixed = build_matmul(g, weights, v, false, false);
    graph_leave_scope(g, outer);
    return mixed;
}

/* O [B, H, T, S], one way or the other. */
static value *build_alone(graph *g, const attention_options *options, value *q, value *k,
                          value *v) {
    const attention_shape *s = &options->shape;
    attention_mask mask = {0};
    if (options->is_causal && !options->is_flash) {
        int outer = graph_enter_scope(g, "constants");
        mask = build_causal_mask(g, s->context);
        graph_leave_scope(g, outer);
    }
    int outer = graph_enter_scope(g, "attn");
    if (options->is_flash)
        graph_enter_scope(g, "flash");
    value *o =
        options->is_flash
            ? build_attention_node(g, q, k, v, options->is_causal, 1 / sqrt((double)s->head_dim))
            : build_reshape(g, build_attention(g, s, &mask, q, k, v), &q->shape);
    graph_leave_scope(g, outer);
    return o;
}

static dyno_status check_shape(const attention_shape *s) {
    if (s->batch < 1 || s->context < 1 || s->context > INT32_MAX || s->heads < 1 ||
        s->kv_heads < 1 || s->head_dim < 1)
        return dyno_fail(DYNO_INVALID,
                         "attention of batch %lld, %lld heads, %lld key/value heads, context %lld, "
                         "head size %lld: each must be at least 1, the context at most 2147483647",
                         (long long)s->batch, (long long)s->heads, (long long)s->kv_heads,
                         (long long)s->context, (long long)s->head_dim);
    if (s->heads % s->kv_heads)
        return dyno_fail(DYNO_INVALID,
                         "attention: %lld heads do not divide among %lld key/value "
                         "heads",
                         (long long)s->heads, (long long)s->kv_heads);
    /* The largest values are the scores, or the heads when these are longer than the context;
     * a plan adds up the bytes of many of them. */
    enum { VALUES = 64, BYTES = 8 };
    int64_t longer = s->context > s->head_dim ? s->context : s->head_dim, total;
    if (!checked_multiply(s->batch, s->heads, &total) ||
        !checked_multiply(total, s->context, &total) || !checked_multiply(total, longer, &total) ||
        !checked_multiply(total, VALUES * BYTES, &total))
        return dyno_fail(DYNO_INVALID,
                         "attention: batch %lld x %lld heads x context %lld x %lld are more bytes "
                         "than can be counted; make one of them smaller",
                         (long long)s->batch, (long long)s->heads, (long long)s->context,
                         (long long)longer);
    return DYNO_OK;
}

dyno_status attention_build(const attention_options *options, graph **out) {
    *out = NULL;
    const attention_shape *s = &options->shape;
    RETURN_IF_FAILED(check_shape(s));
    graph *g = graph_create("attention");
    shape queries = SHAPE(s->batch, s->heads, s->context, s->head_dim);
    shape keys = SHAPE(s->batch, s->kv_heads, s->context, s->head_dim);
    dtype type = dtype_is_low(options->low) ? options->low : DTYPE_F32;
    value *q = graph_add_parameter(g, type, &queries, "Q");
    value *k = graph_add_parameter(g, type, &keys, "K");
    value *v = graph_add_parameter(g, type, &keys, "V");
    value *o = build_alone(g, options, q, k, v);
    graph_add_output(g, o, "O");
    if (options->has_gradient)
        graph_add_leaf(g, ROLE_INPUT, type, &o->shape, "dO");
    dyno_status status = graph_status(g);
    if (status != DYNO_OK) {
        graph_destroy(g);
        return status;
    }
    *out = g;
    return DYNO_OK;
}
