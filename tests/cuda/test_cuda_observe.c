/* test_cuda_observe.c - what a GPU records of steps: something of every launch, in every step, and
 * nothing else; and that looking on changes nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "experiments/attention_sweep.h"
#include "support/device_bench.h"
#include "support/expect.h"
#include "support/skip.h"
#include "support/step_bench.h"

enum { STEPS = 3 };

static step_options options_of(step_mode mode, precision p) {
    step_options options = small_model_step(&small_model_fixed, 2, 24, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = p;
    return options;
}

/* Skips the test where nothing can be recorded: an emulated GPU, no CUPTI, another profiler. */
static void begin_or_skip(step_bench *b) {
    dyno_status status = executor_observe_begin(b->e);
    if (status == DYNO_OK)
        return;
    assert_int_equal(status, DYNO_UNSUPPORTED);
    step_bench_destroy(b);
    SKIP_BECAUSE("nothing is recorded: %s", dyno_error_message());
}

static launch_log observe(step_bench *b) {
    launch_log records;
    begin_or_skip(b);
    for (int step = 0; step < STEPS; step++)
        step_bench_run(b);
    expect_ok(executor_observe_end(b->e, &records));
    return records;
}

static launch_log_sums settle(const plan *p, launch_log *records) {
    int *streams = memory_allocate((size_t)p->launch_count, sizeof *streams);
    for (int i = 0; i < p->launch_count; i++)
        streams[i] = p->launches[i].stream;
    launch_log_sums sums;
    launch_log_question asked = {
        .launch_count = p->launch_count, .stream = streams, .step_count = STEPS};
    expect_ok(launch_log_settle(records, &asked, &sums));
    free(streams);
    return sums;
}

/* Every launch has records in every step, and they ran for some time. */
static void expect_all_launches(const plan *p, const launch_log *records) {
    for (int i = 0; i < p->launch_count; i++) {
        int64_t pieces = 0, ns = 0;
        for (int64_t r = 0; r < records->count; r++)
            if (records->records[r].launch == i) {
                pieces++;
                ns += records->records[r].end_ns - records->records[r].begin_ns;
            }
        if (pieces < STEPS || ns <= 0)
            fail_msg("launch %d of %d, %s in %s: %lld records, %lld ns", i, p->launch_count,
                     p->launches[i].kernel_name, p->scopes[p->launches[i].scope], (long long)pieces,
                     (long long)ns);
    }
}

/* What a record says of its kernel and of the call that launched it, in the host's clock. */
static void expect_details(const launch_log *records, bool is_replayed) {
    for (int64_t i = 0; i < records->count; i++) {
        const launch_record *r = &records->records[i];
        const logged_step *step = &records->steps[r->step];
        bool is_kernel = strcmp(r->recorded, "memcpy") != 0 && strcmp(r->recorded, "memset") != 0;
        assert_int_equal(r->grid[0] > 0, is_kernel);
        assert_int_equal(r->block[0] > 0, is_kernel);
        assert_int_equal(r->registers > 0, is_kernel);
        assert_true(strncmp(r->recorded, "_Z", 2) != 0);
        assert_true(r->correlation > 0);
        assert_int_equal(r->graph_node != 0, is_replayed);
        /* Both clocks are converted, to a few tens of microseconds at the worst. */
        enum { TOLERANCE_NS = 200000 };
        assert_true(r->host_begin_ns > step->begin_ns - TOLERANCE_NS);
        assert_true(r->host_end_ns < step->end_ns + TOLERANCE_NS);
        assert_true(r->host_begin_ns <= r->host_end_ns);
        assert_true(r->begin_ns > r->host_begin_ns - TOLERANCE_NS);
        assert_true(r->end_ns < step->end_ns + TOLERANCE_NS);
    }
}

static void every_launch_of_every_step_is_recorded(void **state) {
    device *d = device_bench_open(state);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int p = device_bench_rounds(PRECISION_FP32, PRECISION_BF16); p <= PRECISION_BF16;
             p++) {
            step_options options = options_of((step_mode)mode, (precision)p);
            step_bench b = step_bench_create_on(d, &options, 1);
            launch_log records = observe(&b);
            launch_log_sums sums = settle(b.p, &records);
            expect_all_launches(b.p, &records);
            expect_details(&records, mode == STEP_COMPILED);
            assert_int_equal(sums.unseen, 0);
            assert_true(sums.unknown_ns == 0);
            assert_true(sums.busy_ns > 0 && sums.busy_ns <= sums.span_ns);
            assert_true(sums.between_ns > 0);
            print_message("%s %s: %d launches, %lld records, busy %.1f of %.1f us a step\n",
                          step_mode_name((step_mode)mode), precision_name((precision)p),
                          b.p->launch_count, (long long)records.count,
                          (double)sums.busy_ns / STEPS / 1e3, (double)sums.span_ns / STEPS / 1e3);
            launch_log_release(&records);
            step_bench_destroy(&b);
        }
}

/* ---- the plan's names and the device's ---- */

/* What some function of a row's must be called after. */
static bool is_of_row(const char *row, const char *name) {
    static const struct {
        const char *row, *by;
    } shared[] = {{"matmul_cublas", "nvjet"},   {"matmul_cublas", "gemm"},
                  {"matmul_cublas", "cutlass"}, {"matmul_cublas", "cublas"},
                  {"copy_cuda", "memcpy"},      {"transpose_cuda", "copy_"},
                  {"broadcast_cuda", "copy_"},  {"sum_cuda", "reduce_"},
                  {"mean_cuda", "reduce_"},     {"max_cuda", "reduce_"},
                  {"adamw_many_cuda", "adamw"}, {"loss_head_forward_cuda", "loss_head"},
                  {"fill_cuda", "memset"}};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (strcmp(shared[i].row, row) == 0 && strstr(name, shared[i].by))
            return true;
    const char *end = strstr(row, "_cuda");
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", end ? (int)(end - row) : (int)strlen(row), row);
    return strstr(name, stem) != NULL;
}

static void expect_names(const plan *p, const launch_log *records) {
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        bool is_found = false;
        text seen = {0};
        for (int64_t r = 0; r < records->count && !is_found; r++) {
            if (records->records[r].launch != i)
                continue;
            const char *name = records->records[r].recorded;
            is_found = l->generated >= 0 ? strcmp(name, p->generated[l->generated].symbol) == 0
                                         : is_of_row(l->kernel_name, name);
            text_format(&seen, " %s", name);
        }
        if (!is_found)
            fail_msg("launch %d is planned as %s, and the GPU ran%s", i, l->kernel_name,
                     seen.length ? text_string(&seen) : " nothing");
        text_release(&seen);
    }
}

static void kernels_of_a_step_are_those_of_the_plan(void **state) {
    device *d = device_bench_open(state);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        step_options options = options_of((step_mode)mode, PRECISION_BF16);
        step_bench b = step_bench_create_on(d, &options, 1);
        launch_log records = observe(&b);
        expect_names(b.p, &records);
        launch_log_release(&records);
        step_bench_destroy(&b);
    }
}

/* Attention alone, once. */
static launch_log observe_attention(device *d, const plan *p) {
    enum { POOL_BYTES = 1 << 28 };
    memory_pool *pool;
    executor *e;
    launch_log records = {0};
    expect_ok(memory_pool_create(d, POOL_BYTES, &pool));
    storage *shared = storage_create(pool);
    expect_ok(executor_create(p, pool, shared, &e));
    expect_ok(attention_fill(e, 1));
    bool is_recorded = executor_observe_begin(e) == DYNO_OK;
    expect_ok(executor_run(e, NULL, NULL));
    if (is_recorded)
        expect_ok(executor_observe_end(e, &records));
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    return records;
}

static void kernels_of_attention_are_those_of_the_plan(void **state) {
    device *d = device_bench_open(state);
    static const struct {
        attention_shape shape;
        precision math;
        const char *forward, *backward;
    } rows[] = {
        {{1, 2048, 1, 1, 64}, PRECISION_BF16, "attention_split_kv", "attention_gradient_split_kv"},
        {{2, 256, 32, 32, 64}, PRECISION_BF16, "attention_hopper", "attention_gradient_hopper"},
        {{1, 256, 8, 8, 64},
         PRECISION_FP16,
         "attention_hopper",
         "attention_gradient_hopper_single_pass"},
        {{1, 256, 8, 8, 128}, PRECISION_BF16, "attention_mma", "attention_gradient_mma"},
        {{1, 256, 8, 8, 256}, PRECISION_BF16, "attention_hopper", "attention_gradient_hopper_wide"},
        {{1, 256, 8, 8, 64}, PRECISION_FP32, "attention_tf32", "attention_gradient_tf32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        attention_plan_options options = {.shape = rows[i].shape,
                                          .is_causal = true,
                                          .extent = STEP_BACKWARD,
                                          .mode = STEP_COMPILED,
                                          .precision = rows[i].math,
                                          .target = &d->target,
                                          .forward = rows[i].forward,
                                          .backward = rows[i].backward};
        plan *p;
        if (attention_plan_flash(&options, &p) == DYNO_UNSUPPORTED)
            continue; /* kernels of another chip */
        assert_string_equal(attention_find_launch(p, false)->kernel_name, rows[i].forward);
        assert_string_equal(attention_find_launch(p, true)->kernel_name, rows[i].backward);
        launch_log records = observe_attention(d, p);
        if (records.count)
            expect_names(p, &records);
        launch_log_release(&records);
        plan_destroy(p);
    }
}

static void looking_on_changes_no_bit_before_or_after(void **state) {
    device *d = device_bench_open(state);
    for (int mode = device_bench_rounds(STEP_EAGER, STEP_COMPILED); mode < STEP_MODE_COUNT;
         mode++) {
        step_options options = options_of((step_mode)mode, PRECISION_BF16);
        step_bench seen = step_bench_create_on(d, &options, 1);
        step_bench plain = step_bench_create_on(d, &options, 1);
        step_bench_run(&seen);
        launch_log records = {0};
        if (executor_observe_begin(seen.e) == DYNO_OK) {
            step_bench_run(&seen);
            expect_ok(executor_observe_end(seen.e, &records));
            assert_true(records.count > 0);
        } else {
            step_bench_run(&seen);
        }
        step_bench_run(&seen);
        for (int step = 0; step < 3; step++)
            step_bench_run(&plain);
        expect_same_names(&seen, &plain);
        launch_log_release(&records);
        step_bench_destroy(&seen);
        step_bench_destroy(&plain);
    }
}

static void only_one_is_observed_at_a_time(void **state) {
    device *d = device_bench_open(state);
    step_options options = options_of(STEP_COMPILED, PRECISION_FP32);
    step_bench one = step_bench_create_on(d, &options, 1);
    begin_or_skip(&one);
    step_bench two = step_bench_create_on(d, &options, 1);
    assert_int_equal(executor_observe_begin(two.e), DYNO_UNSUPPORTED);
    step_bench_run(&two); /* is nobody's */
    step_bench_destroy(&two);
    launch_log records;
    expect_ok(executor_observe_end(one.e, &records));
    launch_log_release(&records);
    step_bench_destroy(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_launch_of_every_step_is_recorded),
        cmocka_unit_test(kernels_of_a_step_are_those_of_the_plan),
        cmocka_unit_test(kernels_of_attention_are_those_of_the_plan),
        cmocka_unit_test(looking_on_changes_no_bit_before_or_after),
        cmocka_unit_test(only_one_is_observed_at_a_time),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
