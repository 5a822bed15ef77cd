/* test_attention_workspace.c - what attention's gradient on a GPU asks of the plan. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ops/attention/attention_workspace.h"

static void short_contexts_keep_no_sums_of_dq(void **state) {
    (void)state;
    assert_false(attention_sums_in_turns(128, 1024, 1024, 64));
    assert_false(attention_sums_in_turns(128, 4096, 512, 128));
    assert_int_equal(attention_workspace_bytes(12, 500, 0), 12 * 512 * 2 * 4 + 16);
}

static void long_contexts_of_a_few_heads_do(void **state) {
    (void)state;
    assert_true(attention_sums_in_turns(32, 8192, 8192, 128));
    assert_true(attention_sums_in_turns(4, 8192, 8192, 64));
    assert_false(attention_sums_in_turns(1, 16384, 16384, 64));
    assert_false(attention_sums_in_turns(32, 8192, 8192, 80));
    assert_false(attention_sums_in_turns(32, 8192, 8192, 256));
}

static void sums_have_padded_rows_and_columns_and_a_turn_for_every_64_rows(void **state) {
    (void)state;
    int64_t rows = 16 * 16384;
    assert_int_equal(attention_workspace_bytes(16, 16300, attention_sum_columns(40)),
                     (rows * (2 + 64) + rows / 64) * 4 + 16);
}

static void angles_lie_aligned_behind_all_else(void **state) {
    (void)state;
    assert_int_equal(attention_angles_at(1, 100, 0), 128 * 2 * 4 + 16);
    assert_int_equal(attention_angles_at(1, 100, 64), 128 * 66 * 4 + 8 + 16 + 8);
    assert_int_equal(attention_angle_bytes(100, 64), 128 * 64 * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_contexts_keep_no_sums_of_dq),
        cmocka_unit_test(long_contexts_of_a_few_heads_do),
        cmocka_unit_test(sums_have_padded_rows_and_columns_and_a_turn_for_every_64_rows),
        cmocka_unit_test(angles_lie_aligned_behind_all_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
