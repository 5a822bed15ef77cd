/* test_compiled.c - compiled mode gives what eager mode gives, on models of drawn shapes, and the
 * same bits for every number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "plan/memory_account.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/step_bench.h"

static plan *plan_of(const step_options *options) {
    plan *p;
    if (step_plan_create(options, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return p;
}

static plan *plan_in_mode(const model_config *config, int64_t batch, int64_t context,
                          step_extent extent, step_mode mode) {
    step_options options = small_model_step(config, batch, context, extent);
    options.pipeline.mode = mode;
    return plan_of(&options);
}

/* Every leaf and output of both, as numbers. */
static void expect_close(const step_bench *a, const step_bench *b, double limit) {
    for (int i = 0; i < a->p->name_count; i++) {
        const char *name = a->p->names[i].name;
        tensor x = executor_find(a->e, name), y = executor_find(b->e, name);
        if (!y.data)
            fail_msg("'%s' is missing in compiled mode", name);
        int64_t count = shape_elements(&x.shape);
        double *p = tensor_to_doubles(&x), *q = tensor_to_doubles(&y);
        double error = relative_error(q, p, count), size = 0;
        for (int64_t j = 0; j < count; j++)
            size = fmax(size, fabs(p[j]));
        /* Values that are zero but for rounding have no relative error to speak of. */
        if (!(error <= limit) && size > 1e-7)
            fail_msg("'%s' is %g off in compiled mode (batch, context and model as drawn)", name,
                     error);
        free(p);
        free(q);
    }
}

static void compiled_equals_eager_on_drawn_models(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 118; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        int64_t batch = 1 + draw_below(&d, 4), context = 1 + draw_below(&d, 40);
        step_extent extent = (step_extent)(seed % STEP_EXTENT_COUNT);
        step_bench eager = step_bench_create(
            &config, plan_in_mode(&config, batch, context, extent, STEP_EAGER), seed, false);
        step_bench compiled = step_bench_create(
            &config, plan_in_mode(&config, batch, context, extent, STEP_COMPILED), seed, false);
        step_bench_run(&eager);
        step_bench_run(&compiled);
        expect_close(&eager, &compiled, 2e-5);
        step_bench_destroy(&eager);
        step_bench_destroy(&compiled);
    }
}

static void compiled_steps_have_the_same_bits_for_every_thread_count(void **state) {
    (void)state;
    draw d = draw_create(7, 1);
    model_config config = small_model_draw(&d);
    threads_set_count(1);
    step_bench one = step_bench_create(
        &config, plan_in_mode(&config, 3, 33, STEP_FULL, STEP_COMPILED), 7, false);
    step_bench_run(&one);
    static const int counts[] = {2, 3, 5, 8};
    for (int i = 0; i < 4; i++) {
        threads_set_count(counts[i]);
        step_bench many = step_bench_create(
            &config, plan_in_mode(&config, 3, 33, STEP_FULL, STEP_COMPILED), 7, false);
        step_bench_run(&many);
        expect_same_names(&one, &many);
        step_bench_destroy(&many);
    }
    threads_set_count(0);
    step_bench_destroy(&one);
}

/* The same ops on the same numbers, whichever kernel they were fused into. */
static void recompute_changes_no_bit_of_a_compiled_step(void **state) {
    (void)state;
    static const char *const levels[] = {"every:1", "every:2", "full", "nested"};
    for (uint64_t seed = 40; seed < 44; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        config.layers = 5;
        step_options options = small_model_step(&config, 2, 24, STEP_FULL);
        options.pipeline.mode = STEP_COMPILED;
        options.pipeline.precision = seed % 2 ? PRECISION_BF16 : PRECISION_FP32;
        plan *p;
        assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
        step_bench plain = step_bench_create(&config, p, seed, false);
        step_bench_run(&plain);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(recompute_parse(levels[i], &options.pipeline.recompute), DYNO_OK);
            assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
            step_bench again = step_bench_create(&config, p, seed, false);
            step_bench_run(&again);
            expect_same_names(&plain, &again);
            step_bench_destroy(&again);
        }
        step_bench_destroy(&plain);
    }
}

/* Fusion must not pull what is computed again up to its first time. */
static void recompute_saves_memory_in_compiled_mode(void **state) {
    (void)state;
    static const char *const levels[] = {"none", "every:4", "every:2", "full"};
    for (int p = PRECISION_FP32; p <= PRECISION_BF16; p++) {
        int64_t before = INT64_MAX;
        for (int i = 0; i < 4; i++) {
            step_options options = {.batch = 4,
                                    .context = 512,
                                    .pipeline = {.extent = STEP_FULL,
                                                 .mode = STEP_COMPILED,
                                                 .precision = (precision)p,
                                                 .optimizer = step_default_optimizer()}};
            plan *made;
            assert_int_equal(model_config_from_preset("small", &options.config), DYNO_OK);
            assert_int_equal(recompute_parse(levels[i], &options.pipeline.recompute), DYNO_OK);
            assert_int_equal(step_plan_create(&options, &made), DYNO_OK);
            int64_t bytes = memory_account_plan(made).reserved_bytes;
            plan_destroy(made);
            assert_true(bytes < before);
            before = bytes;
        }
    }
}

static void compiling_launches_fewer_kernels_and_keeps_the_flops(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    step_options options = small_model_step(&config, 4, 128, STEP_FULL);
    options.pipeline.mode = STEP_COMPILED;
    options.pipeline.attention = ATTENTION_NAIVE;
    plan *eager = plan_in_mode(&config, 4, 128, STEP_FULL, STEP_EAGER);
    plan *compiled = plan_of(&options);
    plan_cost a = plan_total_cost(eager, PHASE_COUNT), b = plan_total_cost(compiled, PHASE_COUNT);
    assert_true(b.launches * 2 < a.launches);
    assert_true(fabs(b.flops / a.flops - 1) < 1e-3);
    assert_true(b.bytes_read + b.bytes_written < a.bytes_read + a.bytes_written);
    plan_destroy(eager);
    plan_destroy(compiled);
}

static void a_compiled_step_takes_a_fifth_of_the_launches(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    for (int p = PRECISION_FP32; p <= PRECISION_BF16; p++) {
        int launches[STEP_MODE_COUNT];
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
            step_options options = small_model_step(&config, 4, 128, STEP_FULL);
            options.keep_logits = options.pipeline.keep_gradients = false;
            options.pipeline.mode = (step_mode)mode;
            options.pipeline.precision = (precision)p;
            plan *made = plan_of(&options);
            launches[mode] = made->launch_count;
            plan_destroy(made);
        }
        assert_true(launches[STEP_COMPILED] * 5 <= launches[STEP_EAGER]);
    }
}

/* Scores that the causal mask hides are not computed, and none are written. */
static void flash_attention_saves_launches_flops_and_bytes(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    plan_cost cost[ATTENTION_WAY_COUNT];
    for (int way = 0; way < ATTENTION_WAY_COUNT; way++) {
        step_options options = small_model_step(&config, 4, 512, STEP_FULL);
        options.pipeline.mode = STEP_COMPILED;
        options.pipeline.attention = (attention_way)way;
        plan *p = plan_of(&options);
        cost[way] = plan_total_cost(p, PHASE_COUNT);
        plan_destroy(p);
    }
    const plan_cost *flash = &cost[ATTENTION_FLASH], *naive = &cost[ATTENTION_NAIVE];
    assert_true(flash->launches < naive->launches);
    assert_true(flash->flops < naive->flops);
    assert_true(flash->bytes_read + flash->bytes_written <
                0.8 * (naive->bytes_read + naive->bytes_written));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_equals_eager_on_drawn_models),
        cmocka_unit_test(compiled_steps_have_the_same_bits_for_every_thread_count),
        cmocka_unit_test(recompute_changes_no_bit_of_a_compiled_step),
        cmocka_unit_test(recompute_saves_memory_in_compiled_mode),
        cmocka_unit_test(compiling_launches_fewer_kernels_and_keeps_the_flops),
        cmocka_unit_test(a_compiled_step_takes_a_fifth_of_the_launches),
        cmocka_unit_test(flash_attention_saves_launches_flops_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
