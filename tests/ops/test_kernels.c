/* test_kernels.c - every CPU kernel of every op against the op's reference in double, over
 * random shapes and layouts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/global_norm/global_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "support/kernel_run.h"
#include "support/kernel_sweep.h"
#include "support/numbers.h"

enum { ROUNDS = 80 };

static const char *run_here(void *context, const node *n, const kernel *k, const tensor *inputs,
                            tensor *outputs) {
    return kernel_run_for(context, n, k, inputs, outputs);
}

static bool may_use_onednn(const target *chip) {
    const char *why;
    return target_is_this_cpu(chip) && matmul_onednn_version(&why);
}

static kernel_sweep sweep_for(const target *chip) {
    return (kernel_sweep){
        .target = TARGET_CPU, .run = run_here, .context = (void *)chip, .sums_in_sequence = true};
}

static void every_op_has_a_case(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++)
        if (!op_case_find(op_list_at(i)))
            fail_msg("op '%s' has no case in tests/support/op_cases.c", op_list_at(i)->name);
}

/* oneDNN may not be installed, and the target may lack what a kernel is written for or be slow at
 * it; every other kernel must have found work. */
static bool may_be_absent(const kernel *k, const target *chip) {
    return (k == &matmul_onednn && !may_use_onednn(chip)) || k == &matmul_amx ||
           k == &matmul_avx512_bf16 || k == &matmul_avx512 || k == &matmul_avx2 ||
           k == &attention_avx512 || k == &attention_gradient_avx512 || k == &attention_avx2 ||
           k == &attention_gradient_avx2 || k == &attention_bf16_amx ||
           k == &attention_gradient_bf16_amx || k == &attention_bf16_dot ||
           k == &attention_gradient_bf16_dot;
}

static void expect_agreement(const target *chip) {
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        kernel_sweep sweep = sweep_for(chip);
        for (int round = 0; round < ROUNDS; round++) {
            draw d = draw_create((uint64_t)(1000 * o + round), round < 10 ? 20 : 4000);
            bool is_dense = round % 4 == 0;
            int accepted = kernel_sweep_case(&sweep, c, &d, is_dense, NULL);
            if (is_dense && !accepted)
                fail_msg("no kernel of '%s' takes dense operands for target %s", c->kind->name,
                         chip->name);
        }
        for (int k = 0; c->kind->kernels[k]; k++)
            if (c->kind->kernels[k]->target == TARGET_CPU && !sweep.runs[k] &&
                !may_be_absent(c->kind->kernels[k], chip))
                fail_msg("kernel %s rejected all operands for target %s", c->kind->kernels[k]->name,
                         chip->name);
    }
}

static void kernels_agree_with_the_reference_at_every_level(void **state) {
    (void)state;
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int i = 0; i < count; i++)
        expect_agreement(chips[i]);
}

static void kernels_agree_on_operands_that_several_threads_share(void **state) {
    (void)state;
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int o = 0; o < op_list_count(); o++)
        for (int round = 0; round < 3 * count; round++) {
            kernel_sweep sweep = sweep_for(chips[round / 3]);
            draw d = draw_create((uint64_t)(77 * o + round % 3), 40000);
            d.is_full = true;
            kernel_sweep_case(&sweep, op_case_find(op_list_at(o)), &d, round % 3 != 1, NULL);
        }
}

/* NaN and infinities go through, overflow gives infinity, subnormals are kept. */
static void single_operations_take_any_float_as_ieee_has_it(void **state) {
    (void)state;
    fill special = fill_special_floats();
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        for (int round = 0; c->takes_any_float && round < 10 * count; round++) {
            kernel_sweep sweep = sweep_for(chips[round / 10]);
            draw d = draw_create((uint64_t)(31 * o + round % 10), 3000);
            d.is_full = true;
            kernel_sweep_case(&sweep, c, &d, round % 2 == 0, &special);
        }
    }
}

static void expect_unary(const op *kind, float x, double want, double ulps) {
    const shape one = SHAPE(1);
    graph *g = graph_create("unary");
    value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &one, "a");
    value *y = graph_add_node(g, kind, &a, 1, &ATTR_REAL("s", 1.0), 1);
    tensor in = tensor_contiguous(&x, DTYPE_F32, &one), out;
    assert_null(kernel_run(y->producer, kind->kernels[0], &in, &out));
    float got = *(float *)out.data;
    if (ulps_apart(got, want) > ulps)
        fail_msg("%s(%g) is %g, not %g", kind->name, (double)x, (double)got, want);
    free(out.data);
    graph_destroy(g);
}

static void sigmoid_saturates(void **state) {
    (void)state;
    expect_unary(&op_sigmoid, INFINITY, 1, 0);
    expect_unary(&op_sigmoid, -INFINITY, 0, 0);
    expect_unary(&op_sigmoid, 200, 1, 0);
    expect_unary(&op_sigmoid, -200, 0, 0);
    expect_unary(&op_sigmoid, NAN, NAN, 0);
    expect_unary(&op_sigmoid, -0.0f, 0.5, 0);
    expect_unary(&op_sigmoid, -80, 1 / (1 + exp(80)), 3);
}

static void clipping_hides_neither_an_infinite_norm_nor_a_nan(void **state) {
    (void)state;
    expect_unary(&op_clip_coefficient, 0, 1, 0);
    expect_unary(&op_clip_coefficient, 2, 1 / (2 + 1e-6), 1.5);
    expect_unary(&op_clip_coefficient, INFINITY, 0, 0);
    expect_unary(&op_clip_coefficient, NAN, NAN, 0);
}

/* Norm, loss scale, limit: what undoes the scale, clipped or not; NaN when the norm overflowed. */
static void unscaling_shows_an_overflow_as_nan(void **state) {
    (void)state;
    static const struct {
        float norm, scale;
        double limit, want;
    } cases[] = {{8, 4, 0, 0.25},           {8, 4, 1, 0.125},      {8, 4, 3, 0.25},
                 {0, 65536, 1, 0x1p-16},    {INFINITY, 4, 1, NAN}, {NAN, 4, 1, NAN},
                 {INFINITY, 65536, 0, NAN}, {NAN, 65536, 0, NAN},  {3e38f, 1024, 0, 0x1p-10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph *g = graph_create("unscale");
        value *norm = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "norm");
        value *scale = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "scale");
        value *y = build_unscale_coefficient(g, norm, scale, cases[i].limit);
        float numbers[] = {cases[i].norm, cases[i].scale};
        tensor in[] = {tensor_contiguous(&numbers[0], DTYPE_F32, &SHAPE_SCALAR),
                       tensor_contiguous(&numbers[1], DTYPE_F32, &SHAPE_SCALAR)};
        tensor out;
        assert_null(kernel_run(y->producer, op_unscale_coefficient.kernels[0], in, &out));
        float got = *(float *)out.data;
        if (isnan(cases[i].want) ? !isnan(got) : !(fabs((double)got - cases[i].want) < 1e-6))
            fail_msg("case %zu: %g, not %g", i, (double)got, cases[i].want);
        free(out.data);
        graph_destroy(g);
    }
}

/* Every f16, and floats around them, against dtype.h: dense rows and others go different ways. */
static void casts_to_and_from_f16_are_exact_for_every_pattern(void **state) {
    (void)state;
    enum { PATTERNS = 0x10000, EACH = 7, ALL = PATTERNS * EACH };
    const shape all = SHAPE(PATTERNS, EACH);
    graph *g = graph_create("cast");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &all, "x");
    value *narrow = build_cast(g, x, DTYPE_F16), *wide = build_cast(g, narrow, DTYPE_F32);
    float *numbers = memory_allocate(ALL, sizeof *numbers);
    for (uint32_t i = 0; i < ALL; i++) {
        float at = dtype_f16_to_f32((uint16_t)(i / EACH));
        float next = dtype_f16_to_f32((uint16_t)(i / EACH + 1));
        float middle = isfinite(at) && isfinite(next) ? (at + next) / 2 : at;
        float around[EACH] = {at,   middle,  nextafterf(middle, at),  nextafterf(middle, next),
                              next, -middle, nextafterf(at, INFINITY)};
        numbers[i] = around[i % EACH];
    }
    for (int order = 0; order < 2; order++) {
        tensor in = tensor_contiguous(numbers, DTYPE_F32, &all), half, out;
        if (order) { /* the same numbers, their dimensions swapped */
            in = tensor_contiguous(numbers, DTYPE_F32, &SHAPE_SCALAR);
            in.shape = all;
            in.stride[0] = 1;
            in.stride[1] = PATTERNS;
        }
        assert_null(kernel_run(narrow->producer, op_cast.kernels[2], &in, &half));
        assert_null(kernel_run(wide->producer, op_cast.kernels[3], &half, &out));
        for (int64_t i = 0; i < ALL; i++) {
            float given = numbers[order ? i / EACH + i % EACH * PATTERNS : i];
            uint16_t got = ((uint16_t *)half.data)[i];
            float back = ((float *)out.data)[i], want = dtype_f16_to_f32(got);
            if (got != dtype_f32_to_f16(given))
                fail_msg("%a became %04x, not %04x", (double)given, got, dtype_f32_to_f16(given));
            assert_true(back == want || (isnan(back) && isnan(want)));
        }
        free(half.data);
        free(out.data);
    }
    free(numbers);
    graph_destroy(g);
}

/* Over the innermost, the outermost and a middle dimension: three ways a kernel goes. */
static void reductions_let_a_nan_through(void **state) {
    (void)state;
    const shape cube = SHAPE(7, 70, 5);
    const op *kinds[] = {&op_max, &op_sum, &op_mean};
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int k = 0; k < 3; k++)
        for (int64_t axis = 0; axis < 3; axis++)
            for (int64_t at = 0; at < 7 * 70 * 5; at += 31) {
                graph *g = graph_create("nan");
                value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &cube, "a");
                value *y = graph_add_node(g, kinds[k], &a, 1, &ATTR_LIST("axes", SHAPE(axis)), 1);
                float data[7 * 70 * 5];
                for (int i = 0; i < 7 * 70 * 5; i++)
                    data[i] = (float)i;
                data[at] = NAN;
                tensor in = tensor_contiguous(data, DTYPE_F32, &a->shape), out;
                for (int t = 0; t < count; t++) {
                    assert_null(
                        kernel_run_for(chips[t], y->producer, kinds[k]->kernels[0], &in, &out));
                    int nans = 0;
                    for (int64_t i = 0; i < shape_elements(&out.shape); i++)
                        nans += isnan(((float *)out.data)[i]) != 0;
                    assert_int_equal(nans, 1);
                    free(out.data);
                }
                graph_destroy(g);
            }
}

/* Every bf16, and the floats just below, at and above the middle to the next one. */
static void casts_to_and_from_bf16_are_exact_for_every_pattern(void **state) {
    (void)state;
    enum { PATTERNS = 0x10000, EACH = 6 };
    static const uint32_t low[EACH] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const shape all = SHAPE(PATTERNS, EACH);
    graph *g = graph_create("cast");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &all, "x");
    value *narrow = build_cast(g, x, DTYPE_BF16), *wide = build_cast(g, narrow, DTYPE_F32);
    uint32_t *bits = memory_allocate(PATTERNS * EACH, sizeof *bits);
    for (uint32_t i = 0; i < PATTERNS * EACH; i++)
        bits[i] = i / EACH << 16 | low[i % EACH];
    tensor in = tensor_contiguous(bits, DTYPE_F32, &all), half, out;
    for (int k = 0; op_cast.kernels[k]; k++) {
        if (kernel_run(narrow->producer, op_cast.kernels[k], &in, &half))
            continue;
        for (uint32_t i = 0; i < PATTERNS * EACH; i++) {
            float given = ((float *)(void *)bits)[i];
            uint16_t got = ((uint16_t *)half.data)[i];
            if (isnan(given) ? !isnan(dtype_bf16_to_f32(got)) : got != dtype_f32_to_bf16(given))
                fail_msg("%s: %08x became %04x", op_cast.kernels[k]->name, bits[i], got);
        }
        for (int back = 0; op_cast.kernels[back]; back++) {
            if (kernel_run(wide->producer, op_cast.kernels[back], &half, &out))
                continue;
            for (uint32_t i = 0; i < PATTERNS * EACH; i++) {
                float got = ((float *)out.data)[i];
                float want = dtype_bf16_to_f32(((uint16_t *)half.data)[i]);
                assert_true(got == want || (isnan(got) && isnan(want)));
            }
            free(out.data);
        }
        free(half.data);
    }
    free(bits);
    graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case),
        cmocka_unit_test(kernels_agree_with_the_reference_at_every_level),
        cmocka_unit_test(kernels_agree_on_operands_that_several_threads_share),
        cmocka_unit_test(single_operations_take_any_float_as_ieee_has_it),
        cmocka_unit_test(sigmoid_saturates),
        cmocka_unit_test(clipping_hides_neither_an_infinite_norm_nor_a_nan),
        cmocka_unit_test(reductions_let_a_nan_through),
        cmocka_unit_test(casts_to_and_from_bf16_are_exact_for_every_pattern),
        cmocka_unit_test(casts_to_and_from_f16_are_exact_for_every_pattern),
        cmocka_unit_test(unscaling_shows_an_overflow_as_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
