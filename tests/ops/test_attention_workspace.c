/* test_attention_workspace.c - what attention on a GPU asks of the plan. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ops/attention/cuda/attention_workspace.h"

static void short_contexts_keep_no_sums_of_dq(void **state) {
    (void)state;
    assert_false(attention_single_pass_pays(128, 1024, 1024, 64));
    assert_false(attention_single_pass_pays(128, 4096, 512, 128));
    assert_int_equal(attention_workspace_bytes(12, 500, 0), 12 * 512 * 2 * 4 + 16);
}

static void long_contexts_of_a_few_heads_do(void **state) {
    (void)state;
    assert_true(attention_single_pass_pays(32, 8192, 8192, 128));
    assert_true(attention_single_pass_pays(4, 8192, 8192, 64));
    assert_false(attention_single_pass_pays(1, 16384, 16384, 64));
    assert_false(attention_single_pass_pays(32, 8192, 8192, 80));
    assert_false(attention_single_pass_pays(32, 8192, 8192, 256));
}

static void sums_have_padded_rows_and_columns_and_a_turn_for_every_64_rows(void **state) {
    (void)state;
    int64_t rows = 16 * 16384;
    assert_int_equal(attention_workspace_bytes(16, 16300, attention_single_pass_columns(40)),
                     (rows * (2 + 64) + rows / 64) * 4 + 16);
}

static void angles_lie_aligned_behind_all_else(void **state) {
    (void)state;
    assert_int_equal(attention_angles_at(1, 100, 0), 128 * 2 * 4 + 16);
    assert_int_equal(attention_angles_at(1, 100, 64), 128 * 66 * 4 + 8 + 16 + 8);
    assert_int_equal(attention_angle_bytes(100, 64), 128 * 64 * 4);
}

static attention_sizes one_head(int64_t length, int64_t head_dim, int is_f32) {
    return (attention_sizes){.batch = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .queries = length,
                             .keys = length,
                             .head_dim = head_dim,
                             .is_causal = 1,
                             .is_f32 = is_f32};
}

static void one_head_is_cut_where_that_pays(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 64, 128, 512, 2048, 8192, 16384, 65536};
    static const int of_f32[] = {1, 1, 1, 8, 8, 8, 4, 1}, of_bf16[] = {1, 1, 1, 1, 8, 8, 1, 1};
    for (int i = 0; i < 8; i++) {
        attention_sizes s = one_head(lengths[i], 64, 1), low = one_head(lengths[i], 64, 0);
        assert_int_equal(attention_splits(&s, ATTENTION_SPLIT_FORWARD), of_f32[i]);
        assert_int_equal(attention_splits(&low, ATTENTION_SPLIT_FORWARD), of_bf16[i]);
    }
}

static void many_heads_are_not_cut_and_take_no_workspace_for_it(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {
        {4, 12, 512, 64}, {4, 32, 1024, 80}, {4, 16, 4096, 128}, {8, 16, 512, 32}};
    for (int i = 0; i < 4; i++)
        for (int is_f32 = 0; is_f32 < 2; is_f32++) {
            attention_sizes s = one_head(sizes[i][2], sizes[i][3], is_f32);
            s.batch = sizes[i][0];
            s.heads = s.kv_heads = sizes[i][1];
            for (int cut = ATTENTION_SPLIT_FORWARD; cut <= ATTENTION_SPLIT_QUERIES; cut++)
                assert_int_equal(attention_splits(&s, (enum attention_split)cut), 1);
            assert_int_equal(attention_forward_floats(&s), 0);
            assert_int_equal(attention_gradient_floats(&s), attention_mean_floats(&s));
        }
}

static void pieces_have_whole_rows_of_16_bytes_each(void **state) {
    (void)state;
    attention_sizes s = one_head(1001, 18, 1);
    s.heads = 3; /* of one head of keys */
    int forward = attention_splits(&s, ATTENTION_SPLIT_FORWARD);
    int keys = attention_splits(&s, ATTENTION_SPLIT_KEYS);
    int queries = attention_splits(&s, ATTENTION_SPLIT_QUERIES);
    assert_true(forward > 1 && keys > 1 && queries > 1);
    assert_int_equal(attention_forward_floats(&s), forward * 3003 * (20 + 1));
    assert_int_equal(attention_gradient_floats(&s), 3004 + (keys * 3003 + 2 * queries * 1001) * 20);
}

static void memory_for_pieces_ends_growing_with_the_length(void **state) {
    (void)state;
    int64_t most = 0;
    for (int64_t length = 1; length <= 1 << 20; length += 1 + length / 7) {
        attention_sizes s = one_head(length, 64, 1);
        int64_t floats = attention_gradient_floats(&s) - attention_mean_floats(&s);
        most = floats > most ? floats : most;
    }
    assert_true(most <= (int64_t)3 * 96 * 1024 * 64);
}

static void sizes_of_any_length_have_an_answer(void **state) {
    (void)state;
    attention_sizes s = one_head(INT32_MAX / 2, 256, 0);
    for (int cut = ATTENTION_SPLIT_FORWARD; cut <= ATTENTION_SPLIT_QUERIES; cut++)
        assert_int_equal(attention_splits(&s, (enum attention_split)cut), 1);
    s.queries = 64; /* which go over a billion keys each */
    assert_int_equal(attention_splits(&s, ATTENTION_SPLIT_FORWARD), 8);
}

static void queries_that_see_nothing_are_not_cut(void **state) {
    (void)state;
    attention_sizes s = one_head(4096, 64, 1);
    s.keys = 0;
    for (int cut = ATTENTION_SPLIT_FORWARD; cut <= ATTENTION_SPLIT_QUERIES; cut++)
        assert_int_equal(attention_splits(&s, (enum attention_split)cut), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_contexts_keep_no_sums_of_dq),
        cmocka_unit_test(long_contexts_of_a_few_heads_do),
        cmocka_unit_test(sums_have_padded_rows_and_columns_and_a_turn_for_every_64_rows),
        cmocka_unit_test(angles_lie_aligned_behind_all_else),
        cmocka_unit_test(one_head_is_cut_where_that_pays),
        cmocka_unit_test(many_heads_are_not_cut_and_take_no_workspace_for_it),
        cmocka_unit_test(pieces_have_whole_rows_of_16_bytes_each),
        cmocka_unit_test(memory_for_pieces_ends_growing_with_the_length),
        cmocka_unit_test(sizes_of_any_length_have_an_answer),
        cmocka_unit_test(queries_that_see_nothing_are_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
