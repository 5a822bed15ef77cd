/* test_memory_detail.c - every byte of a step is told once, and every size is the product of what its
 * formula says.
 *
 * Two mistakes that people made with such numbers cannot be made here: floats of 4 bytes counted as 8,
 * and an allocation of 4 x 25 x 512 x 512 x 4 bytes blamed on the allocator. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "measure/memory_detail.h"

#include <stdlib.h>
#include <string.h>

#include "measure/keys.h"
#include "model/parameters.h"
#include "support/expect.h"
#include "support/small_model.h"

static plan *plan_of(const model_config *config, int64_t batch, int64_t context, step_mode mode,
                     precision math) {
    step_options options = {
        .config = *config,
        .batch = batch,
        .context = context,
        .pipeline = {.extent = STEP_FULL,
                     .mode = mode,
                     .precision = math,
                     .attention = mode == STEP_EAGER ? ATTENTION_NAIVE : ATTENTION_FLASH,
                     .optimizer = step_default_optimizer()}};
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    return p;
}

static results *record(const plan *p, int64_t batch, int64_t context, results_cell **cell) {
    results *run = results_create("memory", 0, NULL);
    *cell = results_add_cell(run);
    memory_account account = memory_account_plan(p);
    memory_detail_record_peak(p, &account, batch, context, *cell);
    memory_detail_record_timeline(p, NULL, *cell);
    memory_detail_record_values(p, &account, *cell);
    return run;
}

static int64_t metric(const results_cell *cell, const char *name) {
    const results_metric *found = cell_find_metric(cell, name);
    assert_non_null(found);
    return found->value.integer;
}

static int64_t number(const results_breakdown *b, int64_t row, const char *column) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, column) == 0)
            return b->rows[row].values[i].integer;
    fail_msg("no column %s", column);
    return 0;
}

/* The product of the numbers in "4 x 25 x 512 x 512 x 4 B". */
static int64_t product_of(const char *formula) {
    int64_t product = 1;
    for (char *end;; formula = end + 3) {
        product *= strtoll(formula, &end, 10);
        if (strcmp(end, " B") == 0)
            return product;
        assert_int_equal(strncmp(end, " x ", 3), 0);
    }
}

static void formulas_multiply_to_the_bytes_they_explain(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int math = PRECISION_FP32; math <= PRECISION_BF16; math++) {
            plan *p = plan_of(&small_model_fixed, 2, 6, (step_mode)mode, (precision)math);
            results_cell *cell;
            results *run = record(p, 2, 6, &cell);
            const results_breakdown *all = cell_find_breakdown(cell, BREAKDOWN_ALLOCATIONS);
            for (int64_t i = 0; i < all->row_count; i++)
                assert_int_equal(product_of(all->rows[i].keys[3]), number(all, i, COLUMN_BYTES));
            const results_breakdown *peak = cell_find_breakdown(cell, BREAKDOWN_PEAK_VALUES);
            int64_t at_peak = 0;
            for (int64_t i = 0; i < peak->row_count; i++) {
                at_peak += number(peak, i, COLUMN_BYTES);
                assert_int_equal(product_of(peak->rows[i].keys[2]) * number(peak, i, COLUMN_COUNT),
                                 number(peak, i, COLUMN_BYTES));
            }
            assert_int_equal(at_peak, metric(cell, METRIC_ALIVE_BYTES));
            results_destroy(run);
            plan_destroy(p);
        }
}

static void a_weight_takes_four_bytes_and_a_moment_four(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        plan *p = plan_of(&small_model_fixed, 2, 6, (step_mode)mode, PRECISION_FP32);
        results_cell *cell;
        results *run = record(p, 2, 6, &cell);
        int64_t elements = model_parameter_elements(&small_model_fixed);
        assert_int_equal(metric(cell, METRIC_AT_PEAK_PREFIX "parameter"), 4 * elements);
        assert_int_equal(metric(cell, METRIC_AT_PEAK_PREFIX "optimizer-state"), 2 * 4 * elements);
        const results_breakdown *blocks = cell_find_breakdown(cell, BREAKDOWN_BY_BLOCK);
        int64_t weights = 0, gradients = 0, state_bytes = 0;
        for (int64_t i = 0; i < blocks->row_count; i++) {
            weights += number(blocks, i, "parameter");
            gradients += number(blocks, i, "gradient");
            state_bytes += number(blocks, i, "optimizer-state");
        }
        assert_int_equal(weights, 4 * elements);
        assert_int_equal(state_bytes, 8 * elements);
        if (mode == STEP_EAGER) /* compiled, some are sums of parts */
            assert_int_equal(gradients, 4 * elements);
        results_destroy(run);
        plan_destroy(p);
    }
}

/* One block of xl, whose 100 MiB are exactly the scores of 4 sequences and 25 heads. */
static void the_scores_of_xl_are_a_hundred_mebibytes(void **state) {
    (void)state;
    model_config xl;
    expect_ok(model_config_from_preset("xl", &xl));
    xl.layers = 1;
    plan *p = plan_of(&xl, 4, 512, STEP_EAGER, PRECISION_FP32);
    results_cell *cell;
    results *run = record(p, 4, 512, &cell);
    const results_breakdown *all = cell_find_breakdown(cell, BREAKDOWN_ALLOCATIONS);
    int64_t found = 0;
    for (int64_t i = 0; i < all->row_count; i++)
        if (strcmp(all->rows[i].keys[0], "layers.*.attn.scores") == 0 &&
            strcmp(all->rows[i].keys[3], "4 x 25 x 512 x 512 x 4 B") == 0)
            found = number(all, i, COLUMN_BYTES);
    assert_int_equal(found, 100 * 1024 * 1024);
    assert_string_equal(cell_find_parameter(cell, PARAM_RESIDUAL)->text, "4 x 512 x 1600 x 4 B");
    assert_int_equal(metric(cell, METRIC_RESIDUAL_BYTES), 4 * 512 * 1600 * 4);
    results_destroy(run);
    plan_destroy(p);
}

/* A row for each launch and one before the first; their largest sum is the peak. */
static void the_timeline_has_every_launch_and_the_peak(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        plan *p = plan_of(&small_model_fixed, 2, 6, (step_mode)mode, PRECISION_FP32);
        results_cell *cell;
        results *run = record(p, 2, 6, &cell);
        const results_breakdown *t = cell_find_breakdown(cell, BREAKDOWN_TIMELINE);
        assert_int_equal(t->row_count, p->launch_count + 1);
        int64_t most = 0, at = -2;
        for (int64_t i = 0; i < t->row_count; i++) {
            int64_t sum = 0;
            for (int r = 0; r < ROLE_COUNT; r++)
                sum += number(t, i, role_name((role)r));
            assert_int_equal(number(t, i, COLUMN_LAUNCH), i - 1);
            assert_true(sum <= number(t, i, COLUMN_BLOCKS));
            assert_true(number(t, i, COLUMN_BLOCKS) <= number(t, i, COLUMN_RESERVED));
            if (sum > most) {
                most = sum;
                at = i - 1;
            }
        }
        assert_int_equal(most, metric(cell, METRIC_ALIVE_BYTES));
        assert_int_equal(at, metric(cell, METRIC_PEAK_LAUNCH));
        results_destroy(run);
        plan_destroy(p);
    }
}

static void what_is_saved_is_told_by_op_and_by_block_alike(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        plan *p = plan_of(&small_model_fixed, 2, 6, (step_mode)mode, PRECISION_BF16);
        results_cell *cell;
        results *run = record(p, 2, 6, &cell);
        const results_breakdown *ops = cell_find_breakdown(cell, BREAKDOWN_SAVED_BY_OP);
        const results_breakdown *blocks = cell_find_breakdown(cell, BREAKDOWN_BY_BLOCK);
        int64_t by_op = 0, by_block = 0;
        for (int64_t i = 0; i < ops->row_count; i++)
            by_op += number(ops, i, COLUMN_BYTES);
        for (int64_t i = 0; i < blocks->row_count; i++)
            by_block += number(blocks, i, "saved");
        assert_int_equal(blocks->row_count, small_model_fixed.layers + 1);
        assert_true(by_op > 0);
        assert_int_equal(by_op, metric(cell, METRIC_SAVED_BYTES));
        assert_int_equal(by_block, by_op);
        results_destroy(run);
        plan_destroy(p);
    }
}

/* Births count while their launch runs, deaths after it. */
static void samples_follow_the_records(void **state) {
    (void)state;
    static const memory_record records[] = {
        {.is_allocation = true, .launch = -1, .bytes = 512, .tensor_bytes = 500},
        {.is_allocation = true, .launch = 0, .bytes = 256, .tensor_bytes = 10},
        {.is_allocation = true, .launch = 2, .bytes = 256, .tensor_bytes = 20},
        {.is_allocation = false, .launch = 2, .bytes = 256, .tensor_bytes = 10},
    };
    memory_sample samples[4];
    memory_detail_sample(records, 4, samples, 3);
    static const memory_sample wanted[] = {{512, 500}, {768, 510}, {768, 510}, {1024, 530}};
    assert_memory_equal(samples, wanted, sizeof wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_multiply_to_the_bytes_they_explain),
        cmocka_unit_test(a_weight_takes_four_bytes_and_a_moment_four),
        cmocka_unit_test(the_scores_of_xl_are_a_hundred_mebibytes),
        cmocka_unit_test(the_timeline_has_every_launch_and_the_peak),
        cmocka_unit_test(what_is_saved_is_told_by_op_and_by_block_alike),
        cmocka_unit_test(samples_follow_the_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
