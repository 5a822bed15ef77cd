#include "support/op_cases.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "ops/accumulate/accumulate.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/all_gather/all_gather.h"
#include "ops/all_reduce/all_reduce.h"
#include "ops/attention/attention.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/detach/detach.h"
#include "ops/elementwise.h"
#include "ops/fill/fill.h"
#include "ops/gather/gather.h"
#include "ops/global_norm/global_norm.h"
#include "ops/iota/iota.h"
#include "ops/loss_head/loss_head.h"
#include "ops/matmul/matmul.h"
#include "ops/micro_batch/micro_batch.h"
#include "ops/op_list.h"
#include "ops/reduce_scatter/reduce_scatter.h"
#include "ops/reduction.h"
#include "ops/reshape/reshape.h"
#include "ops/rope/rope.h"
#include "ops/scatter_add/scatter_add.h"
#include "ops/slice/slice.h"
#include "ops/split/split.h"
#include "ops/squares/squares.h"
#include "ops/transpose/transpose.h"

#define UNIFORM(FROM, TO)                                                                          \
    { .kind = FILL_UNIFORM, .low = (FROM), .high = (TO) }
#define INTEGERS(FROM, TO)                                                                         \
    { .kind = FILL_INTEGERS, .low = (FROM), .high = (TO) }

static value *add_leaf(op_instance *in, dtype type, shape s, fill what) {
    char name[32];
    snprintf(name, sizeof name, "x%d", in->g->value_count);
    in->fill[in->leaf_count++] = what;
    return graph_add_leaf(in->g, ROLE_INPUT, type, &s, name);
}

static void build_elementwise(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    value *inputs[ELEMENTWISE_MAX_INPUTS];
    for (int i = 0; i < c->kind->input_count; i++)
        inputs[i] = add_leaf(in, DTYPE_F32, s, c->fill[i]);
    elementwise_build(in->g, c->kind, inputs, c->kind->input_count);
}

static void build_with_scalar(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    value *a = add_leaf(in, DTYPE_F32, s, c->fill[0]);
    /* A float, as the kernel has it: the tolerance is for the operation alone. */
    elementwise_build_scalar(in->g, c->kind, a, (float)draw_uniform(d, 0.2, 3));
}

static void build_compare(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    dtype type = draw_chance(d, 0.5) ? DTYPE_F32 : DTYPE_I32;
    value *a = add_leaf(in, type, s, c->fill[0]), *b = add_leaf(in, type, s, c->fill[1]);
    elementwise_build(in->g, c->kind, (value *[]){a, b}, 2);
}

static void build_choice(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    value *mask = add_leaf(in, DTYPE_BOOL, s, c->fill[0]);
    value *a = add_leaf(in, DTYPE_F32, s, c->fill[1]), *b = add_leaf(in, DTYPE_F32, s, c->fill[2]);
    elementwise_build(in->g, c->kind, (value *[]){mask, a, b}, 3);
}

static void build_conversion(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    dtype from = (dtype)draw_below(d, DTYPE_COUNT), to = (dtype)draw_below(d, DTYPE_COUNT);
    if (in->is_smooth) {
        from = DTYPE_F32;
        to = DTYPE_F64;
    } else if (draw_chance(d, 0.5)) { /* the pairs that have kernels of their own */
        static const dtype pairs[][2] = {{DTYPE_F32, DTYPE_BF16},
                                         {DTYPE_BF16, DTYPE_F32},
                                         {DTYPE_F32, DTYPE_F16},
                                         {DTYPE_F16, DTYPE_F32},
                                         {DTYPE_BOOL, DTYPE_F32}};
        const dtype *pair = pairs[draw_below(d, 5)];
        from = pair[0];
        to = pair[1];
    }
    build_cast(in->g, add_leaf(in, from, s, c->fill[0]), to);
}

static void build_reduction(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 1, SHAPE_MAX_RANK);
    shape axes = draw_subset(d, s.rank, 0.5);
    reduction_build(in->g, c->kind, add_leaf(in, DTYPE_F32, s, c->fill[0]), &axes);
}

/* Any type, to be moved and not computed with. */
static value *add_any_leaf(op_instance *in, shape s, draw *d) {
    dtype type = in->is_smooth ? DTYPE_F32 : (dtype)draw_below(d, DTYPE_COUNT);
    fill what = INTEGERS(0, 200);
    if (type == DTYPE_BOOL)
        what.high = 2;
    return add_leaf(in, type, s, what);
}

/* The prime factors of all sizes, cut into groups at random places. */
static void build_other_shape(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape from = draw_shape(d, 0, SHAPE_MAX_RANK), to = {0};
    int64_t group = 1;
    for (int64_t left = shape_elements(&from), p = 2; left > 1; p++)
        for (; left % p == 0; left /= p) {
            if (to.rank < SHAPE_MAX_RANK - 1 && draw_chance(d, 0.4)) {
                to.dim[to.rank++] = group;
                group = 1;
            }
            group *= p;
        }
    if (group > 1 || draw_chance(d, 0.5))
        to.dim[to.rank++] = group;
    build_reshape(in->g, add_any_leaf(in, from, d), &to);
}

static void build_other_order(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK), order = draw_order(d, s.rank);
    build_transpose(in->g, add_any_leaf(in, s, d), &order);
}

static void build_repeated(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape to = draw_shape(d, 0, SHAPE_MAX_RANK), from = to;
    shape repeated = draw_subset(d, to.rank, 0.4);
    for (int i = 0; i < repeated.rank; i++)
        from.dim[repeated.dim[i]] = 1;
    build_broadcast(in->g, add_any_leaf(in, from, d), &to);
}

/* Up to four pieces, equal or not. */
static void build_pieces(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape s = draw_shape(d, 1, SHAPE_MAX_RANK), sizes = {.rank = 1 + (int)draw_below(d, 4)};
    int axis = (int)draw_below(d, s.rank);
    s.dim[axis] = 0;
    for (int i = 0; i < sizes.rank; i++)
        s.dim[axis] += sizes.dim[i] = draw_size(d, 7);
    if (draw_chance(d, 0.4)) {
        s.dim[axis] = sizes.rank * sizes.dim[0];
        build_split_evenly(in->g, add_any_leaf(in, s, d), axis, sizes.rank);
    } else {
        build_split(in->g, add_any_leaf(in, s, d), axis, &sizes);
    }
}

static void build_joined(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape s = draw_shape(d, 1, SHAPE_MAX_RANK);
    int axis = (int)draw_below(d, s.rank), count = 1 + (int)draw_below(d, 9);
    bool are_even = draw_chance(d, 0.4);
    dtype type = in->is_smooth ? DTYPE_F32 : (dtype)draw_below(d, DTYPE_COUNT);
    value *pieces[9];
    for (int i = 0; i < count; i++) {
        if (!are_even)
            s.dim[axis] = draw_size(d, 7);
        pieces[i] = add_leaf(in, type, s, (fill)INTEGERS(0, 2));
    }
    build_concat(in->g, pieces, count, axis);
}

static void build_same(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    build_detach(in->g, add_any_leaf(in, s, d));
}

static void build_constant(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    build_fill(in->g, (dtype)draw_below(d, DTYPE_COUNT), (double)draw_below(d, 2));
}

static void build_counting(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    build_iota(in->g, d->is_full ? d->budget : draw_size(d, d->budget));
}

static int64_t draw_side(draw *d, int64_t limit) {
    return d->is_full ? limit / 2 + draw_below(d, limit / 2) : draw_size(d, limit);
}

static void build_product(const op_case *c, op_instance *in, draw *d) {
    int64_t limit = (int64_t)sqrt((double)d->budget);
    int64_t m = draw_side(d, limit), n = draw_side(d, limit), k = draw_side(d, limit);
    draw batch = *d;
    batch.is_full = false;
    batch.budget = d->budget / (m * n > m * k   ? m * n > n * k ? m * n : n * k
                                : m * k > n * k ? m * k
                                                : n * k);
    shape a = draw_shape(&batch, 0, SHAPE_MAX_RANK - 2);
    d->next = batch.next;
    bool ta = draw_chance(d, 0.5), tb = draw_chance(d, 0.5);
    shape b = a;
    a.dim[a.rank++] = ta ? k : m;
    a.dim[a.rank++] = ta ? m : k;
    b.dim[b.rank++] = tb ? n : k;
    b.dim[b.rank++] = tb ? k : n;
    /* bf16 gives f32 here, so that one tolerance serves; bf16 results are test_gemm.c's. */
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    dtype type = in->is_smooth ? DTYPE_F32 : types[draw_below(d, 3)];
    double alpha = draw_chance(d, 0.3) ? 0.125 : 1;
    value *left = add_leaf(in, type, a, c->fill[0]), *right = add_leaf(in, type, b, c->fill[1]);
    build_matmul_scaled(in->g, left, right, ta, tb, DTYPE_F32, alpha);
}

/* Without queries that see no key where finite differences are taken: their LSE is infinite. There
 * it is rotated at times; which kernels rotate is not known here, and tested in
 * ops/test_attention_rotation.c. */
static void build_attended(const op_case *c, op_instance *in, draw *d) {
    int64_t S = draw_size(d, d->budget < 100 ? 4 : 70), K = draw_size(d, 2), G = draw_size(d, 2);
    int64_t limit = d->is_full ? 200 : d->budget < 100 ? 4 : 90;
    int64_t T = draw_side(d, limit), T2 = draw_side(d, limit), B = draw_size(d, 2);
    bool is_causal = draw_chance(d, 0.5);
    if (in->is_smooth && is_causal && T > T2)
        T = T2;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    dtype type = in->is_smooth ? DTYPE_F32 : types[draw_below(d, 3)];
    double scale = (float)(draw_uniform(d, 0.5, 1.5) / sqrt((double)S));
    shape queries = SHAPE(B, K * G, T, S), keys = SHAPE(B, K, T2, S);
    value *q = add_leaf(in, type, queries, c->fill[0]), *k = add_leaf(in, type, keys, c->fill[1]);
    value *v = add_leaf(in, type, keys, c->fill[2]);
    if (c->kind == &op_attention) {
        rope_table table = {0};
        if (in->is_smooth && S % 2 == 0 && draw_chance(d, 0.7)) {
            shape angles = SHAPE(T > T2 ? T : T2, S / 2);
            table.cos = add_leaf(in, DTYPE_F32, angles, c->fill[3]);
            table.sin = add_leaf(in, DTYPE_F32, angles, c->fill[4]);
        }
        build_rotated_attention(in->g, q, k, v, table, is_causal, scale);
        return;
    }
    value *o = add_leaf(in, type, queries, c->fill[3]);
    value *dy = add_leaf(in, type, queries, c->fill[4]);
    value *lse = add_leaf(in, DTYPE_F32, SHAPE(B, K * G, T), c->fill[5]);
    graph_add_node(in->g, c->kind, (value *[]){q, k, v, o, dy, lse}, 6,
                   (attribute[]){ATTR_INTEGER("causal", is_causal), ATTR_REAL("scale", scale)}, 2);
}

/* Ids [...], the same with a width behind it, and how many rows the table has. */
static void draw_lookup(draw *d, shape *ids, shape *rows, int64_t *table_rows) {
    *rows = draw_shape(d, 1, SHAPE_MAX_RANK);
    *ids = *rows;
    ids->rank--;
    *table_rows = d->is_full ? 500 : draw_size(d, 100);
}

static void build_lookup(const op_case *c, op_instance *in, draw *d) {
    shape ids, rows;
    int64_t table_rows;
    draw_lookup(d, &ids, &rows, &table_rows);
    fill below = INTEGERS(0, (double)table_rows);
    value *table = add_leaf(in, DTYPE_F32, SHAPE(table_rows, rows.dim[rows.rank - 1]), c->fill[0]);
    build_gather(in->g, table, add_leaf(in, DTYPE_I32, ids, below));
}

static void build_scattered(const op_case *c, op_instance *in, draw *d) {
    shape ids, rows;
    int64_t table_rows;
    draw_lookup(d, &ids, &rows, &table_rows);
    fill below = INTEGERS(0, (double)table_rows);
    value *at = add_leaf(in, DTYPE_I32, ids, below);
    build_scatter_add(in->g, at, add_leaf(in, DTYPE_F32, rows, c->fill[1]), table_rows);
}

static void build_angles(const op_case *c, op_instance *in, draw *d) {
    (void)c;
    shape s = draw_shape(d, 2, 2);
    build_rope_table(in->g, s.dim[0], 2 * s.dim[1], 10000);
}

static void build_rotated(const op_case *c, op_instance *in, draw *d) {
    bool has_heads = draw_chance(d, 0.5);
    shape s = draw_shape(d, has_heads ? 3 : 2, SHAPE_MAX_RANK);
    shape table = SHAPE(s.dim[s.rank - (has_heads ? 3 : 2)], s.dim[s.rank - 1]);
    s.dim[s.rank - 1] *= 2;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    dtype type = in->is_smooth ? DTYPE_F32 : types[draw_below(d, 3)];
    value *x = add_leaf(in, type, s, c->fill[0]);
    value *cosine = add_leaf(in, DTYPE_F32, table, c->fill[1]);
    value *sine = add_leaf(in, DTYPE_F32, table, c->fill[2]);
    int64_t heads = has_heads ? 1 + draw_below(d, s.dim[s.rank - 2]) : 0;
    build_rope_heads(in->g, x, (rope_table){cosine, sine}, draw_chance(d, 0.5), heads);
}

static void build_loss(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 2, 2);
    fill classes = INTEGERS(0, (double)s.dim[1]);
    value *logits = add_leaf(in, DTYPE_F32, s, c->fill[0]);
    build_cross_entropy(in->g, logits, add_leaf(in, DTYPE_I32, SHAPE(s.dim[0]), classes));
}

static void build_loss_gradient(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 2, 2);
    fill classes = INTEGERS(0, (double)s.dim[1]);
    value *logits = add_leaf(in, DTYPE_F32, s, c->fill[0]);
    value *targets = add_leaf(in, DTYPE_I32, SHAPE(s.dim[0]), classes);
    value *lse = add_leaf(in, DTYPE_F32, SHAPE(s.dim[0]), c->fill[2]);
    value *dy = add_leaf(in, DTYPE_F32, SHAPE(s.dim[0]), c->fill[3]);
    graph_add_node(in->g, c->kind, (value *[]){logits, targets, lse, dy}, 4, NULL, 0);
}

/* Low types are test_loss_head.c's. */
static void build_head(const op_case *c, op_instance *in, draw *d) {
    int64_t N = draw_size(d, 20), V = draw_size(d, 40), D = draw_size(d, 30);
    fill classes = INTEGERS(0, (double)V);
    value *x = add_leaf(in, DTYPE_F32, SHAPE(N, D), c->fill[0]);
    value *weight = add_leaf(in, DTYPE_F32, SHAPE(V, D), c->fill[1]);
    value *targets = add_leaf(in, DTYPE_I32, SHAPE(N), classes);
    int64_t chunk = 1 + draw_below(d, N + 3);
    if (c->kind == &op_loss_head_forward)
        build_loss_head_forward(in->g, x, weight, targets, chunk);
    else
        build_loss_head(in->g, x, weight, targets, add_leaf(in, DTYPE_F32, SHAPE(N), c->fill[3]),
                        chunk, DTYPE_F32, DTYPE_F32);
}

static void build_update(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, 4);
    adamw_inputs inputs = {.weight = add_leaf(in, DTYPE_F32, s, c->fill[0]),
                           .gradient = add_leaf(in, DTYPE_F32, s, c->fill[1]),
                           .first_moment = add_leaf(in, DTYPE_F32, s, c->fill[2]),
                           .second_moment = add_leaf(in, DTYPE_F32, s, c->fill[3]),
                           .learning_rate = add_leaf(in, DTYPE_F64, SHAPE_SCALAR, c->fill[4]),
                           .step = add_leaf(in, DTYPE_I64, SHAPE_SCALAR, c->fill[5]),
                           .gradient_scale = add_leaf(in, DTYPE_F32, SHAPE_SCALAR, c->fill[6])};
    build_adamw(in->g, &inputs,
                &(adamw_options){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1});
    node *n = in->g->nodes[in->g->node_count - 1];
    n->inputs[0]->role = n->outputs[0]->role = ROLE_PARAMETER;
    for (int i = 1; i < 3; i++)
        n->inputs[1 + i]->role = n->outputs[i]->role = ROLE_OPTIMIZER_STATE;
}

static dtype draw_float(draw *d) {
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    return types[draw_below(d, 3)];
}

static void build_many_updates(const op_case *c, op_instance *in, draw *d) {
    enum { MOST = 3 };
    adamw_parameter parameters[MOST];
    int count = 1 + (int)draw_below(d, MOST), low = (int)draw_below(d, count + 1);
    dtype low_type = draw_chance(d, 0.5) ? DTYPE_BF16 : DTYPE_F16;
    value *rate = add_leaf(in, DTYPE_F64, SHAPE_SCALAR, c->fill[0]);
    value *step = add_leaf(in, DTYPE_I64, SHAPE_SCALAR, c->fill[1]);
    value *scale = add_leaf(in, DTYPE_F32, SHAPE_SCALAR, c->fill[2]);
    for (int i = 0; i < count; i++) {
        shape s = draw_shape(d, 0, 4);
        parameters[i] = (adamw_parameter){.weight = add_leaf(in, DTYPE_F32, s, c->fill[3]),
                                          .gradient = add_leaf(in, draw_float(d), s, c->fill[4]),
                                          .first_moment = add_leaf(in, DTYPE_F32, s, c->fill[5]),
                                          .second_moment = add_leaf(in, DTYPE_F32, s, c->fill[6])};
    }
    for (int i = 0; i < low; i++)
        parameters[i].low_copy = add_leaf(in, low_type, parameters[i].weight->shape, c->fill[3]);
    adamw_options options = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
    build_adamw_many(in->g, parameters, count, rate, step, scale, &options);
    node *n = in->g->nodes[in->g->node_count - 1];
    for (int i = 0; i < n->output_count; i++)
        n->inputs[op_inplace_input(n, i)]->role = n->outputs[i]->role =
            i < 3 * count && i % 3 ? ROLE_OPTIMIZER_STATE : ROLE_PARAMETER;
}

static void build_unscaled(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    value *a = add_leaf(in, DTYPE_F32, s, c->fill[0]), *b = add_leaf(in, DTYPE_F32, s, c->fill[1]);
    build_unscale_coefficient(in->g, a, b, (float)draw_uniform(d, -1, 3));
}

static void build_norm(const op_case *c, op_instance *in, draw *d) {
    value *inputs[4];
    int count = 1 + (int)draw_below(d, 4);
    for (int i = 0; i < count; i++) {
        shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
        inputs[i] = add_leaf(in, draw_float(d), s, c->fill[0]);
    }
    build_global_norm(in->g, inputs, count);
}

static void build_squared(const op_case *c, op_instance *in, draw *d) {
    value *inputs[4];
    int count = 1 + (int)draw_below(d, 4);
    for (int i = 0; i < count; i++) {
        shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
        inputs[i] = add_leaf(in, draw_float(d), s, c->fill[0]);
    }
    build_squares(in->g, inputs, count);
}

static void build_root(const op_case *c, op_instance *in, draw *d) {
    shape s = SHAPE((1 + (int64_t)draw_below(d, 3)) * SQUARES_LENGTH);
    build_root_of_squares(in->g, add_leaf(in, DTYPE_F64, s, c->fill[0]));
}

static void build_part(const op_case *c, op_instance *in, draw *d) {
    int64_t count = 1 + (int64_t)draw_below(d, 4);
    shape s = draw_shape(d, 1, SHAPE_MAX_RANK);
    s.dim[0] *= count;
    build_micro_batch(in->g, add_leaf(in, DTYPE_I32, s, c->fill[0]), count);
}

static void build_accumulated(const op_case *c, op_instance *in, draw *d) {
    shape s = draw_shape(d, 0, SHAPE_MAX_RANK);
    value *sum = add_leaf(in, DTYPE_F32, s, c->fill[0]);
    sum->role = ROLE_GRADIENT;
    build_accumulate(in->g, sum, add_leaf(in, draw_float(d), s, c->fill[1]));
}

static void build_sliced(const op_case *c, op_instance *in, draw *d) {
    shape to = draw_shape(d, 0, SHAPE_MAX_RANK);
    int64_t before = (int64_t)draw_below(d, 5), behind = (int64_t)draw_below(d, 5);
    shape list = SHAPE(before + shape_elements(&to) + behind);
    build_slice(in->g, add_leaf(in, draw_float(d), list, c->fill[0]), before, &to);
}

/* Kernels run without other ranks here: tests/train has those with some. */
static const collective_place ALONE = {.ranks = 1};

static void build_reduced(const op_case *c, op_instance *in, draw *d) {
    value *inputs[4];
    int count = 1 + (int)draw_below(d, 4);
    for (int i = 0; i < count; i++)
        inputs[i] = add_leaf(in, DTYPE_F32, draw_shape(d, 0, SHAPE_MAX_RANK), c->fill[0]);
    for (int i = 0; i < count; i++)
        inputs[i]->role = ROLE_GRADIENT;
    build_all_reduce(in->g, inputs, count, &ALONE);
}

static void build_reduced_part(const op_case *c, op_instance *in, draw *d) {
    shape s = SHAPE(1 + (int64_t)draw_below(d, 100));
    build_reduce_scatter(in->g, add_leaf(in, DTYPE_F32, s, c->fill[0]), NULL, 0, &ALONE);
}

static void build_gathered(const op_case *c, op_instance *in, draw *d) {
    shape s = SHAPE(1 + (int64_t)draw_below(d, 100));
    build_all_gather(in->g, add_leaf(in, draw_float(d), s, c->fill[0]), &ALONE);
}

static const op_case cases[] = {
    /* Each of these rounds once. */
    {.kind = &op_add,
     .build = build_elementwise,
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 3},
    {.kind = &op_subtract,
     .build = build_elementwise,
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 3},
    {.kind = &op_multiply,
     .build = build_elementwise,
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 3},
    {.kind = &op_divide,
     .build = build_elementwise,
     .fill = {{0}, UNIFORM(0.3, 3)},
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 3},
    {.kind = &op_scale,
     .build = build_with_scalar,
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 1},
    {.kind = &op_add_scalar,
     .build = build_with_scalar,
     .ulps = 0.5,
     .takes_any_float = true,
     .differentiable = 1},
    {.kind = &op_exp,
     .build = build_elementwise,
     .fill = {{.high = 5}},
     .ulps = 1.5,
     .takes_any_float = true,
     .differentiable = 1},
    {.kind = &op_log,
     .build = build_elementwise,
     .fill = {UNIFORM(0.01, 9)},
     .ulps = 1.5,
     .takes_any_float = true,
     .differentiable = 1},
    {.kind = &op_rsqrt,
     .build = build_elementwise,
     .fill = {UNIFORM(0.01, 9)},
     .ulps = 1.5,
     .takes_any_float = true,
     .differentiable = 1},
    {.kind = &op_sigmoid,
     .build = build_elementwise,
     .fill = {{.high = 5}},
     .ulps = 3,
     .differentiable = 1},
    {.kind = &op_divide_gradient,
     .build = build_elementwise,
     .fill = {{0}, {0}, UNIFORM(0.3, 3)},
     .ulps = 1.5},
    {.kind = &op_rsqrt_gradient, .build = build_elementwise, .ulps = 2.5},
    {.kind = &op_sigmoid_gradient,
     .build = build_elementwise,
     .fill = {{0}, UNIFORM(0, 1)},
     .ulps = 2.5},
    {.kind = &op_clip_coefficient,
     .build = build_with_scalar,
     .fill = {UNIFORM(0, 9)},
     .ulps = 1.5},
    {.kind = &op_equal,
     .build = build_compare,
     .fill = {INTEGERS(-3, 4), INTEGERS(-3, 4)},
     .takes_any_float = true},
    {.kind = &op_greater_equal,
     .build = build_compare,
     .fill = {INTEGERS(-3, 4), INTEGERS(-3, 4)},
     .takes_any_float = true},
    {.kind = &op_select,
     .build = build_choice,
     .fill = {INTEGERS(0, 2)},
     .takes_any_float = true,
     .differentiable = 6},

    {.kind = &op_cast, .build = build_conversion, .fill = {{.high = 100}}, .differentiable = 1},
    {.kind = &op_reshape, .build = build_other_shape, .differentiable = 1},
    {.kind = &op_transpose, .build = build_other_order, .differentiable = 1},
    {.kind = &op_broadcast, .build = build_repeated, .differentiable = 1},
    {.kind = &op_detach, .build = build_same},
    {.kind = &op_split, .build = build_pieces, .differentiable = 1},
    {.kind = &op_concat, .build = build_joined, .differentiable = 0x1ff},
    {.kind = &op_fill, .build = build_constant},
    {.kind = &op_iota, .build = build_counting},
    {.kind = &op_gather, .build = build_lookup, .differentiable = 1},
    {.kind = &op_max, .build = build_reduction, .differentiable = 1},

    /* Sums in float. Roundings are independent, so their errors grow with the root of the number
     * of terms and so do partial sums: what is left is a few roundings of the magnitudes. */
    {.kind = &op_sum, .build = build_reduction, .ulps = 0.5, .per_term = 2e-7, .differentiable = 1},
    {.kind = &op_mean, .build = build_reduction, .ulps = 1, .per_term = 2e-7, .differentiable = 1},
    {.kind = &op_matmul,
     .build = build_product,
     .ulps = 0.5,
     .per_term = 5e-7,
     .differentiable = 3},
    {.kind = &op_attention,
     .build = build_attended,
     .fill = {{0}, {0}, {0}, UNIFORM(-1, 1), UNIFORM(-1, 1)},
     .ulps = 2,
     .absolute = 3e-6,
     .low_ulps = 0.6,
     .low_factors = 2,
     .differentiable = 7},
    {.kind = &op_attention_gradient,
     .build = build_attended,
     .fill = {{0}, {0}, {0}, {0}, {0}, UNIFORM(3, 7)},
     .ulps = 8,
     .absolute = 3e-5,
     .low_ulps = 0.6,
     .low_factors = 8},
    {.kind = &op_scatter_add,
     .build = build_scattered,
     .ulps = 0.5,
     .per_term = 2e-7,
     .differentiable = 2},
    {.kind = &op_global_norm, .build = build_norm, .ulps = 4},

    {.kind = &op_rope_table, .build = build_angles, .ulps = 0.5},
    {.kind = &op_rope,
     .build = build_rotated,
     .fill = {{0}, UNIFORM(-1, 1), UNIFORM(-1, 1)},
     .absolute = 4e-7,
     .low_ulps = 1,
     .differentiable = 1},
    {.kind = &op_cross_entropy,
     .build = build_loss,
     .fill = {{.high = 3}},
     .ulps = 0.5,
     .absolute = 2e-7,
     .differentiable = 1},
    {.kind = &op_cross_entropy_gradient,
     .build = build_loss_gradient,
     .fill = {{.high = 3}, {0}, UNIFORM(5, 9), {0}},
     .ulps = 16,
     .absolute = 2e-7},
    {.kind = &op_loss_head,
     .build = build_head,
     .fill = {{0}, {.high = 0.3}},
     .ulps = 4,
     .absolute = 2e-5},
    {.kind = &op_loss_head_forward,
     .build = build_head,
     .fill = {{0}, {.high = 0.3}},
     .ulps = 4,
     .absolute = 1e-5},
    {.kind = &op_adamw,
     .build = build_update,
     .fill = {{0},
              {0},
              {.high = 0.1},
              UNIFORM(0, 1),
              UNIFORM(1e-4, 1e-2),
              INTEGERS(1, 1000),
              UNIFORM(0.1, 1)},
     .ulps = 2,
     .absolute = 2e-7},
    /* A low copy may be its weight rounded the other way: one of its last places. */
    {.kind = &op_adamw_many,
     .build = build_many_updates,
     .fill = {UNIFORM(1e-4, 1e-2),
              INTEGERS(1, 1000),
              UNIFORM(0.1, 1),
              {0},
              {0},
              {.high = 0.1},
              UNIFORM(0, 1)},
     .ulps = 2,
     .absolute = 2e-7,
     .low_ulps = 1},
    {.kind = &op_unscale_coefficient,
     .build = build_unscaled,
     .fill = {UNIFORM(0, 900), UNIFORM(50, 300)},
     .ulps = 4},
    {.kind = &op_squares, .build = build_squared},
    /* Zeros: another number in the place of NaN would be one. ops/test_squares.c has the others. */
    {.kind = &op_root_of_squares, .build = build_root, .fill = {INTEGERS(0, 1)}, .ulps = 1},
    {.kind = &op_micro_batch, .build = build_part, .fill = {INTEGERS(0, 1000)}},
    {.kind = &op_accumulate, .build = build_accumulated},
    {.kind = &op_slice, .build = build_sliced},
    {.kind = &op_all_reduce, .build = build_reduced},
    {.kind = &op_reduce_scatter, .build = build_reduced_part},
    {.kind = &op_all_gather, .build = build_gathered},
};

const op_case *op_case_find(const op *kind) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].kind == kind)
            return &cases[i];
    return NULL;
}

op_instance op_case_build(const op_case *c, graph *g, bool is_smooth, draw *d) {
    op_instance in = {.g = g, .is_smooth = is_smooth};
    c->build(c, &in, d);
    in.n = g->nodes[g->node_count - 1];
    assert(in.n->op == c->kind && in.n->input_count == in.leaf_count);
    return in;
}
