#include <stdio.h>

#include "graph/op.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/op_list.h"
#include "ops/rope/rope.h"

/* The tables of a node; NULLs when it has none. */
static rope_table tables_of(const node *n) {
    if (n->input_count == n->op->input_count)
        return (rope_table){0};
    return (rope_table){n->inputs[n->op->input_count], n->inputs[n->op->input_count + 1]};
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static dyno_status check_tables(const node *n) {
    const shape *q = &n->inputs[ATTENTION_Q]->shape, *k = &n->inputs[ATTENTION_K]->shape;
    for (int i = n->op->input_count; i < n->input_count; i++) {
        const value *table = n->inputs[i];
        if (table->type != DTYPE_F32 || table->shape.rank != 2 ||
            table->shape.dim[0] != larger(q->dim[2], k->dim[2]) ||
            2 * table->shape.dim[1] != q->dim[3])
            return dyno_fail(DYNO_INVALID,
                             "queries are [%s], keys [%s] and a table of angles %s[%s]; it must be "
                             "f32[max(T,T2),S/2]",
                             shape_format(q).text, shape_format(k).text, dtype_name(table->type),
                             shape_format(&table->shape).text);
    }
    return DYNO_OK;
}

static dyno_status check_operands(const node *n) {
    RETURN_IF_FAILED(node_require_attribute(n, "causal", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "scale", ATTRIBUTE_REAL));
    const value *q = n->inputs[ATTENTION_Q], *k = n->inputs[ATTENTION_K],
                *v = n->inputs[ATTENTION_V];
    const shape *a = &q->shape, *b = &k->shape;
    bool fits = a->rank == 4 && b->rank == 4 && shape_equal(b, &v->shape) &&
                a->dim[0] == b->dim[0] && a->dim[1] % b->dim[1] == 0 && a->dim[3] == b->dim[3];
    if (!fits)
        return dyno_fail(DYNO_INVALID,
                         "queries are [%s], keys [%s], values [%s]; want [B,H,T,S] and twice "
                         "[B,K,T2,S], H a multiple of K",
                         shape_format(a).text, shape_format(b).text, shape_format(&v->shape).text);
    if (!dtype_is_float(q->type) || k->type != q->type || v->type != q->type)
        return dyno_fail(DYNO_INVALID, "queries are %s, keys %s, values %s; want one float type",
                         dtype_name(q->type), dtype_name(k->type), dtype_name(v->type));
    return check_tables(n);
}

static value_type log_sum_exp_type(const node *n) {
    const shape *q = &n->inputs[ATTENTION_Q]->shape;
    return (value_type){DTYPE_F32, SHAPE(q->dim[0], q->dim[1], q->dim[2])};
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(check_operands(n));
    outputs[0] = (value_type){n->inputs[ATTENTION_Q]->type, n->inputs[ATTENTION_Q]->shape};
    outputs[1] = log_sum_exp_type(n);
    return DYNO_OK;
}

static dyno_status infer_gradient(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(check_operands(n));
    const value *q = n->inputs[ATTENTION_Q], *lse = n->inputs[ATTENTION_LSE];
    if (attribute_find(&n->attributes, "inverse_rope") && !tables_of(n).cos)
        return dyno_fail(DYNO_INVALID, "gradients are to be rotated back, and there are no tables "
                                       "of angles; want those Q and K were rotated by");
    for (int i = ATTENTION_O; i <= ATTENTION_DO; i++)
        if (!shape_equal(&n->inputs[i]->shape, &q->shape) || n->inputs[i]->type != q->type)
            return dyno_fail(DYNO_INVALID, "O or dO is %s[%s]; want %s[%s]",
                             dtype_name(n->inputs[i]->type),
                             shape_format(&n->inputs[i]->shape).text, dtype_name(q->type),
                             shape_format(&q->shape).text);
    value_type want = log_sum_exp_type(n);
    if (!shape_equal(&lse->shape, &want.shape) || lse->type != want.type)
        return dyno_fail(DYNO_INVALID, "LSE is %s[%s]; want f32[%s]", dtype_name(lse->type),
                         shape_format(&lse->shape).text, shape_format(&want.shape).text);
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        outputs[i] = (value_type){n->inputs[i]->type, n->inputs[i]->shape};
    return DYNO_OK;
}

/* Two products of 2 S for each score; of T queries and as many keys half the scores when causal. */
static double forward_flops(const node *n) {
    const shape *q = &n->inputs[ATTENTION_Q]->shape, *k = &n->inputs[ATTENTION_K]->shape;
    double T = (double)q->dim[2], T2 = (double)k->dim[2], scores = T * T2;
    if (attribute_integer(&n->attributes, "causal"))
        scores = T > T2 ? T2 * T2 / 2 : scores - T * T / 2;
    return 4 * (double)q->dim[0] * (double)q->dim[1] * scores * (double)q->dim[3];
}

/* To rotate Q and K once: two products and a sum for each element, as rope has it. */
static double rotation_flops(const node *n) {
    if (!tables_of(n).cos)
        return 0;
    return 3 * (double)(shape_elements(&n->inputs[ATTENTION_Q]->shape) +
                        shape_elements(&n->inputs[ATTENTION_K]->shape));
}

static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    cost.flops = forward_flops(n) + rotation_flops(n);
    return cost;
}

/* Five products instead of two; Q and K are rotated and dQ and dK back. */
static op_cost gradient_cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    int rotations = attribute_find(&n->attributes, "inverse_rope") ? 1 : 2;
    cost.flops = 2.5 * forward_flops(n) + rotations * rotation_flops(n);
    return cost;
}

/* No model has a loss on LSE, which is there for the gradient alone. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    dtype type = n->inputs[ATTENTION_Q]->type;
    if (!wanted[ATTENTION_Q] && !wanted[ATTENTION_K] && !wanted[ATTENTION_V])
        return;
    if (dy[1]) {
        graph_fail(g, dyno_fail(DYNO_UNSUPPORTED,
                                "attention: its log-sum-exp cannot be differentiated; only its "
                                "first output can"));
        for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
            dx[i] = n->inputs[i];
        return;
    }
    value *from_above = dy[0]->type == type ? dy[0] : build_cast(g, dy[0], type);
    const node *made = build_attention_gradient(g, n, from_above)->producer;
    for (int i = ATTENTION_Q; i <= ATTENTION_V; i++)
        if (wanted[i])
            dx[i] = made->outputs[i];
}

/* Lengths count by powers of two: what is best changes slowly with them. */
static int64_t rounded_up(int64_t length) {
    int64_t power = 1;
    while (power < length)
        power *= 2;
    return power;
}

static void tuning_key(const kernel_args *args, text *out) {
    attention_problem p = attention_describe(args);
    text_format(out, "%s,d%lld,%s,q%lld,k%lld", dtype_name(args->inputs[ATTENTION_Q].type),
                (long long)p.head_dim, p.is_causal ? "causal" : "full",
                (long long)rounded_up(p.queries), (long long)rounded_up(p.keys));
    /* Then other kernels are best. */
    if (target_is_cuda(args->target) && attention_is_split(args))
        text_format(out, ",few");
}

const op op_attention = {
    .name = "attention",
    .summary = "softmax(scale Q K^T) V without the matrix of scores, and its log-sum-exp",
    .class = OP_CLASS_ATTENTION,
    .input_count = 3,
    .optional_inputs = ATTENTION_TABLES,
    .output_count = 2,
    .infer = infer,
    .gradient = gradient,
    .cost = cost,
    .reference = attention_reference,
    .precision = OP_PRECISION_PRODUCT,
    .factor_count = ATTENTION_O,
    .tuning_key = tuning_key,
    .kernels = (const kernel *const[]){&attention_bf16_amx, &attention_bf16_dot, &attention_avx512,
                                       &attention_avx2, &attention_tiled, &attention_split_kv,
                                       &attention_hopper, &attention_mma, &attention_tf32, NULL}};

const op op_attention_gradient = {
    .name = "attention_gradient",
    .summary = "attention's gradients of Q, K and V, from O, dO and the log-sum-exp",
    .class = OP_CLASS_ATTENTION,
    .input_count = 6,
    .optional_inputs = ATTENTION_TABLES,
    .output_count = 3,
    .infer = infer_gradient,
    .cost = gradient_cost,
    .reference = attention_gradient_reference,
    .precision = OP_PRECISION_PRODUCT,
    .factor_count = ATTENTION_LSE,
    .tuning_key = tuning_key,
    .kernels = (const kernel *const[]){
        &attention_gradient_bf16_amx, &attention_gradient_bf16_dot, &attention_gradient_avx512,
        &attention_gradient_avx2, &attention_gradient_tiled, &attention_gradient_split_kv,
        &attention_gradient_hopper_single_pass, &attention_gradient_hopper,
        &attention_gradient_hopper_wide, &attention_gradient_mma, &attention_gradient_tf32, NULL}};

value *build_rotated_attention(graph *g, value *q, value *k, value *v, rope_table table,
                               bool is_causal, double scale) {
    return graph_add_node(
        g, &op_attention, (value *[]){q, k, v, table.cos, table.sin},
        3 + (table.cos ? ATTENTION_TABLES : 0),
        (attribute[]){ATTR_INTEGER("causal", is_causal), ATTR_REAL("scale", scale)}, 2);
}

value *build_attention_node(graph *g, value *q, value *k, value *v, bool is_causal, double scale) {
    return build_rotated_attention(g, q, k, v, (rope_table){0}, is_causal, scale);
}

value *build_attention_gradient(graph *g, const node *attention, value *output_gradient) {
    value *const *in = attention->inputs, *const *out = attention->outputs;
    rope_table table = tables_of(attention);
    return graph_add_node(
        g, &op_attention_gradient,
        (value *[]){in[ATTENTION_Q], in[ATTENTION_K], in[ATTENTION_V], out[0], output_gradient,
                    out[1], table.cos, table.sin},
        6 + (table.cos ? ATTENTION_TABLES : 0),
        (attribute[]){ATTR_INTEGER("causal", attribute_integer(&attention->attributes, "causal")),
                      ATTR_REAL("scale", attribute_real(&attention->attributes, "scale"))},
        2);
}

bool attention_is_gradient(const kernel_args *args) {
    return args->output_count == op_attention_gradient.output_count;
}

static int plain_inputs(const kernel_args *args) {
    return attention_is_gradient(args) ? op_attention_gradient.input_count
                                       : op_attention.input_count;
}

static bool has_tables(const kernel_args *args) { return args->input_count > plain_inputs(args); }

bool attention_has_inverse_rope(const kernel_args *args) {
    return has_tables(args) && attribute_find(args->attributes, "inverse_rope");
}

bool attention_is_rotated(const kernel_args *args) {
    return has_tables(args) && !attention_has_inverse_rope(args);
}

/* Of `rows` rows, which stand at the last positions. */
static attention_rotation describe_rotation(const kernel_args *args, int64_t rows) {
    const tensor *table = args->inputs + plain_inputs(args);
    if (!has_tables(args) || !table->data)
        return (attention_rotation){0};
    int64_t half = table->shape.dim[1], first = (table->shape.dim[0] - rows) * half;
    return (attention_rotation){(const float *)table[0].data + first,
                                (const float *)table[1].data + first, half};
}

attention_problem attention_describe(const kernel_args *args) {
    const shape *q = &args->inputs[ATTENTION_Q].shape, *k = &args->inputs[ATTENTION_K].shape;
    attention_rotation none = {0};
    attention_rotation of_q = describe_rotation(args, q->dim[2]),
                       of_k = describe_rotation(args, k->dim[2]);
    bool has_inverse_rope = attention_has_inverse_rope(args);
    return (attention_problem){.batch = q->dim[0],
                               .heads = q->dim[1],
                               .kv_heads = k->dim[1],
                               .queries = q->dim[2],
                               .keys = k->dim[2],
                               .head_dim = q->dim[3],
                               .group = q->dim[1] / k->dim[1],
                               .is_causal = attribute_integer(args->attributes, "causal") != 0,
                               .scale = (float)attribute_real(args->attributes, "scale"),
                               .q_rotation = has_inverse_rope ? none : of_q,
                               .k_rotation = has_inverse_rope ? none : of_k,
                               .dq_rotation = of_q,
                               .dk_rotation = of_k};
}

int attention_cross_tiles(const int *queries, int query_count, const int *keys, int key_count,
                          attention_tile *out) {
    int count = 0;
    for (int q = 0; q < query_count; q++)
        for (int k = 0; k < key_count && count < KERNEL_MOST_VARIANTS; k++)
            out[count++] = (attention_tile){queries[q], keys[k]};
    return count;
}

int attention_name_tiles(const attention_tile *tiles, int count, kernel_variant *out) {
    for (int i = 0; i < count; i++)
        snprintf(out[i].name, sizeof out[i].name, "%dx%d", tiles[i].queries, tiles[i].keys);
    return count;
}

attention_tile attention_tile_taken(const kernel_args *args,
                                    int (*list)(const kernel_args *args, attention_tile *out)) {
    attention_tile asked, own[KERNEL_MOST_VARIANTS];
    if (args->variant && attention_tile_parse(args->variant, &asked))
        return asked;
    list(args, own);
    return own[0];
}

static bool has_dense_rows(const tensor *t) {
    int last = t->shape.rank - 1;
    return t->stride[last] == 1 || t->shape.dim[last] == 1;
}

const char *attention_reject_layout(const kernel_args *args) {
    dtype type = args->inputs[ATTENTION_Q].type;
    if (!dtype_is_f32_or_low(type))
        return "takes f32, bf16 and f16";
    if (args->inputs[ATTENTION_Q].shape.dim[3] > ATTENTION_MAX_HEAD_DIM)
        return "the head size is above 256";
    for (int i = 0; i < args->input_count; i++)
        if (!has_dense_rows(&args->inputs[i]))
            return "rows must be dense";
    for (int i = plain_inputs(args); i < args->input_count; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "the tables must be dense";
    return NULL;
}
