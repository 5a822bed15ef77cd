/* test_value_groups.c - values of one name, role and shape are one line, and nothing is left out. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/value_groups.h"

#include <stdlib.h>

#include "support/expect.h"
#include "support/small_model.h"

static void a_block_is_found_in_scopes_and_names(void **state) {
    (void)state;
    assert_int_equal(scope_block("layers.3.attn.softmax"), 3);
    assert_int_equal(scope_block("g.model.layers.12.mlp.down_proj.weight"), 12);
    assert_int_equal(scope_block("optimizer.layers.0"), 0);
    assert_int_equal(scope_block("head"), -1);
    assert_int_equal(scope_block(""), -1);
    assert_int_equal(scope_block("mlp2.x3"), -1);
    assert_int_equal(scope_block("sums.bucket.12"), -1);
    assert_int_equal(scope_block("sum.shard.layers.1.f32"), 1);
    assert_int_equal(scope_block("players.4"), -1);
    assert_int_equal(scope_block("layers.norm.layers.5"), 5);
}

static void every_buffer_is_in_one_group(void **state) {
    (void)state;
    plan *p = small_model_plan(&small_model_fixed, 2, 5, STEP_FULL);
    for (int by_op = 0; by_op < 2; by_op++) {
        int count;
        value_group *groups =
            value_groups_create(p, &(value_group_options){.is_by_op = by_op}, &count);
        int64_t values = 0, bytes = 0, all = 0;
        for (int i = 0; i < count; i++) {
            values += groups[i].count;
            bytes += groups[i].bytes;
            assert_int_equal(groups[i].bytes, groups[i].count * groups[i].sample->bytes);
        }
        for (int i = 0; i < p->buffer_count; i++)
            all += p->buffers[i].bytes;
        assert_int_equal(values, p->buffer_count);
        assert_int_equal(bytes, all);
        assert_true(count < p->buffer_count);
        free(groups);
    }
    plan_destroy(p);
}

static void they_are_sorted_by_total_or_by_size(void **state) {
    (void)state;
    int count;
    plan *p = small_model_plan(&small_model_fixed, 2, 5, STEP_FULL);
    value_group *groups = value_groups_create(p, &(value_group_options){0}, &count);
    value_groups_sort_by_total(groups, count);
    for (int i = 1; i < count; i++)
        assert_true(groups[i - 1].bytes >= groups[i].bytes);
    value_groups_sort_by_size(groups, count);
    for (int i = 1; i < count; i++)
        assert_true(groups[i - 1].sample->bytes >= groups[i].sample->bytes);
    free(groups);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_found_in_scopes_and_names),
        cmocka_unit_test(every_buffer_is_in_one_group),
        cmocka_unit_test(they_are_sorted_by_total_or_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
