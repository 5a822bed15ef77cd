/* test_target.c - the chips that can be planned for. */
#include "base/target.h"

#include <string.h>

#include "support/expect.h"

static void named_targets_are_found(void **state) {
    (void)state;
    static const struct {
        const char *name;
        target_kind kind;
        int capability;
    } wanted[] = {{"h200", TARGET_CUDA, 90}, {"h100", TARGET_CUDA, 90}, {"a100", TARGET_CUDA, 80},
                  {"4090", TARGET_CUDA, 89}, {"cpu", TARGET_CPU, 0},    {"avx2", TARGET_CPU, 0},
                  {"avx512", TARGET_CPU, 0}, {"amx", TARGET_CPU, 0},    {"aarch64", TARGET_CPU, 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const target *found;
        assert_int_equal(target_find(wanted[i].name, &found), DYNO_OK);
        assert_int_equal(found->kind, wanted[i].kind);
        assert_int_equal(found->capability, wanted[i].capability);
        assert_true(found->cores > 0);
        assert_true(found->memory_bytes > 0);
    }
}

static void an_unknown_target_is_answered_with_those_there_are(void **state) {
    (void)state;
    const target *found;
    assert_int_equal(target_find("h300", &found), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "h200, h100, a100, 4090"));
    assert_null(found);
}

static void a_named_cpu_has_only_the_instruction_sets_it_names(void **state) {
    (void)state;
    const target *avx2, *avx512, *aarch64;
    assert_int_equal(target_find("aarch64", &aarch64), DYNO_OK);
    assert_true(target_has(aarch64, ISA_NEON) && !target_has(aarch64, ISA_SVE));
    assert_string_equal(target_capability(aarch64).text, "NEON");
    assert_false(target_has(aarch64, ISA_AVX2));
    assert_int_equal(target_find("avx2", &avx2), DYNO_OK);
    assert_int_equal(target_find("avx512", &avx512), DYNO_OK);
    assert_true(target_has(avx2, ISA_AVX2) && !target_has(avx2, ISA_AVX512));
    assert_true(target_has(avx512, ISA_AVX512) && !target_has(avx512, ISA_AMX_BF16));
}

static void this_cpu_has_what_it_can_execute(void **state) {
    (void)state;
    for (int i = 0; i < ISA_COUNT; i++)
        assert_int_equal(target_has(target_this_cpu(), (isa)i), isa_check((isa)i).is_usable);
}

/* A build for one architecture plans for the others, and never runs them. */
static void a_target_of_another_architecture_is_refused_with_both_names(void **state) {
    (void)state;
    const target *foreign;
    bool is_x86 = isa_is_of_this_architecture(ISA_AVX2);
    assert_int_equal(target_find(is_x86 ? "aarch64" : "avx2", &foreign), DYNO_OK);
    assert_int_equal(target_check_is_runnable(foreign), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), is_x86 ? "it is of aarch64, and this CPU is x86-64"
                                                        : "it is of x86-64, and this CPU is"));
    assert_non_null(strstr(dyno_error_message(), "dyno plan --target"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_targets_are_found),
        cmocka_unit_test(an_unknown_target_is_answered_with_those_there_are),
        cmocka_unit_test(a_named_cpu_has_only_the_instruction_sets_it_names),
        cmocka_unit_test(this_cpu_has_what_it_can_execute),
        cmocka_unit_test(a_target_of_another_architecture_is_refused_with_both_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
