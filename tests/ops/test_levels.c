/* test_levels.c - each kernel has a copy of its own for each level, and the target chooses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ops/attention/attention.h"
#include "ops/levels.h"
#include "ops/op_list.h"

#if defined(__x86_64__)

static const target *named(const char *name) {
    const target *found;
    assert_int_equal(target_find(name, &found), DYNO_OK);
    return found;
}

static const target BASELINE = {.name = "baseline"};

static void the_level_is_the_highest_that_the_target_has(void **state) {
    (void)state;
    assert_string_equal(level_name(&BASELINE), "x86-64");
    assert_string_equal(level_name(named("avx2")), "x86-64-v3");
    assert_string_equal(level_name(named("avx512")), "x86-64-v4");
    assert_string_equal(level_name(named("amx")), "x86-64-v4");
    assert_string_equal(level_of_generated(named("avx2")), "x86-64-v3");
    assert_string_equal(level_of_generated(target_this_cpu()), "native");
}

/* Those of attention; the others of the kind are engines of matmul's. */
static bool needs_avx512(const kernel *k) {
    return k == &attention_avx512 || k == &attention_gradient_avx512 || k == &attention_bf16_amx ||
           k == &attention_gradient_bf16_amx || k == &attention_bf16_dot ||
           k == &attention_gradient_bf16_dot;
}

static void every_cpu_kernel_has_a_copy_for_each_level(void **state) {
    (void)state;
    for (int i = 0; i < op_list_count(); i++)
        for (int j = 0; op_list_at(i)->kernels && op_list_at(i)->kernels[j]; j++) {
            const kernel *k = op_list_at(i)->kernels[j];
            const kernel *wide = level_kernel(k, named("avx2"));
            const kernel *widest = level_kernel(k, named("avx512"));
            assert_ptr_equal(level_kernel(k, &BASELINE), k);
            assert_string_equal(wide->name, k->name);
            assert_string_equal(widest->name, k->name);
            bool has_copies = widest->run != k->run && (wide->run != k->run || needs_avx512(k));
            if (k->target == TARGET_CPU && (!has_copies || wide->run == widest->run))
                fail_msg("kernel %s is compiled for every machine only", k->name);
        }
}

static void a_kernel_of_no_op_stays_as_it_is(void **state) {
    (void)state;
    const kernel own = {.name = "own", .target = TARGET_CPU};
    assert_ptr_equal(level_kernel(&own, named("avx512")), &own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_is_the_highest_that_the_target_has),
        cmocka_unit_test(every_cpu_kernel_has_a_copy_for_each_level),
        cmocka_unit_test(a_kernel_of_no_op_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void there_is_one_level(void **state) {
    (void)state;
#if defined(__aarch64__)
    const target with_sve = {.name = "sve", .instruction_sets = 1u << ISA_NEON | 1u << ISA_SVE};
    const target without = {.name = "neon", .instruction_sets = 1u << ISA_NEON};
    assert_string_equal(level_name(target_this_cpu()), "armv8-a");
    assert_string_equal(level_of_generated(&with_sve), "armv8.2-a+sve");
    assert_string_equal(level_of_generated(&without), "armv8-a");
#endif
    assert_ptr_equal(level_kernel(op_list_at(0)->kernels[0], target_this_cpu()),
                     op_list_at(0)->kernels[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_is_one_level)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
