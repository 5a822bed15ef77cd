/* test_least_time.c - the longer of arithmetic and memory, at the rate of the product's type. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/least_time.h"

#include <math.h>

#include "support/expect.h"
#include "support/small_model.h"

static const target_rates ROUND = {.fp32 = 1e9, .tf32 = 2e9, .low = 4e9, .memory = 1e8};

static bool is_near(double x, double y) { return fabs(x - y) <= 1e-9 * fabs(y); }

static double time_of(const char *class_name, dtype type, double flops, double bytes) {
    plan_operand input = {.layout = {.type = type}};
    plan_launch l = {.class_name = class_name,
                     .op_name = "op",
                     .input_count = 1,
                     .inputs = &input,
                     .flops = flops,
                     .bytes_read = bytes};
    return least_time_of_launch(&l, &ROUND);
}

static void a_launch_takes_the_longer_of_arithmetic_and_memory(void **state) {
    (void)state;
    assert_true(is_near(time_of("matmul", DTYPE_F32, 1e9, 1e6), 1));
    assert_true(is_near(time_of("matmul", DTYPE_F32, 1e6, 1e9), 10));
}

static void only_products_have_the_rate_of_low_types(void **state) {
    (void)state;
    assert_true(is_near(time_of("matmul", DTYPE_BF16, 4e9, 0), 1));
    assert_true(is_near(time_of("attention", DTYPE_F16, 4e9, 0), 1));
    assert_true(is_near(time_of("element-wise", DTYPE_BF16, 4e9, 0), 4));
}

static void every_chip_with_a_name_has_rates(void **state) {
    (void)state;
    for (int i = 0; i < target_count(); i++) {
        target_rates rates = target_rates_of(target_at(i));
        assert_true(rates.fp32 > 0 && rates.low >= rates.fp32 && rates.tf32 >= rates.fp32);
        assert_true(rates.memory > 0 && rates.link > 0 && rates.launch > 0);
    }
}

/* A device's target has a name of its own, "cuda". */
static void a_gpu_at_hand_has_the_rates_of_the_one_it_is(void **state) {
    (void)state;
    const target *named;
    expect_ok(target_find("h100", &named));
    target found = *named;
    found.name[0] = 'x';
    target_rates a = target_rates_of(&found), b = target_rates_of(named);
    assert_memory_equal(&a, &b, sizeof a);
    expect_ok(target_find("a100", &named));
    target_rates other = target_rates_of(named);
    assert_true(other.low < b.low);
}

static void phases_add_up_to_the_step(void **state) {
    (void)state;
    plan *p = small_model_plan(&small_model_fixed, 2, 5, STEP_FULL);
    double sum = 0;
    for (int i = 0; i < PHASE_COUNT; i++)
        sum += least_time_of_plan(p, (phase)i);
    assert_true(sum > 0 && is_near(sum, least_time_of_plan(p, PHASE_COUNT)));
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_takes_the_longer_of_arithmetic_and_memory),
        cmocka_unit_test(only_products_have_the_rate_of_low_types),
        cmocka_unit_test(every_chip_with_a_name_has_rates),
        cmocka_unit_test(a_gpu_at_hand_has_the_rates_of_the_one_it_is),
        cmocka_unit_test(phases_add_up_to_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
