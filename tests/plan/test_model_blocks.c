/* test_model_blocks.c - what the rows of a model's blocks say: every byte of a role once, in the row of
 * its block, however ranks and micro-batches divide the work. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/model_blocks.h"

#include <stdlib.h>

#include "model/parameters.h"
#include "plan/memory_account.h"
#include "plan/scope.h"
#include "support/expect.h"
#include "support/small_model.h"

enum { RANKS = 4 };

static plan *plan_of(step_mode mode, int ranks, parallel_mode parallel, int64_t micro_batches,
                     precision math) {
    step_options options = {
        .config = small_model_fixed,
        .batch = 2,
        .context = 6,
        .pipeline = {.extent = STEP_FULL,
                     .mode = mode,
                     .precision = math,
                     .attention = mode == STEP_EAGER ? ATTENTION_NAIVE : ATTENTION_FLASH,
                     .micro_batches = micro_batches,
                     .optimizer = step_default_optimizer()}};
    options.pipeline.parallel = (parallel_options){
        .mode = parallel,
        .ranks = ranks,
        .bucket_bytes = 3000, /* several blocks in some, a part in others */
    };
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    return p;
}

static int64_t all_of(const plan *p, role r) {
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].role == r)
            bytes += p->buffers[i].bytes;
    return bytes;
}

static int64_t sum_of(const model_block_bytes *rows, int blocks, block_column column) {
    int64_t bytes = 0;
    for (int i = 0; i <= blocks; i++)
        bytes += rows[i].of[column];
    return bytes;
}

/* Elements of the parameters of a block; -1: of no block. */
static int64_t elements_of(int number) {
    int64_t elements = 0;
    for (int i = 0; i < model_parameter_count(&small_model_fixed); i++) {
        model_parameter parameter = model_parameter_at(&small_model_fixed, i);
        if (scope_block(parameter.name) == number)
            elements += shape_elements(&parameter.shape);
    }
    return elements;
}

typedef void expectation(const plan *p, const model_block_bytes *rows, int blocks, bool is_sharded,
                         bool is_summed);

static void expect_of_every_step(precision math, expectation *expect) {
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int parallel = 0; parallel <= PARALLEL_MODE_COUNT; parallel++)
            for (int64_t micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
                bool is_alone = parallel == PARALLEL_MODE_COUNT;
                plan *p = plan_of((step_mode)mode, is_alone ? 1 : RANKS,
                                  is_alone ? PARALLEL_DDP_FLAT : (parallel_mode)parallel,
                                  micro_batches, math);
                int blocks;
                model_block_bytes *rows = model_blocks_of(p, &blocks);
                expect(p, rows, blocks, parallel == PARALLEL_ZERO1 || parallel == PARALLEL_FSDP,
                       !is_alone || micro_batches > 1);
                free(rows);
                plan_destroy(p);
            }
}

static void expect_every_byte(const plan *p, const model_block_bytes *rows, int blocks,
                              bool is_sharded, bool is_summed) {
    (void)is_sharded;
    (void)is_summed;
    assert_int_equal(blocks, small_model_fixed.layers);
    assert_int_equal(sum_of(rows, blocks, BLOCK_WEIGHTS), all_of(p, ROLE_PARAMETER));
    assert_int_equal(sum_of(rows, blocks, BLOCK_STATE), all_of(p, ROLE_OPTIMIZER_STATE));
    assert_int_equal(sum_of(rows, blocks, BLOCK_GRADIENTS) +
                         sum_of(rows, blocks, BLOCK_GRADIENT_SUMS),
                     all_of(p, ROLE_GRADIENT));
    assert_int_equal(sum_of(rows, blocks, BLOCK_SAVED), memory_account_saved_bytes(p));
}

static void rows_have_every_byte_once(void **state) {
    (void)state;
    expect_of_every_step(PRECISION_FP32, expect_every_byte);
    expect_of_every_step(PRECISION_BF16, expect_every_byte);
}

/* Where nothing is sharded a block has its own weights, their gradients, two moments, and, where
 * gradients are added up, that sum: buckets that hold parts of several blocks are divided. */
static void expect_own(const plan *p, const model_block_bytes *rows, int blocks, bool is_sharded,
                       bool is_summed) {
    (void)p;
    if (is_sharded)
        return;
    for (int number = 0; number < blocks; number++) {
        int64_t bytes = 4 * elements_of(number);
        assert_int_equal(rows[number].of[BLOCK_WEIGHTS], bytes);
        assert_int_equal(rows[number].of[BLOCK_STATE], 2 * bytes);
        assert_int_equal(rows[number].of[BLOCK_GRADIENTS], bytes);
        assert_int_equal(rows[number].of[BLOCK_GRADIENT_SUMS], is_summed ? bytes : 0);
    }
    assert_int_equal(rows[blocks].of[BLOCK_WEIGHTS], 4 * elements_of(-1));
}

static void a_block_has_its_own_and_nothing_of_others(void **state) {
    (void)state;
    expect_of_every_step(PRECISION_FP32, expect_own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_every_byte_once),
        cmocka_unit_test(a_block_has_its_own_and_nothing_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
