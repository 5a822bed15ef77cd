/* test_attention_rotation.c - attention that rotates Q and K: every CPU kernel gives what the same
 * kernel gives on rows that rope has rotated before, and what the reference in double gives. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "ops/op_list.h"
#include "support/attention_sample.h"
#include "support/graph_pass.h"
#include "support/kernel_run.h"
#include "support/operand.h"

/* Odd halves, grouped heads, unequal lengths, where tiles and panels end. */
static const sizes SIZES[] = {
    {1, 1, 1, 1, 1, 2},    {2, 2, 1, 1, 7, 6},      {1, 2, 2, 5, 1, 16},     {1, 4, 2, 33, 65, 24},
    {2, 3, 1, 31, 32, 18}, {1, 1, 1, 64, 8, 48},    {1, 2, 2, 129, 127, 64}, {1, 1, 1, 65, 300, 10},
    {1, 2, 1, 70, 40, 98}, {1, 1, 1, 40, 150, 256}, {3, 2, 2, 2, 3, 4},      {1, 6, 2, 70, 70, 66},
};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static const dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* ---- rope beside it ---- */

/* Numbers of Q or K, or of their gradients, as rope stores them rotated. */
static double *rotate(const sample *s, int input, const double *x, bool is_inverse) {
    const value *like = s->n->inputs[input];
    int at = s->n->op->input_count;
    int64_t rows = like->shape.dim[2], half = like->shape.dim[3] / 2;
    int64_t first = s->n->inputs[at]->shape.dim[0] - rows;
    shape angles = SHAPE(rows, half);
    graph *g = graph_create("rope");
    value *leaf = graph_add_leaf(g, ROLE_INPUT, like->type, &like->shape, "x");
    rope_table table = {graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &angles, "cos"),
                        graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &angles, "sin")};
    const node *n = build_rope(g, leaf, table, is_inverse)->producer;
    assert_int_equal(graph_status(g), DYNO_OK);
    int64_t count = shape_elements(&like->shape);
    void *stored = malloc((size_t)(count * dtype_bytes(like->type)));
    for (int64_t i = 0; i < count; i++)
        dtype_store(like->type, stored, i, x[i]);
    tensor in[] = {
        tensor_contiguous(stored, like->type, &like->shape),
        tensor_contiguous((float *)s->in[at].view.data + first * half, DTYPE_F32, &angles),
        tensor_contiguous((float *)s->in[at + 1].view.data + first * half, DTYPE_F32, &angles)};
    tensor out;
    double *rotated = NULL;
    for (int k = 0; n->op->kernels[k] && !rotated; k++)
        if (n->op->kernels[k]->target == TARGET_CPU && !kernel_run(n, n->op->kernels[k], in, &out))
            rotated = tensor_to_doubles(&out);
    assert_non_null(rotated);
    free(out.data);
    free(stored);
    graph_destroy(g);
    return rotated;
}

/* The same problem, Q and K rotated beforehand: without tables, or, of a gradient, to be rotated
 * back by them. */
static sample rotated_before(const sample *s, bool is_turned) {
    sample plain = {.g = graph_create("plain"), .how = s->how};
    value *leaf[MOST_INPUTS];
    attribute list[] = {s->n->attributes.items[0], s->n->attributes.items[1],
                        ATTR_INTEGER("inverse_rope", 1)};
    int count = is_turned ? s->n->input_count : s->n->op->input_count;
    for (int i = 0; i < count; i++) {
        char name[2] = {(char)('a' + i), 0};
        leaf[i] = graph_add_leaf(plain.g, ROLE_INPUT, s->n->inputs[i]->type,
                                 &s->n->inputs[i]->shape, name);
    }
    assert_int_equal(s->n->attributes.count, 2);
    graph_add_node(plain.g, s->n->op, leaf, count, list, is_turned ? 3 : 2);
    assert_int_equal(graph_status(plain.g), DYNO_OK);
    plain.n = plain.g->nodes[0];
    for (int i = 0; i < count; i++) {
        double *rotated = i <= ATTENTION_K ? rotate(s, i, s->dense[i], false) : NULL;
        sample_place(&plain, i, rotated ? rotated : s->dense[i]);
        free(rotated);
    }
    sample_expect(&plain);
    return plain;
}

static void expect_same_numbers(const kernel *k, int output, const double *got, const double *want,
                                int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s, output %d, element %lld: %.9g, after rope %.9g", k->name, output,
                     (long long)i, got[i], want[i]);
}

/* dQ and dK in a low type: rotated back in f32 and rounded, or rounded, rotated and rounded. */
static void expect_near_in_low(const kernel *k, const shape *s, dtype type, const double *got,
                               const double *want, const double *before) {
    double unit = type == DTYPE_BF16 ? 0x1p-8 : 0x1p-11, least = type == DTYPE_BF16 ? 0 : 0x1p-24;
    int64_t half = s->dim[3] / 2;
    for (int64_t i = 0; i < shape_elements(s); i++) {
        int64_t partner = i % (2 * half) < half ? i + half : i - half;
        double most = fabs(before[i]) + fabs(before[partner]) + fabs(want[i]);
        bool is_near = fabs(got[i] - want[i]) <= 1.1 * unit * most + 3 * least;
        if (!is_near && !(!isfinite(want[i]) && !isfinite(got[i])))
            fail_msg("%s, element %lld of [%s]: %.9g, after rope %.9g", k->name, (long long)i,
                     shape_format(s).text, got[i], want[i]);
    }
}

static void compare_outputs(const sample *s, const kernel *k, buffer *got, buffer *plain) {
    bool is_gradient = s->n->op == &op_attention_gradient;
    for (int i = 0; i < s->n->output_count; i++) {
        const value *v = s->n->outputs[i];
        double *a = tensor_to_doubles(&got[i].view), *b = tensor_to_doubles(&plain[i].view);
        double *back = is_gradient && i <= ATTENTION_K ? rotate(s, i, b, true) : NULL;
        if (back && v->type != DTYPE_F32)
            expect_near_in_low(k, &v->shape, v->type, a, back, b);
        else
            expect_same_numbers(k, i, a, back ? back : b, shape_elements(&v->shape));
        free(a);
        free(b);
        free(back);
        free(got[i].block);
        free(plain[i].block);
    }
}

/* All kernels that take the operands: their number. */
static int compare_with_rope(const sample *s) {
    sample plain = rotated_before(s, false);
    int taken = 0;
    for (int i = 0; s->n->op->kernels[i]; i++) {
        const kernel *k = s->n->op->kernels[i];
        buffer got[MOST_OUTPUTS], want[MOST_OUTPUTS];
        if (!run_kernel(s, k, got))
            continue;
        assert_true(run_kernel(&plain, k, want));
        compare_outputs(s, k, got, want);
        taken++;
    }
    sample_release(&plain);
    return taken;
}

static void kernels_give_what_they_give_after_rope(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int how = 0; how < PLACING_COUNT; how++)
            for (int way = 0; way < 6; way++) {
                dtype type = TYPES[way / 2];
                sample s = rotated_sample(&SIZES[z], type, way % 2, (placing)how, NORMAL);
                assert_int_equal(compare_with_rope(&s), kernels_here(type));
                s = gradient_of(&s, 1);
                assert_int_equal(compare_with_rope(&s), kernels_here(type));
                sample_release(&s);
            }
}

/* ---- Q and K that come rotated ---- */

/* Gradients rotated back are what they are where the kernel has rotated Q and K itself. */
static void gradients_alone_are_rotated_back(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int way = 0; way < 6; way++) {
            dtype type = TYPES[way / 2];
            placing how = (placing)((z + way) % PLACING_COUNT);
            sample s = rotated_sample(&SIZES[z], type, way % 2, how, NORMAL);
            s = gradient_of(&s, 1);
            sample turned = rotated_before(&s, true);
            int taken = 0;
            for (int i = 0; s.n->op->kernels[i]; i++) {
                buffer got[MOST_OUTPUTS], want[MOST_OUTPUTS];
                if (!run_kernel(&turned, s.n->op->kernels[i], got))
                    continue;
                assert_true(run_kernel(&s, s.n->op->kernels[i], want));
                for (int j = 0; j < MOST_OUTPUTS; j++) {
                    double *a = tensor_to_doubles(&got[j].view);
                    double *b = tensor_to_doubles(&want[j].view);
                    expect_same_numbers(s.n->op->kernels[i], j, a, b,
                                        shape_elements(&s.n->outputs[j]->shape));
                    free(a);
                    free(b);
                    free(got[j].block);
                    free(want[j].block);
                }
                taken++;
            }
            assert_int_equal(taken, kernels_here(type));
            if (type == DTYPE_F32)
                assert_int_equal(check_kernels(&turned, (tolerance){2e-6, 3e-5}), taken);
            sample_release(&turned);
            sample_release(&s);
        }
}

static void without_tables_nothing_is_rotated_back(void **state) {
    (void)state;
    graph *g = graph_create("refused");
    shape q = SHAPE(1, 2, 3, 4), sums = SHAPE(1, 2, 3);
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &q, "x");
    value *lse = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &sums, "lse");
    graph_add_node(g, &op_attention_gradient, (value *[]){x, x, x, x, x, lse}, 6,
                   (attribute[]){ATTR_INTEGER("causal", 1), ATTR_REAL("scale", 1),
                                 ATTR_INTEGER("inverse_rope", 1)},
                   3);
    expect_failure(graph_status(g), DYNO_INVALID, "there are no tables");
    graph_destroy(g);
}

/* ---- the reference ---- */

static void every_tile_agrees_with_the_reference_in_double(void **state) {
    (void)state;
    static const int64_t head_dims[] = {2, 6, 16, 34, 64, 80, 128, 254};
    for (uint64_t round = 0; round < 16; round++) {
        draw d = draw_create(round, 1);
        int64_t kv = 1 + draw_below(&d, 2);
        sizes z = {1 + draw_below(&d, 2),   kv * (1 + draw_below(&d, 3)), kv,
                   1 + draw_below(&d, 280), 1 + draw_below(&d, 280),      head_dims[round % 8]};
        placing how = (placing)draw_below(&d, PLACING_COUNT);
        bool is_causal = draw_below(&d, 3) > 0;
        sample s = rotated_sample(&z, DTYPE_F32, is_causal, how, NORMAL);
        assert_true(check_variants(&s, (tolerance){2e-6, 3e-6}) >= 6);
        s = gradient_of(&s, 1);
        assert_true(check_variants(&s, (tolerance){2e-6, 3e-5}) >= 6);
        sample_release(&s);
    }
}

/* The last query and the last key stand at the same position: queries that come later of as many
 * keys get what they get among all queries. */
static void fewer_queries_are_the_last_ones(void **state) {
    (void)state;
    enum { KEYS = 9, LAST = 4, S = 6 };
    sizes all = {1, 1, 1, KEYS, KEYS, S}, few = {1, 1, 1, LAST, KEYS, S};
    sample s = rotated_sample(&all, DTYPE_F32, true, PLACED_DENSE, NORMAL);
    sample t = rotated_without_numbers(&few, DTYPE_F32, true, PLACED_DENSE);
    sample_place(&t, ATTENTION_Q, s.dense[ATTENTION_Q] + (KEYS - LAST) * S);
    sample_place(&t, ATTENTION_K, s.dense[ATTENTION_K]);
    sample_place(&t, ATTENTION_V, s.dense[ATTENTION_V]);
    sample_expect(&t);
    for (int64_t i = 0; i < LAST * S; i++)
        assert_true(t.want[0][i] == s.want[0][(KEYS - LAST) * S + i]);
    assert_int_equal(check_kernels(&t, (tolerance){2e-6, 3e-6}), kernels_here(DTYPE_F32));
    sample_release(&s);
    sample_release(&t);
}

/* ---- the ends of floats ---- */

/* 3e38 is a finite bf16 that a rotation makes infinite, where nobody sees it. */
static void a_hidden_row_may_overflow_when_it_is_rotated(void **state) {
    (void)state;
    static const sizes z = {1, 1, 1, 150, 150, 40};
    static const double spoiled[] = {3e38, -INFINITY, NAN};
    for (int way = 0; way < 2 * 3 * 3; way++) {
        int input = way % 2 ? ATTENTION_K : ATTENTION_Q;
        dtype type = TYPES[way / 2 % 3];
        sample s = rotated_sample(&z, type, true, PLACED_MISALIGNED, NORMAL);
        double *given = s.dense[input];
        for (int64_t d = 0; d < z.head_dim; d++)
            given[41 * z.head_dim + d] = spoiled[way / 6];
        free(s.in[input].block);
        sample_place(&s, input, given);
        free(given);
        sample_expect_again(&s);
        for (int64_t i = 0; i < 41 * z.head_dim; i++)
            assert_true(isfinite(s.want[0][i]));
        assert_int_equal(compare_with_rope(&s), kernels_here(type));
        s = gradient_of(&s, 1);
        assert_int_equal(compare_with_rope(&s), kernels_here(type));
        sample_release(&s);
    }
}

/* ---- threads ---- */

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    static const sizes several[] = {{1, 1, 1, 300, 900, 16}, {2, 6, 2, 150, 300, 40}};
    for (int way = 0; way < 4; way++) {
        sample s = rotated_sample(&several[way / 2], TYPES[way % 2], true, PLACED_BY_TOKEN, NORMAL);
        expect_same_bits_with_threads(&s);
        s = gradient_of(&s, 1);
        expect_same_bits_with_threads(&s);
        sample_release(&s);
    }
}

/* ---- what is no rotation ---- */

static void expect_refusal(shape angles, dtype type, bool has_both, const char *part) {
    graph *g = graph_create("refused");
    shape q = SHAPE(1, 2, 3, 4), k = SHAPE(1, 2, 5, 4);
    value *in[] = {graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &q, "q"),
                   graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &k, "k"),
                   graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &k, "v"),
                   graph_add_leaf(g, ROLE_INPUT, type, &angles, "cos"),
                   graph_add_leaf(g, ROLE_INPUT, type, &angles, "sin")};
    graph_add_node(g, &op_attention, in, has_both ? 5 : 4,
                   (attribute[]){ATTR_INTEGER("causal", 1), ATTR_REAL("scale", 1)}, 2);
    expect_failure(graph_status(g), DYNO_INVALID, part);
    graph_destroy(g);
}

static void tables_have_a_row_for_every_position(void **state) {
    (void)state;
    expect_refusal(SHAPE(3, 2), DTYPE_F32, true, "it must be f32[max(T,T2),S/2]");
    expect_refusal(SHAPE(5, 4), DTYPE_F32, true, "it must be f32[max(T,T2),S/2]");
    expect_refusal(SHAPE(5, 2), DTYPE_BF16, true, "bf16[5,2]");
    expect_refusal(SHAPE(5, 2), DTYPE_F32, false, "takes 3 or 5 inputs, 4 given");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_give_what_they_give_after_rope),
        cmocka_unit_test(gradients_alone_are_rotated_back),
        cmocka_unit_test(without_tables_nothing_is_rotated_back),
        cmocka_unit_test(every_tile_agrees_with_the_reference_in_double),
        cmocka_unit_test(fewer_queries_are_the_last_ones),
        cmocka_unit_test(a_hidden_row_may_overflow_when_it_is_rotated),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(tables_have_a_row_for_every_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
