/* test_scalar_math.c - exp_f32 and log_f32 against libm in double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>

#include "ops/scalar_math.h"
#include "support/numbers.h"

typedef struct worst {
    double ulps;
    float at;
} worst;

/* Floats with bit patterns first, first + step, ... up to last. */
static void sweep(uint32_t first, uint32_t last, uint32_t step, float (*ours)(float),
                  double (*exact)(double), worst *found) {
    for (uint64_t bits = first; bits <= last; bits += step) {
        float x = float_from_bits((uint32_t)bits);
        double ulps = ulps_apart(ours(x), exact(x));
        if (ulps > found->ulps)
            *found = (worst){ulps, x};
    }
}

static float ours_exp(float x) { return exp_f32(x); }
static float ours_log(float x) { return log_f32(x); }

static void expect_within(const worst *found, double ulps) {
    if (found->ulps > ulps)
        fail_msg("%.3f ulp apart at %.9g", found->ulps, (double)found->at);
}

static void exp_is_within_one_and_a_half_ulp_everywhere(void **state) {
    (void)state;
    worst found = {0};
    sweep(0, UINT32_MAX, 2003, ours_exp, exp, &found);
    /* Every few floats where the result is subnormal, and where it overflows. */
    sweep(bits_from_float(-87.0f), bits_from_float(-104.5f), 3, ours_exp, exp, &found);
    sweep(bits_from_float(88.0f), bits_from_float(89.0f), 1, ours_exp, exp, &found);
    expect_within(&found, 1.5);
}

static void log_is_within_one_and_a_half_ulp_everywhere(void **state) {
    (void)state;
    worst found = {0};
    sweep(0, UINT32_MAX, 2003, ours_log, log, &found);
    /* Around 1 the result is small, and cancellation would show. */
    sweep(bits_from_float(0.7f), bits_from_float(1.42f), 11, ours_log, log, &found);
    sweep(1, 100000, 1, ours_log, log, &found);
    expect_within(&found, 1.5);
}

static void special_values_are_libms(void **state) {
    (void)state;
    static const float special[] = {0.0f,     -0.0f,   1.0f,    -1.0f,     INFINITY,  -INFINITY,
                                    NAN,      -NAN,    3e38f,   -3e38f,    0x1p-149f, -0x1p-149f,
                                    -103.97f, -104.0f, -150.0f, 88.72283f, 88.72284f, 104.0f};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        assert_true(ulps_apart(exp_f32(special[i]), exp(special[i])) <= 1.5);
        assert_true(ulps_apart(log_f32(special[i]), log(special[i])) <= 1.5);
    }
    assert_true(exp_f32(0) == 1 && log_f32(1) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_and_a_half_ulp_everywhere),
        cmocka_unit_test(log_is_within_one_and_a_half_ulp_everywhere),
        cmocka_unit_test(special_values_are_libms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
