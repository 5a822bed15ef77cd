/* test_squares.c - sums of squares that are exact: the same bits for every division of their terms. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "ops/kernel.h"
#include "ops/op_list.h"
#include "ops/squares/squares.h"

enum { COUNT = 100003 };

static void add_up(const float *x, int64_t count, double *limbs) {
    shape s = SHAPE(count), to = SHAPE(SQUARES_LENGTH);
    tensor in = tensor_contiguous((void *)x, DTYPE_F32, &s);
    tensor out = tensor_contiguous(limbs, DTYPE_F64, &to);
    const kernel *k = op_squares.kernels[0];
    kernel_args args = {.input_count = 1, .output_count = 1, .inputs = &in, .outputs = &out};
    void *workspace = memory_allocate(1, k->workspace_bytes(&args));
    args.workspace = workspace;
    assert_int_equal(k->run(&args), DYNO_OK);
    free(workspace);
}

static float root(const double *limbs, int64_t parts) {
    shape s = SHAPE(parts * SQUARES_LENGTH), scalar = SHAPE_SCALAR;
    float norm;
    tensor in = tensor_contiguous((void *)limbs, DTYPE_F64, &s);
    tensor out = tensor_contiguous(&norm, DTYPE_F32, &scalar);
    kernel_args args = {.input_count = 1, .output_count = 1, .inputs = &in, .outputs = &out};
    assert_int_equal(op_root_of_squares.kernels[0]->run(&args), DYNO_OK);
    return norm;
}

/* Of all exponents that gradients have, and of some that they have not. */
static float *draw_terms(void) {
    float *x = memory_allocate(COUNT, sizeof *x);
    rng_stream random = rng_stream_init(3, 1);
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = rng_bits(random, (uint64_t)i);
        x[i] = ldexpf((float)(bits >> 40) / 16777216.0f, (int)(bits & 63) - 40) *
               (bits & 64 ? 1.0f : -1.0f);
    }
    return x;
}

static void parts_in_any_number_give_the_same_bits(void **state) {
    (void)state;
    static double limbs[7 * SQUARES_LENGTH];
    float *x = draw_terms();
    add_up(x, COUNT, limbs);
    float whole = root(limbs, 1);
    for (int parts = 2; parts <= 7; parts++) {
        int64_t from = 0;
        for (int p = 0; p < parts; p++) {
            int64_t to = p + 1 < parts ? from + 1 + (int64_t)p * 4001 : COUNT;
            add_up(x + from, to - from, limbs + p * SQUARES_LENGTH);
            from = to;
        }
        float norm = root(limbs, parts);
        assert_memory_equal(&norm, &whole, sizeof norm);
    }
    long double sum = 0;
    for (int i = 0; i < COUNT; i++)
        sum += (long double)x[i] * x[i];
    assert_true(fabsl(sqrtl(sum) / whole - 1) < 1e-7L);
    free(x);
}

static void extremes_are_counted(void **state) {
    (void)state;
    static double limbs[SQUARES_LENGTH];
    const float tiny = 1e-45f, huge = 3e38f;
    add_up(&tiny, 1, limbs);
    assert_true(root(limbs, 1) == tiny);
    add_up(&huge, 1, limbs);
    assert_true(root(limbs, 1) == huge);
    const float zeros[] = {0.0f, -0.0f};
    add_up(zeros, 2, limbs);
    assert_true(root(limbs, 1) == 0);
}

static void what_is_not_finite_shows(void **state) {
    (void)state;
    static double limbs[SQUARES_LENGTH];
    const float infinite[] = {1, -INFINITY, 2, 3, 4}, broken[] = {1, 2, 3, 4, NAN, INFINITY};
    add_up(infinite, 5, limbs);
    assert_true(isinf(root(limbs, 1)));
    add_up(broken, 6, limbs);
    assert_true(isnan(root(limbs, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_in_any_number_give_the_same_bits),
        cmocka_unit_test(extremes_are_counted),
        cmocka_unit_test(what_is_not_finite_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
