/* test_attention_kernels.c - every CPU kernel of attention and of its gradients against the
 * reference in double, where tiles end, in every layout that is taken, and at the ends of floats.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_list.h"
#include "support/attention_sample.h"
#include "support/lane_functions.h"
#include "support/skip.h"

/* Where tiles, panels and blocks of 8 end, and around it. */
static const sizes SIZES[] =
    {
        {1, 1, 1, 1, 1, 1},     {1, 1, 1, 2, 2, 2},
        {2, 2, 1, 1, 7, 5},     {1, 2, 2, 5, 1, 16},
        {1, 4, 2, 33, 65, 24},  {2, 3, 1, 31, 32, 17},
        {1, 1, 1, 64, 8, 48},   {1, 2, 2, 129, 127, 64},
        {1, 1, 1, 65, 300, 8},  {1, 1, 1, 40, 150, 256},
        {1, 2, 1, 70, 40, 100}, {1, 1, 1, 300, 17, 144},
        {3, 2, 2, 2, 3, 4},     {1, 1, 1, 257, 260, 33},
        {6, 8, 4, 37, 70, 24}, /* 2, 3 or 4 threads take whole heads */
};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static const dtype TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* ---- sizes, types, layouts ---- */

static void forward_agrees_with_the_reference_for_all_sizes_types_and_layouts(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int how = 0; how < PLACING_COUNT; how++)
            for (int way = 0; way < 6; way++) {
                sample s = forward_sample(&SIZES[z], TYPES[way / 2], way % 2, (placing)how, NORMAL);
                assert_int_equal(check_kernels(&s, (tolerance){2e-6, 3e-6}),
                                 kernels_here(TYPES[way / 2]));
                sample_release(&s);
            }
}

static void gradients_agree_with_the_reference_for_all_sizes_types_and_layouts(void **state) {
    (void)state;
    for (int z = 0; z < SIZE_COUNT; z++)
        for (int how = 0; how < PLACING_COUNT; how++)
            for (int way = 0; way < 6; way++) {
                sample s =
                    gradient_sample(&SIZES[z], TYPES[way / 2], way % 2, (placing)how, NORMAL);
                assert_int_equal(check_kernels(&s, (tolerance){2e-6, 2e-5}),
                                 kernels_here(TYPES[way / 2]));
                sample_release(&s);
            }
}

static void every_tile_agrees_with_the_reference(void **state) {
    (void)state;
    static const int64_t head_dims[] = {8, 16, 33, 64, 80, 128, 144, 256};
    for (uint64_t round = 0; round < 24; round++) {
        draw d = draw_create(round, 1);
        int64_t kv = 1 + draw_below(&d, 2);
        sizes z = {1 + draw_below(&d, 2),   kv * (1 + draw_below(&d, 3)), kv,
                   1 + draw_below(&d, 280), 1 + draw_below(&d, 280),      head_dims[round % 8]};
        dtype type = TYPES[draw_below(&d, 3)];
        placing how = (placing)draw_below(&d, PLACING_COUNT);
        bool is_causal = draw_below(&d, 3) > 0;
        sample s = forward_sample(&z, type, is_causal, how, NORMAL);
        assert_true(check_variants(&s, (tolerance){2e-6, 3e-6}) >= 6);
        sample_release(&s);
        s = gradient_sample(&z, type, is_causal, how, NORMAL);
        assert_true(check_variants(&s, (tolerance){2e-6, 3e-5}) >= 6);
        sample_release(&s);
    }
}

/* ---- the ends of floats ---- */

/* A float near 1e4 is known to 1e-3, and a weight to as much of itself. */
static void scores_of_ten_thousand_neither_overflow_nor_vanish(void **state) {
    (void)state;
    numbers large = {70, 70, 1, 1};
    sizes z = {1, 2, 1, 45, 150, 16};
    for (int causal = 0; causal < 2; causal++) {
        sample s = forward_sample(&z, DTYPE_F32, causal, PLACED_DENSE, large);
        double highest = 0;
        for (int64_t i = 0; i < 2 * 45; i++)
            highest = fmax(highest, s.want[1][i]);
        assert_true(highest > 1e4);
        check_kernels(&s, (tolerance){2e-3, 2e-2});
        sample_release(&s);
        s = gradient_sample(&z, DTYPE_F32, causal, PLACED_DENSE, large);
        double largest = 0;
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < shape_elements(&s.n->outputs[i]->shape); j++)
                largest = fmax(largest, fabs(s.want[i][j]));
        check_kernels(&s, (tolerance){2e-3, 5e-3 * largest});
        sample_release(&s);
    }
}

static void a_score_of_minus_infinity_has_no_weight(void **state) {
    (void)state;
    sizes z = {1, 1, 1, 40, 140, 8};
    for (int all = 0; all < 2; all++) {
        sample s = forward_without_numbers(&z, DTYPE_F32, false, PLACED_DENSE);
        draw d = draw_create(3, 1);
        double q[40 * 8], k[140 * 8];
        for (int i = 0; i < 40 * 8; i++)
            q[i] = i % 8 ? draw_normal(&d) : 1;
        for (int i = 0; i < 140 * 8; i++)
            k[i] = i % 8 || !(all || i / 8 < 130 || i / 8 % 2) ? draw_normal(&d) : -INFINITY;
        sample_place(&s, ATTENTION_Q, q);
        sample_place(&s, ATTENTION_K, k);
        sample_draw(&s, ATTENTION_V, 1, &d);
        sample_expect(&s);
        assert_true(!all || s.want[1][0] == -INFINITY);
        check_kernels(&s, (tolerance){2e-6, 3e-6});
        sample_release(&s);
    }
}

static void a_nan_stays_in_the_rows_that_see_it(void **state) {
    (void)state;
    sizes z = {1, 1, 1, 70, 70, 8};
    sample s = forward_without_numbers(&z, DTYPE_F32, true, PLACED_DENSE);
    draw d = draw_create(5, 1);
    double k[70 * 8];
    for (int i = 0; i < 70 * 8; i++)
        k[i] = i == 41 * 8 + 3 ? (double)NAN : draw_normal(&d);
    sample_draw(&s, ATTENTION_Q, 1, &d);
    sample_place(&s, ATTENTION_K, k);
    sample_draw(&s, ATTENTION_V, 1, &d);
    for (int i = 0; s.n->op->kernels[i]; i++) {
        buffer out[MOST_OUTPUTS];
        if (!run_kernel(&s, s.n->op->kernels[i], out))
            continue;
        for (int64_t row = 0; row < 70; row++)
            for (int64_t j = 0; j < 8; j++)
                assert_int_equal(isnan(((float *)out[0].view.data)[row * 8 + j]) != 0, row >= 41);
        for (int j = 0; j < 2; j++)
            free(out[j].block);
    }
    sample_release(&s);
}

/* A row of the only head holds nothing but `number`. */
static void spoil_row(sample *s, int input, int64_t row, double number) {
    const shape *z = &s->n->inputs[input]->shape;
    double *given = s->dense[input];
    for (int64_t d = 0; d < z->dim[3]; d++)
        given[row * z->dim[3] + d] = number;
    free(s->in[input].block);
    sample_place(s, input, given);
    free(given);
}

/* Every query sees the keys up to its own place, every key goes to the queries from there on: what
 * the others hold is nothing to them, be it no number. */
static void what_is_hidden_may_be_infinite_or_nan(void **state) {
    (void)state;
    static const sizes several[] = {{1, 1, 1, 150, 150, 40}, {1, 1, 1, 100, 230, 64}};
    static const double spoiled[] = {NAN, INFINITY, -INFINITY};
    for (int way = 0; way < 2 * 3 * 3; way++) {
        const sizes *z = &several[way % 2];
        dtype type = TYPES[way / 2 % 3];
        double number = spoiled[way / 6];
        int64_t key = 41 + z->keys - z->queries;
        for (int input = ATTENTION_K; input <= ATTENTION_V; input++) {
            sample s = forward_sample(z, type, true, PLACED_MISALIGNED, NORMAL);
            spoil_row(&s, input, key, number);
            sample_expect_again(&s);
            for (int64_t i = 0; i < 41 * z->head_dim; i++)
                assert_true(isfinite(s.want[0][i]));
            assert_int_equal(check_kernels(&s, (tolerance){2e-6, 3e-6}), kernels_here(type));
            s = gradient_of(&s, 1);
            for (int64_t i = 0; i < 41 * z->head_dim; i++)
                assert_true(isfinite(s.want[ATTENTION_Q][i]));
            assert_int_equal(check_kernels(&s, (tolerance){2e-6, 2e-5}), kernels_here(type));
            sample_release(&s);
        }
        for (int input = ATTENTION_Q; input <= ATTENTION_DO; input += ATTENTION_DO) {
            sample s = gradient_sample(z, type, true, PLACED_DENSE, NORMAL);
            spoil_row(&s, input, 41, number);
            sample_expect_again(&s);
            for (int64_t i = (key + 1) * z->head_dim; i < z->keys * z->head_dim; i++)
                assert_true(isfinite(s.want[ATTENTION_K][i]) && isfinite(s.want[ATTENTION_V][i]));
            assert_int_equal(check_kernels(&s, (tolerance){2e-6, 2e-5}), kernels_here(type));
            sample_release(&s);
        }
    }
}

static void subnormal_operands_are_not_lost(void **state) {
    (void)state;
    numbers tiny = {1e-40, 1e-3, 1e-39, 1e-39};
    sizes z = {1, 2, 2, 9, 35, 20};
    for (int type = 0; type < 2; type++)
        for (int causal = 0; causal < 2; causal++) {
            sample s = forward_sample(&z, TYPES[type], causal, PLACED_DENSE, tiny);
            check_kernels(&s, (tolerance){1e-6, 16 * 0x1p-149});
            /* LSE is a logarithm of small integers, O a mean of subnormals. */
            assert_true(s.want[0][0] != 0 && fabs(s.want[0][0]) < 1e-38);
            sample_release(&s);
        }
}

/* ---- threads ---- */

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    static const sizes several[] = {
        {1, 1, 1, 300, 900, 16}, {2, 4, 2, 150, 300, 40}, {2, 10, 5, 130, 140, 24}};
    for (int z = 0; z < 3; z++)
        for (int causal = 0; causal < 2; causal++)
            for (int type = 0; type < 2; type++) {
                sample s =
                    forward_sample(&several[z], TYPES[type], causal, PLACED_BY_TOKEN, NORMAL);
                expect_same_bits_with_threads(&s);
                sample_release(&s);
                s = gradient_sample(&several[z], TYPES[type], causal, PLACED_BY_TOKEN, NORMAL);
                expect_same_bits_with_threads(&s);
                sample_release(&s);
            }
}

/* ---- pieces ---- */

#if defined(__x86_64__)
typedef void lane_function(const float *x, float *y);

static const lane_functions *const LANE_FUNCTIONS[] = {&lane_functions_avx2,
                                                       &lane_functions_avx512};
enum { LANE_FUNCTIONS_COUNT = sizeof LANE_FUNCTIONS / sizeof *LANE_FUNCTIONS };

static bool can_run(const lane_functions *f) { return isa_check(f->needs).is_usable; }

static void rough_exp2_is_within_three_millionths(void **state) {
    (void)state;
    int ran = 0;
    for (int f = 0; f < LANE_FUNCTIONS_COUNT; f++) {
        const lane_functions *of = LANE_FUNCTIONS[f];
        if (!can_run(of))
            continue;
        ran++;
        float x[MOST_LANES], y[MOST_LANES];
        for (int i = 0; i < 20000; i++) {
            for (int j = 0; j < of->lanes; j++)
                x[j] = -130 + (float)(i * of->lanes + j) * (135.0f / (float)(20000 * of->lanes));
            of->exp2_rough(x, y);
            for (int j = 0; j < of->lanes; j++)
                assert_true(fabs(y[j] / exp2((double)x[j]) - 1) <= (x[j] < -125 ? 0x1p-17 : 3e-6));
        }
        const float ends[MOST_LANES] = {NAN, -INFINITY, -1e30f, -151, 0};
        of->exp2_rough(ends, y);
        assert_true(isnan(y[0]) && y[1] == 0 && y[2] == 0 && y[3] == 0 && fabsf(y[4] - 1) < 3e-6f);
    }
    if (!ran)
        SKIP_BECAUSE("this CPU has neither AVX2 nor AVX-512");
}

/* From -155 up to `end`. */
static void expect_two_ulps(const lane_functions *of, lane_function *exp2_of, float end) {
    float x[MOST_LANES], y[MOST_LANES];
    for (int i = 0; i < 100000; i++) {
        for (int j = 0; j < of->lanes; j++)
            x[j] = -155 + (float)(i * of->lanes + j) * ((end + 155) / (float)(100000 * of->lanes));
        exp2_of(x, y);
        for (int j = 0; j < of->lanes; j++) {
            double want = exp2((double)x[j]), ulp = fmax(want * 0x1p-23, 0x1p-149);
            if (want < 0x1p128 ? fabs(y[j] - want) > 2 * ulp : !isinf(y[j]))
                fail_msg("%s: 2^%a is %a, not %a", isa_name(of->needs), (double)x[j], (double)y[j],
                         want);
        }
    }
}

static void exp2_is_within_two_ulps(void **state) {
    (void)state;
    int ran = 0;
    for (int f = 0; f < LANE_FUNCTIONS_COUNT; f++) {
        const lane_functions *of = LANE_FUNCTIONS[f];
        if (!can_run(of))
            continue;
        ran++;
        float y[MOST_LANES];
        expect_two_ulps(of, of->exp2, 130);
        const float ends[MOST_LANES] = {NAN, INFINITY, -INFINITY, 0.0f, -1e30f, 1e30f, 1, -1};
        of->exp2(ends, y);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[3] == 1 && y[4] == 0 &&
                    isinf(y[5]) && y[6] == 2 && y[7] == 0.5f);
    }
    if (!ran)
        SKIP_BECAUSE("this CPU has neither AVX2 nor AVX-512");
}

/* Weights are at most 1, but for rounding. */
static void exp2_of_weights_is_within_two_ulps(void **state) {
    (void)state;
    int ran = 0;
    for (int f = 0; f < LANE_FUNCTIONS_COUNT; f++) {
        const lane_functions *of = LANE_FUNCTIONS[f];
        if (!can_run(of))
            continue;
        ran++;
        float y[MOST_LANES];
        expect_two_ulps(of, of->panel_exp2, 64);
        const float ends[MOST_LANES] = {NAN, -INFINITY, 0.0f, -1e30f, -151, 1, -1, -126};
        of->panel_exp2(ends, y);
        assert_true(isnan(y[0]) && y[1] == 0 && y[2] == 1 && y[3] == 0 && y[4] == 0 && y[5] == 2 &&
                    y[6] == 0.5f && y[7] == 0x1p-126f);
        const float above[MOST_LANES] = {INFINITY, 1e30f, 200, 65};
        of->panel_exp2(above, y);
        for (int j = 0; j < 4; j++)
            assert_true(y[j] >= 0x1p64f);
    }
    if (!ran)
        SKIP_BECAUSE("this CPU has neither AVX2 nor AVX-512");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees_with_the_reference_for_all_sizes_types_and_layouts),
        cmocka_unit_test(gradients_agree_with_the_reference_for_all_sizes_types_and_layouts),
        cmocka_unit_test(every_tile_agrees_with_the_reference),
        cmocka_unit_test(scores_of_ten_thousand_neither_overflow_nor_vanish),
        cmocka_unit_test(a_score_of_minus_infinity_has_no_weight),
        cmocka_unit_test(a_nan_stays_in_the_rows_that_see_it),
        cmocka_unit_test(what_is_hidden_may_be_infinite_or_nan),
        cmocka_unit_test(subnormal_operands_are_not_lost),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
#if defined(__x86_64__)
        cmocka_unit_test(exp2_is_within_two_ulps),
        cmocka_unit_test(exp2_of_weights_is_within_two_ulps),
        cmocka_unit_test(rough_exp2_is_within_three_millionths),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
