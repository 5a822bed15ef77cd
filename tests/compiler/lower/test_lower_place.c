/* test_lower_place.c - values made straight where a concat or a reshape wants them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/lower/lower.h"
#include "compiler/passes/dead_code.h"
#include "ops/add/add.h"
#include "ops/concat/concat.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/rope/rope.h"
#include "ops/sigmoid/sigmoid.h"
#include "ops/split/split.h"
#include "ops/transpose/transpose.h"
#include "plan/memory_plan.h"
#include "runtime/executor.h"
#include "support/draw.h"
#include "support/fuse_all.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/operand.h"

static plan *lower(graph *g) {
    plan *p;
    if (lower_graph_with(g, target_usual(TARGET_CPU), &(lower_options){.is_placed = true}, &p) !=
        DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return p;
}

static plan *lower_text(const char *source) {
    graph *g = graph_from_text(source);
    plan *p = lower(g);
    graph_destroy(g);
    return p;
}

static void expect_ops(const plan *p, const char *const *ops, int count) {
    for (int i = 0; i < p->launch_count && i < count; i++)
        assert_string_equal(p->launches[i].op_name, ops[i]);
    assert_int_equal(p->launch_count, count);
}

static void expect_strides(const plan_operand *o, const int64_t *strides) {
    assert_memory_equal(o->layout.stride, strides, (size_t)o->layout.shape.rank * sizeof *strides);
}

/* [B, H, T, S] products written as [B, T, H, S]. */
static void merging_heads_copies_nothing(void **state) {
    (void)state;
    plan *p = lower_text(
        "graph g\n"
        "input %0 f32[2,3,4,4] \"p\"\n"
        "input %1 f32[2,3,4,5] \"v\"\n"
        "%2 f32[2,3,4,5] activation = matmul %0 %1 {transpose_a=0, transpose_b=0} @forward\n"
        "%3 f32[2,4,3,5] activation = transpose %2 {order=[0,2,1,3]} @forward\n"
        "%4 f32[8,15] activation = reshape %3 {shape=[8,15]} @forward\n"
        "%5 f32[8,15] activation = exp %4 @forward\n"
        "output %5 \"y\"\n");
    expect_ops(p, (const char *[]){"matmul", "exp"}, 2);
    expect_strides(&p->launches[0].outputs[0], (int64_t[]){60, 5, 15, 1});
    expect_strides(&p->launches[1].inputs[0], (int64_t[]){15, 1});
    plan_destroy(p);
}

static void pieces_of_a_concat_are_made_in_their_places(void **state) {
    (void)state;
    plan *p =
        lower_text("graph g\n"
                   "input %0 f32[4,6] \"x\"\n"
                   "input %1 f32[6,3] \"w\"\n"
                   "input %2 f32[6,5] \"u\"\n"
                   "%3 f32[4,3] activation = matmul %0 %1 {transpose_a=0, transpose_b=0} @forward\n"
                   "%4 f32[4,5] activation = matmul %0 %2 {transpose_a=0, transpose_b=0} @forward\n"
                   "%5 f32[4,8] activation = concat %3 %4 {axis=1} @forward\n"
                   "%6 f32[4,8] activation = exp %5 @forward\n"
                   "output %6 \"y\"\n");
    expect_ops(p, (const char *[]){"matmul", "matmul", "exp"}, 3);
    const plan_operand *first = &p->launches[0].outputs[0], *second = &p->launches[1].outputs[0];
    const plan_operand *whole = &p->launches[2].inputs[0];
    assert_true(first->buffer == whole->buffer && second->buffer == whole->buffer);
    assert_int_equal(first->offset, 0);
    assert_int_equal(second->offset, 3 * 4);
    expect_strides(second, (int64_t[]){8, 1});
    assert_int_equal(p->buffers[whole->buffer].bytes, 4 * 8 * 4);
    assert_int_equal(p->buffers[whole->buffer].born, 0); /* with its first piece */
    plan_destroy(p);
}

/* Read elsewhere, an output, a leaf, twice the same, made by a kernel that writes densely. */
static void pieces_that_must_lie_elsewhere_are_copied(void **state) {
    (void)state;
    plan *p = lower_text("graph g\n"
                         "input %0 f32[4,6] \"x\"\n"
                         "input %1 i32[4] \"ids\"\n"
                         "%2 f32[4,6] activation = exp %0 @forward #1\n"
                         "%3 f32[4,6] activation = log %2 @forward #2\n"
                         "%4 f32[4,6] activation = gather %0 %1 @forward\n"
                         "%5 f32[4,24] activation = concat %2 %0 %4 %4 {axis=1} @forward\n"
                         "%6 f32[4,24] activation = exp %5 @forward\n"
                         "output %3 \"y\"\n"
                         "output %6 \"z\"\n");
    expect_ops(
        p, (const char *[]){"exp", "log", "gather", "concat", "concat", "concat", "concat", "exp"},
        8);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(p->launches[3 + i].outputs[0].offset, i * 24);
        assert_int_equal(p->launches[3 + i].input_count, 1);
        /* One piece, not the whole. */
        assert_int_equal((int)p->launches[3 + i].bytes_read, 4 * 6 * 4);
        assert_int_equal((int)p->launches[3 + i].bytes_written, 4 * 6 * 4);
    }
    plan_destroy(p);
}

static void weights_of_a_family_lie_side_by_side(void **state) {
    (void)state;
    static const char source[] =
        "graph g\n"
        "input %0 f32[4,6] \"x\"\n"
        "parameter %1 f32[3,6] \"a\" in \"all\"\n"
        "parameter %2 f32[7] \"alone\"\n"
        "parameter %3 f32[5,6] \"b\" in \"all\"\n"
        "parameter %4 f32[2,6] \"c\" in \"all\"\n"
        "%5 f32[7,6] activation = concat %3 %4 {axis=0} @forward\n"
        "%6 f32[4,7] activation = matmul %0 %5 {transpose_a=0, transpose_b=1} @forward\n"
        "%7 f32[5,6] activation = concat %1 %4 {axis=0} @forward\n"
        "%8 f32[4,5] activation = matmul %0 %7 {transpose_a=0, transpose_b=1} @forward\n"
        "output %6 \"y\"\n"
        "output %8 \"z\"\n";
    plan *p = lower_text(source);
    expect_ops(p, (const char *[]){"matmul", "concat", "concat", "matmul"}, 4);
    const plan_operand *a = plan_find_name(p, "a"), *b = plan_find_name(p, "b");
    const plan_operand *c = plan_find_name(p, "c"), *side = &p->launches[0].inputs[1];
    assert_true(a->buffer == b->buffer && a->buffer == c->buffer && a->buffer == side->buffer);
    assert_int_equal(a->offset, 0);
    assert_int_equal(b->offset, 3 * 6 * 4);
    assert_int_equal(c->offset, 8 * 6 * 4);
    assert_int_equal(side->offset, b->offset);
    const plan_buffer *all = &p->buffers[a->buffer];
    assert_string_equal(all->name, "all");
    assert_int_equal(all->bytes, 10 * 6 * 4);
    assert_true(all->is_persistent && all->role == ROLE_PARAMETER);
    assert_true(all->shape.rank == 2 && all->shape.dim[0] == 10 && all->shape.dim[1] == 6);
    plan_destroy(p);
}

/* A gradient of weights that were multiplied side by side. */
static void split_gradients_are_rows_of_one_buffer(void **state) {
    (void)state;
    plan *p = lower_text(
        "graph g\n"
        "input %0 f32[4,7] \"dy\"\n"
        "input %1 f32[4,6] \"x\"\n"
        "%2 f32[7,6] activation = matmul %0 %1 {transpose_a=1, transpose_b=0} @backward\n"
        "%3 f32[5,6] gradient, %4 f32[2,6] gradient = split %2 {axis=0, sizes=[5,2]} @backward\n"
        "output %3 \"g.a\"\n"
        "output %4 \"g.b\"\n");
    expect_ops(p, (const char *[]){"matmul"}, 1);
    const plan_operand *b = plan_find_name(p, "g.b");
    assert_int_equal(b->offset, 5 * 6 * 4);
    assert_true(tensor_is_contiguous(&b->layout));
    assert_int_equal(p->buffers[b->buffer].role, ROLE_GRADIENT);
    plan_destroy(p);
}

/* ---- drawn graphs ---- */

enum { VALUES = 64, NODES = 26 };

typedef struct builder {
    graph *g;
    draw d;
    value *values[VALUES];
    int count, leaves;
} builder;

static value *add_leaf(builder *b, shape s) {
    char name[16];
    snprintf(name, sizeof name, "x%d", b->leaves++);
    return graph_add_leaf(b->g, ROLE_INPUT, DTYPE_F32, &s, name);
}

static void keep(builder *b, value *v) {
    if (b->count < VALUES && shape_elements(&v->shape) <= 6000)
        b->values[b->count++] = v;
}

static value *pick(builder *b) {
    int64_t back = draw_chance(&b->d, 0.6) ? draw_below(&b->d, 3) : draw_below(&b->d, b->count);
    return b->values[b->count - 1 - (back < b->count ? back : 0)];
}

/* Two neighbouring dimensions in one, or one in two. */
static value *draw_reshape(builder *b, value *v) {
    shape s = v->shape, to = {0};
    int at = (int)draw_below(&b->d, s.rank);
    bool merges = at + 1 < s.rank && draw_chance(&b->d, 0.6);
    for (int i = 0; i < s.rank; i++) {
        if (i == at && merges) {
            to.dim[to.rank++] = s.dim[i] * s.dim[i + 1];
            i++;
        } else if (i == at && s.dim[i] % 2 == 0 && s.rank < SHAPE_MAX_RANK) {
            to.dim[to.rank++] = s.dim[i] / 2;
            to.dim[to.rank++] = 2;
        } else {
            to.dim[to.rank++] = s.dim[i];
        }
    }
    return build_reshape(b->g, v, &to);
}

static void draw_split(builder *b, value *v) {
    int axis = (int)draw_below(&b->d, v->shape.rank);
    int64_t whole = v->shape.dim[axis];
    if (whole < 2)
        return;
    int64_t first = 1 + draw_below(&b->d, whole - 1);
    shape sizes = SHAPE(first, whole - first);
    const node *n = build_split(b->g, v, axis, &sizes)->producer;
    keep(b, n->outputs[0]);
    keep(b, n->outputs[1]);
}

/* Something new of the same shape, made by a kernel of one kind or the other. */
static value *draw_alike(builder *b, value *v) {
    int rank = v->shape.rank;
    int64_t columns = v->shape.dim[rank - 1];
    if (rank >= 2 && columns % 2 == 0 && draw_chance(&b->d, 0.3)) {
        shape table = SHAPE(v->shape.dim[rank - 2], columns / 2);
        rope_table tables = {add_leaf(b, table), add_leaf(b, table)};
        return build_rope(b->g, build_sigmoid(b->g, v), tables, draw_chance(&b->d, 0.5));
    }
    if (rank == 2 && draw_chance(&b->d, 0.7))
        return build_matmul(b->g, v, add_leaf(b, SHAPE(columns, columns)), false,
                            draw_chance(&b->d, 0.5));
    return build_sigmoid(b->g, v);
}

static void draw_concat(builder *b, value *v) {
    int axis = (int)draw_below(&b->d, v->shape.rank);
    value *pieces[3] = {v};
    int count = 2 + (int)draw_below(&b->d, 2);
    for (int i = 0; i < count; i++) {
        value *made = draw_alike(b, v);
        pieces[i] = draw_chance(&b->d, 0.85) ? made : v;
    }
    keep(b, build_concat(b->g, pieces, count, axis));
}

static void draw_node(builder *b) {
    value *v = pick(b), *other = pick(b);
    shape order = draw_order(&b->d, v->shape.rank);
    switch (draw_below(&b->d, 8)) {
    case 0:
    case 1:
        keep(b, draw_alike(b, v));
        break;
    case 2:
        keep(b, build_transpose(b->g, v, &order));
        break;
    case 3:
    case 4:
        keep(b, draw_reshape(b, v));
        break;
    case 5:
        draw_split(b, v);
        break;
    case 6:
        if (shape_equal(&v->shape, &other->shape))
            keep(b, build_add(b->g, v, other));
        break;
    default:
        draw_concat(b, v);
    }
}

static graph *draw_graph(uint64_t seed) {
    builder b = {.g = graph_create("drawn"), .d = draw_create(seed, 1)};
    keep(&b, add_leaf(&b, SHAPE(2 + draw_below(&b.d, 5), 4, 2 + draw_below(&b.d, 6))));
    keep(&b, add_leaf(&b, SHAPE(6, 2 + 2 * draw_below(&b.d, 6))));
    for (int i = 0; i < NODES; i++)
        draw_node(&b);
    for (int i = 2; i < b.count; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        value *v = b.values[i];
        if ((i + 2 >= b.count || draw_chance(&b.d, 0.15)) && v->producer && !v->is_output)
            graph_add_output(b.g, v, name);
    }
    assert_int_equal(dead_code_drop(b.g), DYNO_OK);
    return b.g;
}

/* The outputs, one after another. */
static double *run(const plan *p, int64_t *count) {
    memory_pool *pool;
    assert_int_equal(memory_pool_create(device_cpu(), 1 << 30, &pool), DYNO_OK);
    storage *shared = storage_create(pool);
    executor *e;
    if (executor_create(p, pool, shared, &e) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    for (int i = 0; i < p->name_count; i++) {
        tensor t = executor_find(e, p->names[i].name);
        draw d = draw_create((uint64_t)i, 1);
        if (p->names[i].name[0] == 'x')
            for (int64_t j = 0; j < shape_elements(&t.shape); j++)
                ((float *)t.data)[j] = (float)draw_normal(&d) * 0.5f;
    }
    assert_int_equal(executor_run(e, NULL, NULL), DYNO_OK);
    double *all = NULL;
    *count = 0;
    for (int i = 0; i < p->name_count; i++) {
        if (p->names[i].name[0] != 'y')
            continue;
        tensor t = executor_find(e, p->names[i].name);
        double *numbers = tensor_to_doubles(&t);
        int64_t elements = shape_elements(&t.shape);
        all = realloc(all, (size_t)(*count + elements) * sizeof *all);
        memcpy(all + *count, numbers, (size_t)elements * sizeof *all);
        *count += elements;
        free(numbers);
    }
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    return all;
}

static void placed_graphs_compute_what_others_do(void **state) {
    (void)state;
    int copies[2] = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        graph *g = draw_graph(seed);
        plan *plain, *placed;
        if (lower_graph(g, target_usual(TARGET_CPU), &plain) != DYNO_OK)
            fail_msg("seed %d: %s", (int)seed, dyno_error_message());
        if (seed % 4 == 0) /* the others as launches of their own: no compiler to wait for */
            assert_int_equal(fuse_all(g, target_usual(TARGET_CPU)), DYNO_OK);
        placed = lower(g);
        memory_plan_apply(placed);
        for (int i = 0; i < plain->launch_count; i++)
            copies[0] += strcmp(plain->launches[i].class_name, "copy") == 0;
        for (int i = 0; i < placed->launch_count; i++)
            copies[1] += strcmp(placed->launches[i].class_name, "copy") == 0;
        int64_t want_count, got_count;
        double *want = run(plain, &want_count), *got = run(placed, &got_count);
        assert_int_equal(got_count, want_count);
        if (!(relative_error(got, want, want_count) < 1e-5))
            fail_msg("seed %d: off by %g", (int)seed, relative_error(got, want, want_count));
        free(want);
        free(got);
        plan_destroy(plain);
        plan_destroy(placed);
        graph_destroy(g);
    }
    assert_true(copies[1] * 3 < copies[0] * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_heads_copies_nothing),
        cmocka_unit_test(pieces_of_a_concat_are_made_in_their_places),
        cmocka_unit_test(pieces_that_must_lie_elsewhere_are_copied),
        cmocka_unit_test(weights_of_a_family_lie_side_by_side),
        cmocka_unit_test(split_gradients_are_rows_of_one_buffer),
        cmocka_unit_test(placed_graphs_compute_what_others_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
