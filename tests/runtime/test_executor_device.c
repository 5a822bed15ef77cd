/* test_executor_device.c - steps on a device whose memory the host cannot touch compute there what
 * they compute on the CPU. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiments/attention_plan.h"
#include "measure/breakdown.h"
#include "measure/timing.h"
#include "plan/memory_account.h"
#include "support/expect.h"
#include "support/fake_device.h"
#include "support/small_model.h"

enum { POOL_BYTES = 1 << 26, BATCH = 2, CONTEXT = 5, ROWS = BATCH * CONTEXT };

static void expect_failure(dyno_status status, dyno_status wanted, const char *part) {
    assert_int_equal(status, wanted);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' lacks '%s'", dyno_error_message(), part);
}

typedef struct bench {
    device *d;
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
} bench;

static bench bench_create(device *d, step_extent extent, step_mode mode, precision math) {
    step_options options = small_model_step(&small_model_fixed, BATCH, CONTEXT, extent);
    options.pipeline.mode = mode;
    options.pipeline.precision = math;
    bench b = {.d = d};
    expect_ok(step_plan_create(&options, &b.p));
    expect_ok(memory_pool_create(d, POOL_BYTES, &b.pool));
    b.shared = storage_create(b.pool);
    expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
    small_model_fill(b.e, b.shared, &small_model_fixed, 3);
    return b;
}

static void bench_destroy(bench *b) {
    executor_destroy(b->e);
    storage_destroy(b->shared);
    memory_pool_destroy(b->pool);
    plan_destroy(b->p);
}

static void expect_same_numbers(const bench *a, const bench *b) {
    for (int i = 0; i < a->p->name_count; i++) {
        const char *name = a->p->names[i].name;
        tensor x = executor_find(a->e, name), y = executor_find(b->e, name);
        int64_t bytes = tensor_bytes(&x);
        assert_int_equal(bytes, tensor_bytes(&y));
        char *one = memory_allocate((size_t)bytes + 1, 2), *other = one + bytes;
        expect_ok(executor_read(a->e, name, one, bytes));
        expect_ok(executor_read(b->e, name, other, bytes));
        if (memcmp(one, other, (size_t)bytes) != 0)
            fail_msg("'%s' is not the same", name);
        free(one);
    }
}

static void steps_compute_the_same_on_every_device(void **state) {
    (void)state;
    for (int way = 0; way < STEP_EXTENT_COUNT * STEP_MODE_COUNT * 2 * 2; way++) {
        step_extent extent = (step_extent)(way % STEP_EXTENT_COUNT);
        step_mode mode = (step_mode)(way / STEP_EXTENT_COUNT % STEP_MODE_COUNT);
        precision math =
            way / STEP_EXTENT_COUNT / STEP_MODE_COUNT % 2 ? PRECISION_BF16 : PRECISION_FP32;
        bool can_capture = way >= STEP_EXTENT_COUNT * STEP_MODE_COUNT * 2;
        fake_device *f = fake_device_create(POOL_BYTES, can_capture);
        bench a = bench_create(device_cpu(), extent, mode, math);
        bench b = bench_create(fake_device_base(f), extent, mode, math);
        for (int step = 0; step < 3; step++) {
            expect_ok(executor_run(a.e, NULL, NULL));
            expect_ok(executor_run(b.e, NULL, NULL));
            expect_same_numbers(&a, &b);
        }
        bool is_replayed = can_capture && mode == STEP_COMPILED;
        assert_int_equal(f->captures, is_replayed);
        assert_int_equal(f->replays, is_replayed ? 3 : 0);
        assert_int_equal(f->launches, is_replayed ? 0 : 3 * b.p->launch_count);
        bench_destroy(&a);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

/* A trace needs every launch by itself, and so does a recording of memory. */
static void a_step_that_is_looked_into_is_not_replayed(void **state) {
    (void)state;
    fake_device *f = fake_device_create(POOL_BYTES, true);
    bench a = bench_create(device_cpu(), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
    bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
    launch_log t = {0};
    static const bool is_traced[] = {true, false, true, false};
    int replays = 0, launches = 0;
    for (int i = 0; i < 4; i++) {
        step_times times;
        expect_ok(executor_run(a.e, NULL, NULL));
        expect_ok(executor_run(b.e, is_traced[i] ? &t : NULL, &times));
        replays += !is_traced[i];
        launches += is_traced[i] ? b.p->launch_count : 0;
        assert_int_equal(f->captures, i > 0);
        assert_int_equal(f->replays, replays);
        assert_int_equal(f->launches, launches);
        int64_t sum = 0;
        for (int j = 0; j < PHASE_COUNT; j++) {
            assert_int_equal(times.phase_ns[j] > 0, j <= PHASE_OPTIMIZER);
            sum += times.phase_ns[j];
        }
        assert_int_equal(sum, times.total_ns);
        assert_int_equal(t.step_count, (i + 2) / 2);
        assert_int_equal(t.count, t.step_count * b.p->launch_count);
        const logged_step *step = &t.steps[t.step_count - 1];
        int64_t before = step->begin_ns;
        for (int64_t j = t.count - b.p->launch_count; j < t.count; j++) {
            const launch_record *r = &t.records[j];
            assert_int_equal(r->step, t.step_count - 1);
            assert_true(before <= r->begin_ns && r->begin_ns <= r->end_ns);
            assert_true(r->host_begin_ns <= r->host_end_ns && r->host_end_ns <= step->enqueued_ns);
            before = r->end_ns;
        }
        assert_true(before <= step->end_ns);
        expect_same_numbers(&a, &b);
    }
    memory_pool_start_recording(b.pool);
    expect_ok(executor_run(b.e, NULL, NULL));
    assert_int_equal(f->replays, replays);
    launch_log_release(&t);
    bench_destroy(&a);
    bench_destroy(&b);
    device_close(fake_device_base(f));
}

/* Updates in the midst of the backward would cost a replayed step an event each. */
static void phases_that_take_turns_are_told_apart_only_where_it_costs_nothing(void **state) {
    (void)state;
    for (int can_capture = 0; can_capture < 2; can_capture++) {
        fake_device *f = fake_device_create(POOL_BYTES, can_capture);
        bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
        executor_destroy(b.e);
        int n = b.p->launch_count;
        for (int i = n / 3; i < n; i++)
            b.p->launches[i].phase = i % 2 ? PHASE_BACKWARD : PHASE_OPTIMIZER;
        b.p->launches[n / 3].phase = PHASE_BACKWARD;
        expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
        step_times times;
        expect_ok(executor_run(b.e, NULL, &times));
        assert_true(times.phase_ns[PHASE_FORWARD] > 0);
        assert_int_equal(times.phase_ns[PHASE_BACKWARD] > 0, !can_capture);
        assert_int_equal(times.phase_ns[PHASE_OPTIMIZER] > 0, !can_capture);
        assert_int_equal(times.together_ns > 0, can_capture);
        assert_int_equal(times.total_ns, times.phase_ns[PHASE_FORWARD] +
                                             times.phase_ns[PHASE_BACKWARD] +
                                             times.phase_ns[PHASE_OPTIMIZER] + times.together_ns);
        if (can_capture)
            assert_int_equal(f->events, 1);
        results *run = results_create("bench", 0, NULL);
        results_cell *cell = results_add_cell(run);
        expect_ok(timing_run(b.e, b.p, &(timing_options){.steps = 2}, cell));
        assert_int_equal(cell_find_series(cell, "forward")->count, 2);
        assert_int_equal(cell_find_series(cell, "backward") != NULL, !can_capture);
        assert_int_equal(cell_find_series(cell, "backward+optimizer") != NULL, can_capture);
        results_destroy(run);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

/* Gathers of weights inside the forward, or many micro-batches: the first part of the forward is not its time. */
static void a_phase_of_which_only_a_part_is_timed_has_no_time(void **state) {
    (void)state;
    for (int can_capture = 0; can_capture < 2; can_capture++) {
        fake_device *f = fake_device_create(POOL_BYTES, can_capture);
        bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
        executor_destroy(b.e);
        int n = b.p->launch_count;
        for (int i = 0; i < n; i++)
            b.p->launches[i].phase = i + 2 > n    ? PHASE_BACKWARD
                                     : i % 2 == 1 ? PHASE_COMMUNICATION
                                                  : PHASE_FORWARD;
        expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
        step_times times;
        for (int step = 0; step < 2; step++) /* the first one of ranks is not replayed */
            expect_ok(executor_run(b.e, NULL, &times));
        assert_int_equal(times.phase_ns[PHASE_FORWARD] > 0, !can_capture);
        assert_int_equal(times.together_ns, can_capture ? times.total_ns : 0);
        assert_int_equal(f->events, 0);
        results *run = results_create("bench", 0, NULL);
        results_cell *cell = results_add_cell(run);
        expect_ok(timing_run(b.e, b.p, &(timing_options){.steps = 2}, cell));
        assert_int_equal(cell_find_series(cell, "step")->count, 2);
        assert_int_equal(cell_find_series(cell, "forward") != NULL, !can_capture);
        assert_int_equal(cell->series_count, can_capture ? 1 : 4);
        results_destroy(run);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

/* The gradients that a loss head computes in the forward are with the backward's there, too. */
static void a_launch_of_two_phases_is_divided_in_a_replayed_step(void **state) {
    (void)state;
    for (int alternates = 0; alternates < 2; alternates++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
        executor_destroy(b.e);
        int n = b.p->launch_count;
        for (int i = 0; i < n; i++)
            b.p->launches[i].phase = i < n / 3                  ? PHASE_FORWARD
                                     : alternates && i % 2 == 0 ? PHASE_OPTIMIZER
                                                                : PHASE_BACKWARD;
        plan_launch *split = &b.p->launches[n / 3 - 2];
        split->flops = 1e9;
        split->backward_flops = 1e9 - 1; /* all of its run but a billionth */
        expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
        step_times times;
        expect_ok(executor_run(b.e, NULL, &times));
        assert_int_equal(f->events, alternates ? 2 : 3);
        assert_true(times.phase_ns[PHASE_FORWARD] > 0);
        assert_int_equal(times.phase_ns[PHASE_BACKWARD] > 0, !alternates);
        assert_int_equal(times.together_ns > 0, alternates);
        assert_int_equal(times.total_ns, times.phase_ns[PHASE_FORWARD] +
                                             times.phase_ns[PHASE_BACKWARD] + times.together_ns);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

static void what_is_written_during_a_step_is_for_the_next(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        bench a = bench_create(device_cpu(), STEP_FULL, (step_mode)mode, PRECISION_FP32);
        bench b = bench_create(fake_device_base(f), STEP_FULL, (step_mode)mode, PRECISION_FP32);
        int32_t ids[ROWS];
        for (int step = 0; step < 3; step++) {
            expect_ok(executor_run(a.e, NULL, NULL));
            expect_ok(executor_start(b.e, NULL));
            assert_true(f->waiting > 0);
            for (int i = 0; i < ROWS; i++)
                ids[i] = (i + 3 * step) % (int)small_model_fixed.vocab;
            expect_ok(executor_write(a.e, "tokens", ids, sizeof ids));
            expect_ok(executor_write(b.e, "tokens", ids, sizeof ids));
            memset(ids, 0, sizeof ids);
            expect_ok(executor_finish(b.e, NULL));
            expect_ok(executor_finish(b.e, NULL)); /* nothing more to wait for */
            expect_same_numbers(&a, &b);
        }
        expect_ok(executor_start(b.e, NULL)); /* destroyed with a step under way */
        bench_destroy(&a);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

static void a_device_that_breaks_down_fails_the_step(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        bench b = bench_create(fake_device_base(f), STEP_BACKWARD, (step_mode)mode, PRECISION_FP32);
        int64_t taken = memory_pool_taken_bytes(b.pool);
        f->fails_next_finish = true;
        step_times times;
        expect_failure(executor_run(b.e, NULL, &times), DYNO_UNSUPPORTED, "broke down");
        assert_null(executor_find(b.e, "loss").data);
        float loss;
        expect_failure(executor_read(b.e, "loss", &loss, sizeof loss), DYNO_NOT_FOUND, "'loss'");
        assert_int_equal(memory_pool_taken_bytes(b.pool), taken);
        expect_ok(executor_run(b.e, NULL, NULL));
        expect_ok(executor_read(b.e, "loss", &loss, sizeof loss));
        expect_failure(executor_read(b.e, "loss", &loss, 2), DYNO_INVALID, "is 4 bytes");
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

/* What was not copied is not to be taken for numbers, be it a loss or a checkpoint's weights. */
static void what_a_broken_device_did_not_copy_is_not_read(void **state) {
    (void)state;
    fake_device *f = fake_device_create(POOL_BYTES, true);
    bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
    expect_ok(executor_run(b.e, NULL, NULL));
    float loss;
    f->fails_next_finish = true;
    expect_failure(executor_read(b.e, "loss", &loss, sizeof loss), DYNO_UNSUPPORTED, "broke down");
    expect_ok(executor_read(b.e, "loss", &loss, sizeof loss));
    int32_t ids[ROWS];
    f->fails_next_finish = true;
    expect_failure(storage_read(b.shared, "tokens", ids, sizeof ids), DYNO_UNSUPPORTED,
                   "broke down");
    expect_ok(storage_read(b.shared, "tokens", ids, sizeof ids));
    /* With a step under way it is that step which failed, whoever read meanwhile. */
    expect_ok(executor_start(b.e, NULL));
    f->fails_next_finish = true;
    expect_ok(executor_read(b.e, "loss", &loss, sizeof loss));
    expect_failure(executor_finish(b.e, NULL), DYNO_UNSUPPORTED, "broke down");
    bench_destroy(&b);
    device_close(fake_device_base(f));
}

/* A row that says "out of memory" asks for a smaller batch, which would help nobody here. */
static void a_device_that_breaks_down_is_not_out_of_memory(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        step_options options = small_model_step(&small_model_fixed, BATCH, CONTEXT, STEP_FULL);
        options.pipeline.mode = (step_mode)mode;
        fake_device *f = fake_device_create(POOL_BYTES, true);
        plan *p;
        memory_pool *pool;
        executor *e;
        expect_ok(step_plan_create(&options, &p));
        expect_ok(memory_pool_create(fake_device_base(f), POOL_BYTES, &pool));
        storage *shared = storage_create(pool);
        f->fails_commits = true;
        expect_failure(executor_create(p, pool, shared, &e), DYNO_DEVICE_FAILED, "broke down");
        assert_int_equal(memory_pool_taken_bytes(pool), 0);
        f->fails_commits = false;
        expect_ok(executor_create(p, pool, shared, &e));
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        plan_destroy(p);
        device_close(fake_device_base(f));
    }
}

static void a_plan_for_another_backend_is_refused(void **state) {
    (void)state;
    plan *p = small_model_plan(&small_model_fixed, BATCH, CONTEXT, STEP_FORWARD);
    p->target = *target_usual(TARGET_CUDA);
    memory_pool *pool;
    expect_ok(memory_pool_create(device_cpu(), POOL_BYTES, &pool));
    storage *s = storage_create(pool);
    executor *e;
    expect_failure(executor_create(p, pool, s, &e), DYNO_INVALID, "cannot run on device cpu");
    assert_null(e);
    assert_int_equal(storage_count(s), 0);
    storage_destroy(s);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

static void a_plan_for_instructions_that_are_not_here_is_refused(void **state) {
    (void)state;
    plan *p = small_model_plan(&small_model_fixed, BATCH, CONTEXT, STEP_FORWARD);
    memory_pool *pool;
    expect_ok(memory_pool_create(device_cpu(), POOL_BYTES, &pool));
    storage *s = storage_create(pool);
    for (isa which = 0; which < ISA_COUNT; which++) {
        executor *e;
        p->target = (target){.name = "named", .instruction_sets = 1u << which};
        if (target_has(target_this_cpu(), which)) {
            expect_ok(executor_create(p, pool, s, &e));
        } else {
            expect_failure(executor_create(p, pool, s, &e), DYNO_UNSUPPORTED, isa_name(which));
            assert_non_null(strstr(dyno_error_message(), "target named needs"));
            assert_null(e);
        }
        executor_destroy(e);
    }
    storage_destroy(s);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

/* Wherever the device has no more, in whichever launch, the next that fits goes on. */
static void a_device_without_memory_fails_one_cell_and_serves_the_next(void **state) {
    (void)state;
    plan *large = small_model_plan(&small_model_fixed, 20, 20, STEP_FULL);
    plan *small = small_model_plan(&small_model_fixed, 1, 2, STEP_FULL);
    int64_t needed = memory_account_plan(large).reserved_bytes;
    int failures = 0;
    for (int64_t memory = 4 * FAKE_GRANULARITY; memory < needed; memory += FAKE_GRANULARITY) {
        fake_device *f = fake_device_create(memory, true);
        memory_pool *pool;
        expect_ok(memory_pool_create(fake_device_base(f), POOL_BYTES, &pool));
        storage *shared = storage_create(pool);
        executor *e;
        dyno_status status = executor_create(large, pool, shared, &e);
        if (status == DYNO_OK) {
            small_model_fill(e, shared, &small_model_fixed, 1);
            status = executor_run(e, NULL, NULL);
            failures++;
        }
        assert_int_equal(status, DYNO_OUT_OF_MEMORY);
        assert_non_null(strstr(dyno_error_message(), "but the device has no more"));
        executor_destroy(e);
        storage_keep_parameters(shared, small);
        memory_pool_trim(pool);
        expect_ok(executor_create(small, pool, shared, &e));
        small_model_fill(e, shared, &small_model_fixed, 1);
        expect_ok(executor_run(e, NULL, NULL));
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        device_close(fake_device_base(f));
    }
    assert_true(failures > 3);
    plan_destroy(large);
    plan_destroy(small);
}

static void steps_on_a_device_are_timed_and_broken_down(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        bench b = bench_create(fake_device_base(f), STEP_FULL, (step_mode)mode, PRECISION_FP32);
        results *run = results_create("bench", 0, NULL);
        results_cell *cell = results_add_cell(run);
        timing_options options = {.warmup = 2, .steps = 3};
        expect_ok(timing_run(b.e, b.p, &options, cell));
        static const char *const series[] = {"step", "forward", "backward", "optimizer"};
        for (int i = 0; i < 4; i++)
            assert_int_equal(cell_find_series(cell, series[i])->count, 3);
        assert_true(results_number(&cell_find_metric(cell, "first_step_ns")->value) ==
                    results_series_at(cell_find_series(cell, "warmup"), 0));
        expect_ok(breakdown_run(b.e, b.p, &options, cell));
        const results_breakdown *table = cell_find_breakdown(cell, "by_kernel");
        double in_launches = 0;
        for (int64_t i = 0; i < table->row_count; i++)
            if (table->rows[i].keys[0][0] != '(')
                in_launches += results_number(&table->rows[i].values[0]);
        double told = results_number(&cell_find_metric(cell, "in_launches_ns")->value);
        assert_true(in_launches > 0 && told - 1 <= in_launches && in_launches <= told + 1);
        results_destroy(run);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

/* Replayed as ever, and told by launch: every breakdown adds up to the step as the device saw it.
 */
static void observed_steps_are_replayed_and_told_by_the_devices_own_records(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        f->can_observe = true;
        bench b = bench_create(fake_device_base(f), STEP_FULL, (step_mode)mode, PRECISION_FP32);
        results *run = results_create("bench", 0, NULL);
        results_cell *cell = results_add_cell(run);
        timing_options options = {.steps = 3};
        expect_ok(timing_run(b.e, b.p, &options, cell));
        int captures = f->captures, replays = f->replays, launches = f->launches;
        expect_ok(breakdown_run(b.e, b.p, &options, cell));
        bool is_replayed = mode == STEP_COMPILED;
        assert_int_equal(f->captures - captures,
                         is_replayed); /* once more, to be known by launch */
        assert_int_equal(f->replays - replays, is_replayed ? 1 + 3 : 0);
        assert_int_equal(f->launches - launches, is_replayed ? 0 : 4 * b.p->launch_count);
        double span = results_number(&cell_find_metric(cell, "device_span_ns")->value);
        double busy = results_number(&cell_find_metric(cell, "device_busy_ns")->value);
        assert_true(busy > 0 && busy <= span);
        assert_true(results_number(&cell_find_metric(cell, "launches_unseen")->value) == 0);
        assert_true(results_number(&cell_find_metric(cell, "between_steps_ns")->value) >= 0);
        static const char *const names[] = {"by_class", "by_kernel", "by_phase", "by_scope"};
        for (int i = 0; i < 4; i++) {
            const results_breakdown *table = cell_find_breakdown(cell, names[i]);
            assert_string_equal(table->columns[4].name, "running");
            double time = 0, running = 0, count = 0;
            for (int64_t j = 0; j < table->row_count; j++) {
                time += results_number(&table->rows[j].values[0]);
                count += results_number(&table->rows[j].values[1]);
                running += results_number(&table->rows[j].values[4]);
            }
            assert_true(time > span - 2 && time < span + 2);
            assert_true(running > busy - 2 &&
                        running < busy + 2); /* nothing is side by side here */
            assert_true(count == b.p->launch_count);
        }
        /* The next step is captured anew, with nobody looking. */
        expect_ok(executor_run(b.e, NULL, NULL));
        assert_int_equal(f->captures - captures, is_replayed ? 2 : 0);
        results_destroy(run);
        bench_destroy(&b);
        device_close(fake_device_base(f));
    }
}

static void a_breakdown_from_records_that_were_lost_is_none(void **state) {
    (void)state;
    fake_device *f = fake_device_create(POOL_BYTES, true);
    f->can_observe = true;
    f->dropped_records = 7;
    bench b = bench_create(fake_device_base(f), STEP_FULL, STEP_COMPILED, PRECISION_FP32);
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(run);
    assert_int_equal(breakdown_run(b.e, b.p, &(timing_options){.steps = 2}, cell), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "7 of the device's records were dropped"));
    assert_null(cell_find_breakdown(cell, "by_class"));
    assert_null(cell_find_metric(cell, "device_busy_ns"));
    results_destroy(run);
    bench_destroy(&b);
    device_close(fake_device_base(f));
}

static void attention_alone_runs_on_every_device(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        attention_plan_options options = {.shape = {2, 6, 2, 2, 4},
                                          .is_causal = true,
                                          .extent = STEP_BACKWARD,
                                          .mode = (step_mode)mode};
        fake_device *f = fake_device_create(POOL_BYTES, true);
        device *devices[] = {device_cpu(), fake_device_base(f)};
        bench b[2];
        for (int i = 0; i < 2; i++) {
            b[i].d = devices[i];
            expect_ok(attention_plan_naive(&options, &b[i].p));
            expect_ok(memory_pool_create(b[i].d, POOL_BYTES, &b[i].pool));
            b[i].shared = storage_create(b[i].pool);
            expect_ok(executor_create(b[i].p, b[i].pool, b[i].shared, &b[i].e));
            expect_ok(attention_fill(b[i].e, 4));
            expect_ok(executor_run(b[i].e, NULL, NULL));
        }
        expect_same_numbers(&b[0], &b[1]);
        bench_destroy(&b[0]);
        bench_destroy(&b[1]);
        device_close(fake_device_base(f));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_compute_the_same_on_every_device),
        cmocka_unit_test(a_step_that_is_looked_into_is_not_replayed),
        cmocka_unit_test(phases_that_take_turns_are_told_apart_only_where_it_costs_nothing),
        cmocka_unit_test(a_phase_of_which_only_a_part_is_timed_has_no_time),
        cmocka_unit_test(a_launch_of_two_phases_is_divided_in_a_replayed_step),
        cmocka_unit_test(what_is_written_during_a_step_is_for_the_next),
        cmocka_unit_test(a_device_that_breaks_down_fails_the_step),
        cmocka_unit_test(what_a_broken_device_did_not_copy_is_not_read),
        cmocka_unit_test(a_device_that_breaks_down_is_not_out_of_memory),
        cmocka_unit_test(a_plan_for_another_backend_is_refused),
        cmocka_unit_test(a_plan_for_instructions_that_are_not_here_is_refused),
        cmocka_unit_test(a_device_without_memory_fails_one_cell_and_serves_the_next),
        cmocka_unit_test(steps_on_a_device_are_timed_and_broken_down),
        cmocka_unit_test(observed_steps_are_replayed_and_told_by_the_devices_own_records),
        cmocka_unit_test(a_breakdown_from_records_that_were_lost_is_none),
        cmocka_unit_test(attention_alone_runs_on_every_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
