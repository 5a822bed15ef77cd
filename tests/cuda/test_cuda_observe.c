/* test_cuda_observe.c - what a GPU records of steps: something of every launch, in every step, and
 * nothing else; and that looking on changes nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "support/device_bench.h"
#include "support/expect.h"
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
    print_message("nothing is recorded here: %s\n", dyno_error_message());
    step_bench_destroy(b);
    skip();
}

static activity observe(step_bench *b) {
    activity records;
    begin_or_skip(b);
    for (int step = 0; step < STEPS; step++)
        step_bench_run(b);
    expect_ok(executor_observe_end(b->e, &records));
    return records;
}

static activity_times analyse(const plan *p, const activity *records) {
    int *streams = memory_allocate((size_t)p->launch_count, sizeof *streams);
    for (int i = 0; i < p->launch_count; i++)
        streams[i] = p->launches[i].stream;
    activity_times times;
    activity_question asked = {p->launch_count, streams, 0, STEPS};
    expect_ok(activity_analyse(records, &asked, &times));
    free(streams);
    return times;
}

static void every_launch_of_every_step_is_recorded(void **state) {
    device *d = device_bench_open(state);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int p = device_bench_rounds(PRECISION_FP32, PRECISION_BF16); p <= PRECISION_BF16;
             p++) {
            step_options options = options_of((step_mode)mode, (precision)p);
            step_bench b = step_bench_create_on(d, &options, 1);
            activity records = observe(&b);
            activity_times times = analyse(b.p, &records);
            for (int i = 0; i < b.p->launch_count; i++)
                if (times.pieces[i] < STEPS || times.running_ns[i] <= 0)
                    fail_msg("launch %d of %d, %s in %s: %lld records, %lld ns", i,
                             b.p->launch_count, b.p->launches[i].kernel_name,
                             b.p->scopes[b.p->launches[i].scope], (long long)times.pieces[i],
                             (long long)times.running_ns[i]);
            assert_int_equal(times.unseen, 0);
            assert_true(times.unknown_ns == 0);
            assert_true(times.busy_ns > 0 && times.busy_ns <= times.span_ns);
            assert_true(times.between_ns > 0);
            print_message("%s %s: %d launches, %lld records, busy %.1f of %.1f us a step\n",
                          step_mode_name((step_mode)mode), precision_name((precision)p),
                          b.p->launch_count, (long long)records.count,
                          (double)times.busy_ns / STEPS / 1e3, (double)times.span_ns / STEPS / 1e3);
            activity_times_release(&times);
            activity_release(&records);
            step_bench_destroy(&b);
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
        activity records = {0};
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
        activity_release(&records);
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
    activity records;
    expect_ok(executor_observe_end(one.e, &records));
    activity_release(&records);
    step_bench_destroy(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_launch_of_every_step_is_recorded),
        cmocka_unit_test(looking_on_changes_no_bit_before_or_after),
        cmocka_unit_test(only_one_is_observed_at_a_time),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
