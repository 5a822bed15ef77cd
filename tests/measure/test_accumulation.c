/* test_accumulation.c - sums in 16 bits, to the last bit. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "measure/accumulation.h"

/* What PyTorch prints for a thousand times 0.01, and what it gives in full. */
static void a_thousand_hundredths_add_up_as_in_pytorch(void **state) {
    (void)state;
    static const struct {
        const char *name, *shown;
        double exact;
    } wanted[] = {
        {"fp32", "10.0001", 10.000133514404297},
        {"fp16", "9.9531", 9.953125},
        {"fp16 into fp32", "10.0021", 10.00213623046875},
        {"fp16 cast, then into fp32", "10.0021", 10.00213623046875},
        {"bf16", "4.0000", 4.0},
        {"bf16 into fp32", "10.0098", 10.009765625},
        {"bf16 cast, then into fp32", "10.0098", 10.009765625},
    };
    assert_int_equal(accumulation_count(), sizeof wanted / sizeof *wanted);
    for (int i = 0; i < accumulation_count(); i++) {
        const accumulation *a = accumulation_at(i);
        double sum = accumulation_run(a, 0.01, 1000);
        char shown[32];
        snprintf(shown, sizeof shown, "%.4f", sum);
        assert_string_equal(a->name, wanted[i].name);
        assert_string_equal(shown, wanted[i].shown);
        if (sum != wanted[i].exact)
            fail_msg("%s: %.17g, not %.17g", a->name, sum, wanted[i].exact);
    }
}

/* fp32 against the machine's own floats. */
static void fp32_sums_are_the_machines(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        float term = 0.1f * (float)(round + 1) + 1e-3f, total = 0;
        for (int i = 0; i < 5000; i++)
            total += term;
        assert_true(accumulation_run(accumulation_at(0), term, 5000) == (double)total);
    }
}

static void a_total_in_16_bits_stops_growing(void **state) {
    (void)state;
    const accumulation *fp16 = accumulation_at(1), *bf16 = accumulation_at(4);
    assert_true(accumulation_run(fp16, 1, 4000) == 2048);
    assert_true(accumulation_run(bf16, 1, 4000) == 256);
    assert_true(accumulation_run(fp16, 60000, 2) > 1e300); /* infinity */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_hundredths_add_up_as_in_pytorch),
        cmocka_unit_test(fp32_sums_are_the_machines),
        cmocka_unit_test(a_total_in_16_bits_stops_growing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
