#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/threads.h"
#include "measure/machine.h"
#include "measure/optional.h"

static void peaks_are_positive_and_measured_once(void **state) {
    (void)state;
    machine_peaks first, second;
    assert_int_equal(machine_peaks_get(0, &first), DYNO_OK);
    assert_int_equal(first.threads, threads_count());
    assert_true(first.gflops_f32 > 0);
    assert_true(first.bandwidth.read > 0 && first.bandwidth.copy > 0 && first.bandwidth.triad > 0);
    assert_int_equal(machine_peaks_get(threads_count(), &second), DYNO_OK);
    assert_memory_equal(&first, &second, sizeof first); /* a second measurement would differ */
}

static void a_missing_part_says_what_was_looked_for(void **state) {
    (void)state;
    for (optional_part part = 0; part < OPTIONAL_COUNT; part++) {
        optional_answer answer = optional_find(part);
        assert_true(answer.detail[0]);
        assert_true(optional_name(part)[0] && optional_purpose(part)[0]);
    }
    assert_true(optional_find_compiler().detail[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_positive_and_measured_once),
        cmocka_unit_test(a_missing_part_says_what_was_looked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
