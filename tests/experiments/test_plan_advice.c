/* test_plan_advice.c - of all levels that fit, the one of the fewest FLOPs is named. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "experiments/plan_advice.h"
#include "experiments/step_estimate.h"
#include "plan/memory_account.h"
#include "support/expect.h"

enum { LAYERS = 9 };

static step_options step_of(step_mode mode, precision kind, int64_t d_ff) {
    return (step_options){.config = {.name = "nine",
                                     .d_model = 64,
                                     .d_ff = d_ff,
                                     .layers = LAYERS,
                                     .heads = 4,
                                     .kv_heads = 4,
                                     .head_dim = 16,
                                     .vocab = 50,
                                     .norm_eps = 1e-5,
                                     .rope_theta = 10000},
                          .batch = 4,
                          .context = 64,
                          .pipeline = {.extent = STEP_FULL,
                                       .mode = mode,
                                       .precision = kind,
                                       .optimizer = step_default_optimizer()}};
}

typedef struct cost {
    int64_t bytes;
    double flops;
} cost;

static cost cost_at(step_options options, const char *level) {
    plan *p;
    assert_int_equal(recompute_parse(level, &options.pipeline.recompute), DYNO_OK);
    assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
    cost out = {memory_account_plan(p).reserved_bytes, plan_total_cost(p, PHASE_COUNT).flops};
    plan_destroy(p);
    return out;
}

/* "mlp:1" .. "mlp:8", and the segments that advice may name. */
enum { LEVELS = LAYERS - 1 + 4 };

static const char *level_name(int i) {
    static char name[16];
    static const int segments[] = {5, 3, 2, 1};
    bool is_mlp = i < LAYERS - 1;
    snprintf(name, sizeof name, "%s:%d", is_mlp ? "mlp" : "every",
             is_mlp ? i + 1 : segments[i - LAYERS + 1]);
    return name;
}

/* At every limit that just lets a level in, and a byte below it. */
static void the_level_of_the_fewest_flops_that_fits_is_named(void **state) {
    (void)state;
    static const int64_t widths[] = {48, 256, 2048};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        step_options options = step_of(STEP_COMPILED, PRECISION_BF16, widths[w]);
        cost costs[LEVELS], plain = cost_at(options, "none");
        for (int i = 0; i < LEVELS; i++)
            costs[i] = cost_at(options, level_name(i));
        for (int i = 0; i < 2 * LEVELS; i++) {
            int64_t limit = costs[i / 2].bytes - i % 2;
            if (limit >= plain.bytes)
                continue;
            double least = 0;
            for (int j = 0; j < LEVELS; j++)
                if (costs[j].bytes <= limit && (least == 0 || costs[j].flops < least))
                    least = costs[j].flops;
            plan_advice advice;
            assert_int_equal(plan_advice_find(&options, false, limit, &advice), DYNO_OK);
            char level[16];
            int named = sscanf(advice.text, "--recompute %15s", level);
            assert_int_equal(named == 1 && !strstr(advice.text, "--batch"), least > 0);
            if (least > 0) {
                cost found = cost_at(options, level);
                assert_true(found.bytes <= limit);
                assert_true(found.flops == least);
            }
        }
    }
}

/* A level that runs little again makes room for one that runs more. */
static void a_step_that_runs_mlps_again_is_told_to_run_more(void **state) {
    (void)state;
    step_options options = step_of(STEP_COMPILED, PRECISION_BF16, 256);
    int64_t limit = cost_at(options, "mlp:1").bytes;
    assert_int_equal(recompute_parse("mlp:4", &options.pipeline.recompute), DYNO_OK);
    plan_advice advice;
    assert_int_equal(plan_advice_find(&options, false, limit, &advice), DYNO_OK);
    assert_non_null(strstr(advice.text, "--recompute "));
    assert_null(strstr(advice.text, "--batch"));
}

static void compiled_mode_comes_first_and_smaller_steps_last(void **state) {
    (void)state;
    step_options options = step_of(STEP_EAGER, PRECISION_FP32, 256), compiled = options;
    compiled.pipeline.mode = STEP_COMPILED;
    plan_advice advice;
    assert_int_equal(plan_advice_find(&options, false, cost_at(compiled, "none").bytes, &advice),
                     DYNO_OK);
    assert_int_equal(strncmp(advice.text, "--mode compiled (", 17), 0);
    compiled.pipeline.precision = PRECISION_BF16;
    assert_int_equal(
        plan_advice_find(&options, false, cost_at(compiled, "full").bytes - 1, &advice), DYNO_OK);
    assert_non_null(strstr(advice.text, "--recompute full --batch 2 ("));
    assert_int_equal(plan_advice_find(&options, false, 1, &advice), DYNO_OK);
    assert_non_null(strstr(advice.text, "nothing on one chip"));
}

/* Where one chip is too small whatever is changed, several are named, and fit. */
static void chips_that_are_enough_are_named(void **state) {
    (void)state;
    step_options options = step_of(STEP_COMPILED, PRECISION_BF16, 256), sharded = options;
    int64_t ranks;
    step_needs needs, half;
    sharded.pipeline.parallel = (parallel_options){.mode = PARALLEL_FSDP, .ranks = 4};
    expect_ok(step_needs_exactly(&sharded, &needs));
    expect_ok(plan_advice_find_ranks(&options, needs.bytes, &ranks, &half));
    assert_int_equal(ranks, 4);
    assert_int_equal(half.bytes, needs.bytes);
    expect_ok(plan_advice_find_ranks(&sharded, needs.bytes - 1, &ranks, &half));
    assert_int_equal(ranks, 8);
    expect_ok(plan_advice_find_ranks(&options, 1, &ranks, &half));
    assert_int_equal(ranks, 0);
}

/* Activations of the step as it is are too large on every chip, however many there are. */
static void chips_come_with_the_changes_that_they_need(void **state) {
    (void)state;
    step_options options = step_of(STEP_EAGER, PRECISION_FP32, 256), smallest = options;
    options.context = smallest.context = 256;
    smallest = step_compiled(&smallest);
    smallest.pipeline.precision = PRECISION_BF16;
    smallest.pipeline.recompute = (recompute_options){.mode = RECOMPUTE_FULL};
    smallest.pipeline.parallel = (parallel_options){.mode = PARALLEL_FSDP, .ranks = 64};
    step_needs needs;
    plan_advice advice;
    expect_ok(step_needs_exactly(&smallest, &needs));
    expect_ok(plan_advice_find(&options, false, needs.bytes, &advice));
    assert_int_equal(strncmp(advice.text, "nothing on one chip: the smallest step needs ", 45), 0);
    assert_non_null(strstr(advice.text, "; --mode compiled --precision bf16 --recompute full "
                                        "--ranks 64 --parallel fsdp ("));
    options.pipeline.parallel = (parallel_options){.mode = PARALLEL_FSDP, .ranks = 2};
    expect_ok(plan_advice_find(&options, false, 1, &advice));
    assert_int_equal(strncmp(advice.text, "nothing on 2 chips: ", 20), 0);
    assert_non_null(strstr(advice.text, "; nor on 1024 with --parallel fsdp"));
    options.pipeline.parallel.mode = PARALLEL_ZERO1; /* what follows may name as many chips */
    expect_ok(plan_advice_find(&options, false, 1, &advice));
    assert_non_null(strstr(advice.text, "nothing with --parallel zero1 on 2 chips: "));
}

/* An eager step's attention is naive; --mode compiled of the same command line is flash. Advice that
 * kept the naive one would ask for more changes than are needed. */
static void compiled_mode_brings_flash_attention_with_it(void **state) {
    (void)state;
    step_options options = step_of(STEP_EAGER, PRECISION_FP32, 256);
    options.context = 256;
    options.pipeline.attention = ATTENTION_NAIVE;
    step_options naive = options, flash = step_compiled(&options);
    naive.pipeline.mode = STEP_COMPILED;
    int64_t limit = cost_at(flash, "none").bytes;
    assert_true(limit < cost_at(naive, "none").bytes);
    plan_advice advice;
    assert_int_equal(plan_advice_find(&options, false, limit, &advice), DYNO_OK);
    assert_int_equal(strncmp(advice.text, "--mode compiled (", 17), 0);
    assert_int_equal(plan_advice_find(&options, true, limit, &advice), DYNO_OK);
    assert_int_equal(strncmp(advice.text, "--mode compiled --attention flash (", 35), 0);
    assert_int_equal(plan_advice_find(&naive, true, limit, &advice), DYNO_OK);
    assert_int_equal(strncmp(advice.text, "--attention flash (", 19), 0);
}

static void flash_is_not_advised_for_heads_that_its_kernels_do_not_take(void **state) {
    (void)state;
    step_options options = step_of(STEP_EAGER, PRECISION_FP32, 256);
    options.config.heads = options.config.kv_heads = 1;
    options.config.head_dim = 512;
    options.pipeline.attention = ATTENTION_NAIVE;
    plan_advice advice;
    int64_t limit = cost_at(step_compiled(&options), "none").bytes;
    assert_int_equal(plan_advice_find(&options, true, limit, &advice), DYNO_OK);
    assert_int_equal(strncmp(advice.text, "--mode compiled (", 17), 0);
}

/* ---- models of many blocks ---- */

static void estimates_are_near_what_all_blocks_need(void **state) {
    (void)state;
    static const char *const levels[] = {"none", "mlp:1", "mlp:90", "every:1", "every:60", "full"};
    step_options options = step_of(STEP_COMPILED, PRECISION_FP32, 256);
    options.config.layers = 180;
    step_estimator e = step_estimator_begin(options.config.layers);
    assert_true(e.scale > 0);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        cost exact = cost_at(options, levels[i]);
        step_needs estimate;
        assert_int_equal(recompute_parse(levels[i], &options.pipeline.recompute), DYNO_OK);
        assert_int_equal(step_estimate(&e, &options, &estimate), DYNO_OK);
        assert_true(fabs((double)(estimate.bytes - exact.bytes)) < 0.01 * (double)exact.bytes);
        assert_true(fabs(estimate.flops - exact.flops) < 1e-3 * exact.flops);
    }
    for (int refinements = 0; e.scale; refinements++) { /* it ends with plans in full */
        step_estimator_refine(&e, options.config.layers);
        assert_true(refinements < 10);
    }
    step_estimator_release(&e);
}

/* Takes about a second. Time that grows with the square of the blocks is many minutes, at which the
 * alarm ends the program. */
static void a_thousand_blocks_are_planned_and_advised(void **state) {
    (void)state;
    alarm(240);
    step_options options = step_of(STEP_EAGER, PRECISION_FP32, 128), compiled = options;
    options.config.layers = compiled.config.layers = 1000;
    compiled.pipeline.mode = STEP_COMPILED;
    cost limit = cost_at(compiled, "every:2");
    plan_advice advice;
    assert_int_equal(plan_advice_find(&options, false, limit.bytes, &advice), DYNO_OK);
    alarm(0);
    assert_int_equal(strncmp(advice.text, "--mode compiled --recompute ", 28), 0);
    assert_null(strstr(advice.text, "--batch"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_of_the_fewest_flops_that_fits_is_named),
        cmocka_unit_test(a_step_that_runs_mlps_again_is_told_to_run_more),
        cmocka_unit_test(compiled_mode_comes_first_and_smaller_steps_last),
        cmocka_unit_test(chips_that_are_enough_are_named),
        cmocka_unit_test(chips_come_with_the_changes_that_they_need),
        cmocka_unit_test(compiled_mode_brings_flash_attention_with_it),
        cmocka_unit_test(flash_is_not_advised_for_heads_that_its_kernels_do_not_take),
        cmocka_unit_test(estimates_are_near_what_all_blocks_need),
        cmocka_unit_test(a_thousand_blocks_are_planned_and_advised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
