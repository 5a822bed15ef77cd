#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/isa.h"
#include "base/threads.h"
#include "measure/machine.h"
#include "measure/machine_bf16.h"
#include "measure/optional.h"

static void peaks_are_positive_and_measured_once(void **state) {
    (void)state;
    machine_peaks first, second;
    assert_int_equal(machine_peaks_get(target_this_cpu(), 0, &first), DYNO_OK);
    assert_int_equal(first.threads, threads_count());
    assert_true(first.gflops_f32 > 0);
    assert_true(first.bandwidth.read > 0 && first.bandwidth.copy > 0 && first.bandwidth.triad > 0);
    assert_int_equal(machine_peaks_get(target_this_cpu(), threads_count(), &second), DYNO_OK);
    assert_memory_equal(&first, &second, sizeof first); /* a second measurement would differ */
}

static void bf16_has_a_peak_where_the_cpu_multiplies_it(void **state) {
    (void)state;
    machine_peak peak = machine_measure_peak_bf16(target_this_cpu(), 1);
    bool is_native = isa_check(ISA_AMX_BF16).is_usable || isa_check(ISA_AVX512_BF16).is_usable;
    assert_int_equal(peak.gflops > 0, is_native);
    assert_int_equal(peak.by != NULL, is_native);
}

/* Sums of ones: each iteration adds twice the depth of a product, and floats hold it. */
static void the_loop_multiplies_what_it_counts(void **state) {
    (void)state;
    machine_loop loop = machine_loop_bf16(target_this_cpu());
    if (!loop.run)
        return;
    bool has_tiles = isa_check(ISA_AMX_BF16).is_usable;
    double sums = has_tiles ? 4 * 32 : 12 * 2, lanes = has_tiles ? 256 : 16;
    float before = loop.run(0, 1), after = loop.run(10, 1);
    assert_true(after - before == (float)(10 * sums));
    assert_int_equal(loop.flops, (int64_t)(2 * sums * lanes));
}

static void a_cpu_without_bf16_products_has_no_peak_of_them(void **state) {
    (void)state;
    const target *held;
    assert_int_equal(target_find("avx2", &held), DYNO_OK);
    machine_peak peak = machine_measure_peak_bf16(held, 1);
    assert_true(peak.gflops == 0 && !peak.by);
}

static void a_missing_part_says_what_was_looked_for(void **state) {
    (void)state;
    for (optional_part part = 0; part < OPTIONAL_COUNT; part++) {
        optional_answer answer = optional_find(part);
        assert_true(answer.detail[0]);
        assert_true(optional_name(part)[0] && optional_without(part)[0]);
    }
    assert_true(optional_find_compiler().detail[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_positive_and_measured_once),
        cmocka_unit_test(bf16_has_a_peak_where_the_cpu_multiplies_it),
        cmocka_unit_test(the_loop_multiplies_what_it_counts),
        cmocka_unit_test(a_cpu_without_bf16_products_has_no_peak_of_them),
        cmocka_unit_test(a_missing_part_says_what_was_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
