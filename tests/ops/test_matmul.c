/* test_matmul.c - both kernels over transpositions, batches, views and sizes of 1. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "support/kernel_run.h"
#include "support/numbers.h"
#include "support/operand.h"

typedef struct problem {
    int64_t batch, m, n, k;
} problem;

static value *add_matmul(graph *g, const problem *p, bool ta, bool tb) {
    shape a = ta ? SHAPE(p->batch, p->k, p->m) : SHAPE(p->batch, p->m, p->k);
    shape b = tb ? SHAPE(p->batch, p->n, p->k) : SHAPE(p->batch, p->k, p->n);
    value *left = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &a, "a");
    return build_matmul(g, left, graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &b, "b"), ta, tb);
}

/* Roundings are independent: their sum grows with the root of the number of terms. */
static double tolerance(int64_t k) { return 6e-8 * (2 + sqrt((double)k)); }

/* Runs each kernel that accepts; returns a bit for each. */
static unsigned check_product(const problem *p, bool ta, bool tb, const operand *operands) {
    graph *g = graph_create("product");
    const node *n = add_matmul(g, p, ta, tb)->producer;
    assert_int_equal(graph_status(g), DYNO_OK);
    int64_t elements = p->batch * p->m * p->n;
    double *want = memory_allocate((size_t)elements, sizeof *want);
    n->op->reference(n, (const double *[]){operands[0].dense, operands[1].dense}, &want);
    tensor inputs[2] = {operands[0].view, operands[1].view}, out;
    /* One number may cancel by chance; judge few by what they should be in size. */
    double typical = sqrt((double)(elements * p->k)), size = 0;
    for (int64_t i = 0; i < elements; i++)
        size += want[i] * want[i];
    unsigned accepted = 0;
    for (unsigned k = 0; op_matmul.kernels[k]; k++) {
        if (kernel_run(n, op_matmul.kernels[k], inputs, &out))
            continue;
        accepted |= 1u << k;
        double *got = tensor_to_doubles(&out);
        double error = relative_error(got, want, elements) * sqrt(size) / fmax(sqrt(size), typical);
        if (!(error <= tolerance(p->k)))
            fail_msg("%s, %lld x [%lld,%lld,%lld]%s%s: error %.3g, limit %.3g",
                     op_matmul.kernels[k]->name, (long long)p->batch, (long long)p->m,
                     (long long)p->n, (long long)p->k, ta ? " Ta" : "", tb ? " Tb" : "", error,
                     tolerance(p->k));
        free(got);
        free(out.data);
    }
    free(want);
    graph_destroy(g);
    return accepted;
}

static unsigned check_layouts(const problem *p, bool ta, bool tb, layout left, layout right,
                              draw *d) {
    shape a = ta ? SHAPE(p->batch, p->k, p->m) : SHAPE(p->batch, p->m, p->k);
    shape b = tb ? SHAPE(p->batch, p->n, p->k) : SHAPE(p->batch, p->k, p->n);
    operand operands[2] = {operand_create(DTYPE_F32, &a, left, (fill){0}, d),
                           operand_create(DTYPE_F32, &b, right, (fill){0}, d)};
    unsigned accepted = check_product(p, ta, tb, operands);
    operand_release(&operands[0]);
    operand_release(&operands[1]);
    return accepted;
}

/* Of dense operands. */
static bool takes_onednn(const problem *p, bool ta, bool tb) {
    const char *why;
    gemm_problem dense = {.m = p->m, .n = p->n, .k = p->k, .batches = p->batch};
    dense.a = (gemm_operand){.row_stride = ta ? 1 : p->k, .column_stride = ta ? p->m : 1};
    dense.b = (gemm_operand){.row_stride = tb ? 1 : p->n, .column_stride = tb ? p->k : 1};
    return matmul_onednn_version(&why) != NULL && !gemm_pass_over(GEMM_ONEDNN, &dense);
}

/* The kernels that take f32 on this machine, whatever the view of the operands, and oneDNN where it does. */
static unsigned expected(bool with_onednn) {
    const target *here = target_this_cpu();
    unsigned bits = 0;
    for (unsigned k = 0; op_matmul.kernels[k]; k++) {
        const kernel *at = op_matmul.kernels[k];
        if ((at == &matmul_avx512 && target_has(here, ISA_AVX512)) ||
            (at == &matmul_avx2 && target_has(here, ISA_AVX2)) || at == &matmul_portable ||
            (at == &matmul_onednn && with_onednn))
            bits |= 1u << k;
    }
    return bits;
}

static const problem problems[] = {
    {1, 1, 1, 1},     {1, 1, 1, 1000},   {1, 1, 257, 33},  {1, 257, 1, 33},  {1, 65, 63, 1},
    {1, 6, 32, 256},  {1, 7, 33, 257},   {1, 48, 64, 512}, {1, 49, 65, 513}, {3, 17, 31, 127},
    {65, 2, 3, 7},    {2, 127, 129, 63}, {1, 600, 17, 40}, {1, 17, 500, 40}, {1, 513, 385, 16},
    {1, 3, 2, 10000}, {12, 33, 33, 16},
};

static void all_sizes_and_transpositions_agree_with_the_reference(void **state) {
    (void)state;
    draw d = draw_create(1, 0);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int way = 0; way < 4; way++) {
            unsigned accepted =
                check_layouts(&problems[i], way & 1, way >> 1, LAYOUT_DENSE, LAYOUT_DENSE, &d);
            /* Nobody rejects dense operands. */
            assert_int_equal(accepted, expected(takes_onednn(&problems[i], way & 1, way >> 1)));
        }
}

static void any_view_of_the_operands_is_right_where_accepted(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 17, 33, 65};
    draw d = draw_create(2, 0);
    int by_library = 0, rounds = 600;
    for (int round = 0; round < rounds; round++) {
        problem p = {1 + draw_below(&d, 3), sizes[draw_below(&d, 6)], sizes[draw_below(&d, 6)],
                     sizes[draw_below(&d, 6)]};
        layout left = (layout)draw_below(&d, LAYOUT_COUNT);
        layout right = (layout)draw_below(&d, LAYOUT_COUNT);
        unsigned accepted =
            check_layouts(&p, draw_chance(&d, 0.5), draw_chance(&d, 0.5), left, right, &d);
        assert_int_equal(accepted & expected(false), expected(false)); /* ours take any strides */
        by_library += accepted != expected(false);
    }
    if (takes_onednn(&(problem){1, 17, 33, 65}, false, false))
        assert_in_range(by_library, rounds / 6, rounds);
    else if (takes_onednn(&(problem){1, 17, 33, 65}, true, false))
        assert_in_range(by_library, rounds / 20, rounds);
}

/* One weight for a whole batch, and heads taken out of [tokens, heads, size] by a transpose. */
static void the_views_a_transformer_makes_go_to_the_library(void **state) {
    (void)state;
    draw d = draw_create(3, 0);
    shape weight = SHAPE(1, 33, 17), tokens = SHAPE(5, 4, 17), many = SHAPE(4, 33, 17);
    operand w = operand_create(DTYPE_F32, &weight, LAYOUT_DENSE, (fill){0}, &d);
    operand x = operand_create(DTYPE_F32, &tokens, LAYOUT_DENSE, (fill){0}, &d);
    operand views[2] = {{.view = tensor_view_transpose(&x.view, (int64_t[]){1, 0, 2})},
                        {.view = tensor_view_broadcast(&w.view, &many)}};
    for (int i = 0; i < 2; i++)
        views[i].dense = tensor_to_doubles(&views[i].view);
    problem p = {4, 5, 33, 17};
    assert_int_equal(check_product(&p, false, true, views),
                     expected(takes_onednn(&p, false, true)));
    free(views[0].dense);
    free(views[1].dense);
    operand_release(&w);
    operand_release(&x);
}

static void infinities_stay_in_their_rows(void **state) {
    (void)state;
    problem p = {1, 50, 40, 30};
    graph *g = graph_create("infinite");
    const node *n = add_matmul(g, &p, false, false)->producer;
    draw d = draw_create(4, 0);
    operand a = operand_create(DTYPE_F32, &n->inputs[0]->shape, LAYOUT_DENSE, (fill){0}, &d);
    operand b = operand_create(DTYPE_F32, &n->inputs[1]->shape, LAYOUT_DENSE, (fill){0}, &d);
    ((float *)a.view.data)[7 * 30 + 3] = INFINITY;
    ((float *)a.view.data)[49 * 30 + 29] = NAN;
    for (int k = 0; op_matmul.kernels[k]; k++) {
        tensor out;
        if (kernel_run(n, op_matmul.kernels[k], (tensor[]){a.view, b.view}, &out))
            continue;
        for (int i = 0; i < 50 * 40; i++) {
            float got = ((float *)out.data)[i];
            assert_int_equal(isfinite(got) != 0, i / 40 != 7 && i / 40 != 49);
            assert_int_equal(isnan(got) != 0, i / 40 == 49);
        }
        free(out.data);
    }
    operand_release(&a);
    operand_release(&b);
    graph_destroy(g);
}

/* Whoever multiplies without an op (loss_head) and the op's own list must agree on what is fastest. */
static void the_kernels_are_in_the_order_in_which_methods_are_picked(void **state) {
    (void)state;
    static const kernel *const by_method[GEMM_METHOD_COUNT] = {
        [GEMM_AMX] = &matmul_amx,       [GEMM_AVX512_BF16] = &matmul_avx512_bf16,
        [GEMM_ONEDNN] = &matmul_onednn, [GEMM_AVX512] = &matmul_avx512,
        [GEMM_AVX2] = &matmul_avx2,     [GEMM_PORTABLE] = &matmul_portable};
    for (int i = 0; i < GEMM_METHOD_COUNT; i++)
        assert_ptr_equal(op_matmul.kernels[i], by_method[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_and_transpositions_agree_with_the_reference),
        cmocka_unit_test(any_view_of_the_operands_is_right_where_accepted),
        cmocka_unit_test(the_views_a_transformer_makes_go_to_the_library),
        cmocka_unit_test(infinities_stay_in_their_rows),
        cmocka_unit_test(the_kernels_are_in_the_order_in_which_methods_are_picked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
