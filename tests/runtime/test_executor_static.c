/* test_executor_static.c - static plans: the numbers of eager ones, and memory that is taken once
 * and to the byte. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/kernel.h"
#include "plan/memory_account.h"
#include "plan/memory_plan.h"
#include "support/expect.h"
#include "support/step_bench.h"

static step_bench bench_of(uint64_t seed, step_extent extent, bool is_static, bool is_recording) {
    draw d = draw_create(seed, 1);
    model_config config = small_model_draw(&d);
    int64_t batch = 1 + draw_below(&d, 3), context = 1 + draw_below(&d, 9);
    pass_options options = {.extent = extent, .is_static = is_static, .keep_all = true};
    return step_bench_create(&config, pass_plan(&config, batch, context, &options), seed,
                             is_recording);
}

static void static_steps_give_bitwise_what_eager_ones_do(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
            step_bench eager = bench_of(seed, (step_extent)extent, false, false);
            step_bench fixed = bench_of(seed, (step_extent)extent, true, false);
            for (int step = 0; step < 3; step++) {
                step_bench_run(&eager);
                step_bench_run(&fixed);
                expect_same_names(&eager, &fixed);
            }
            step_bench_destroy(&eager);
            step_bench_destroy(&fixed);
        }
}

static void predicted_memory_is_measured_memory_to_the_byte(void **state) {
    (void)state;
    for (uint64_t seed = 10; seed < 16; seed++)
        for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
            step_bench b = bench_of(seed, (step_extent)extent, true, false);
            memory_account account = memory_account_plan(b.p);
            for (int step = 0; step < 3; step++) {
                assert_int_equal(memory_pool_taken_bytes(b.pool), account.peak_bytes);
                assert_int_equal(memory_pool_peak_taken_bytes(b.pool), account.peak_bytes);
                assert_int_equal(memory_pool_reserved_bytes(b.pool), account.reserved_bytes);
                step_bench_run(&b);
            }
            assert_int_equal(memory_pool_peak_taken_bytes(b.pool), account.peak_bytes);
            step_bench_stop(&b);
            assert_int_equal(memory_pool_taken_bytes(b.pool), 0);
            step_bench_destroy(&b);
        }
}

/* A step that follows a smaller one of the same model finds weights and pool in use. */
static void plans_of_one_model_share_storage_and_pool(void **state) {
    (void)state;
    draw d = draw_create(17, 1);
    model_config config = small_model_draw(&d);
    pass_options options = {.extent = STEP_FORWARD, .is_static = true};
    plan *forward = pass_plan(&config, 2, 5, &options);
    options.extent = STEP_FULL;
    plan *step = pass_plan(&config, 2, 5, &options);
    memory_pool *pool;
    executor *e;
    expect_ok(memory_pool_create(device_cpu(), 1 << 26, &pool));
    storage *shared = storage_create(pool);
    const plan *plans[] = {forward, step, forward};
    for (int i = 0; i < 3; i++) {
        storage_keep_parameters(shared, plans[i]);
        memory_pool_trim(pool);
        expect_ok(executor_create(plans[i], pool, shared, &e));
        small_model_fill(e, shared, &config, 17);
        expect_ok(executor_run(e, NULL, NULL));
        memory_account account = memory_account_plan(plans[i]);
        assert_int_equal(memory_pool_peak_taken_bytes(pool), account.peak_bytes);
        executor_destroy(e);
    }
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(forward);
    plan_destroy(step);
}

/* Every buffer once, at its launches, inside the arena, apart from all that are alive. */
static void replay(const step_bench *b, const memory_record *records, int count) {
    const plan *p = b->p;
    const memory_record **alive = memory_allocate((size_t)count, sizeof *alive);
    int births = 0, deaths = 0, persistent = 0;
    for (int i = 0; i < p->buffer_count; i++)
        persistent += p->buffers[i].is_persistent;
    for (int i = 0; i < count; i++) {
        const memory_record *r = &records[i];
        int same = 0;
        for (int j = 0; j < i; j++) {
            if (!alive[j])
                continue;
            bool meet = alive[j]->offset < r->offset + r->bytes &&
                        r->offset < alive[j]->offset + alive[j]->bytes;
            if (meet) {
                assert_false(r->is_allocation);
                assert_int_equal(alive[j]->offset, r->offset);
                assert_int_equal(alive[j]->bytes, r->bytes);
                alive[j] = NULL;
                same++;
            }
        }
        assert_int_equal(same, r->is_allocation ? 0 : 1);
        if (r->is_allocation)
            alive[i] = r;
        if (r->is_allocation && births++ >= persistent) {
            const plan_buffer *buffer = &p->buffers[p->births[births - 1 - persistent]];
            assert_int_equal(r->launch, buffer->born);
            assert_int_equal(r->role, buffer->role);
            assert_true(shape_equal(&r->shape, &buffer->shape));
            assert_string_equal(r->scope, p->scopes[buffer->scope]);
        }
        deaths += !r->is_allocation;
    }
    assert_int_equal(births, p->buffer_count);
    assert_int_equal(deaths, p->buffer_count);
    free(alive);
}

static void every_buffer_is_recorded_when_it_comes_and_goes(void **state) {
    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++)
        for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
            step_bench b = bench_of(seed, (step_extent)extent, true, true);
            step_bench_run(&b);
            step_bench_stop(&b);
            int count;
            const memory_record *records = memory_pool_records(b.pool, &count);
            replay(&b, records, count);
            step_bench_destroy(&b);
        }
}

static void a_second_recorded_step_starts_by_dropping_the_outputs(void **state) {
    (void)state;
    step_bench b = bench_of(25, STEP_FULL, true, true);
    step_bench_run(&b);
    step_bench_run(&b);
    step_bench_stop(&b);
    int count, balance = 0, at_start = 0;
    const memory_record *records = memory_pool_records(b.pool, &count);
    for (int i = 0; i < count; i++) {
        balance += records[i].is_allocation ? 1 : -1;
        at_start += !records[i].is_allocation && records[i].launch == -1 && records[i].name &&
                    strcmp(records[i].name, "loss") == 0;
    }
    assert_int_equal(balance, 0);
    assert_int_equal(at_start, 1);
    step_bench_destroy(&b);
}

static void outputs_are_there_after_a_run_and_only_then(void **state) {
    (void)state;
    step_bench b = bench_of(30, STEP_BACKWARD, true, false);
    assert_null(executor_find(b.e, "loss").data);
    assert_non_null(executor_find(b.e, "tokens").data);
    step_bench_run(&b);
    assert_non_null(executor_find(b.e, "loss").data);
    assert_non_null(executor_find(b.e, "logits").data);
    assert_null(executor_find(b.e, "no such name").data);
    step_bench_destroy(&b);
}

static void memory_runs_out_when_the_executor_is_made_and_leaves_nothing(void **state) {
    (void)state;
    draw d = draw_create(31, 1);
    model_config config = small_model_draw(&d);
    pass_options options = {.extent = STEP_FULL, .is_static = true};
    plan *p = pass_plan(&config, 2, 3, &options);
    int64_t needed = memory_account_plan(p).reserved_bytes;
    for (int64_t limit = needed - 64; limit <= needed; limit++) {
        memory_pool *pool;
        executor *e;
        expect_ok(memory_pool_create(device_cpu(), limit, &pool));
        storage *shared = storage_create(pool);
        dyno_status status = executor_create(p, pool, shared, &e);
        if (limit == needed) {
            expect_ok(status);
            small_model_fill(e, shared, &config, 1);
            expect_ok(executor_run(e, NULL, NULL));
        } else {
            assert_int_equal(status, DYNO_OUT_OF_MEMORY);
            assert_non_null(strstr(dyno_error_message(), "for the arena of 'drawn'"));
            assert_null(e);
            assert_int_equal(memory_pool_taken_bytes(pool), 0);
            assert_int_equal(storage_count(shared), 0);
        }
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
    }
    plan_destroy(p);
}

/* Doubles in place where the plan lets it. */
static dyno_status run_double(const kernel_args *args) {
    const float *in = args->inputs[0].data;
    float *out = args->outputs[0].data;
    for (int64_t i = 0; i < shape_elements(&args->outputs[0].shape); i++)
        out[i] = 2 * in[i];
    return DYNO_OK;
}

/* From "x" to "y" in so many launches of the kernel, each of which may write over its input. */
static plan *plan_doubling(const kernel *k, int steps, int64_t size) {
    static const char *scopes[] = {""};
    shape s = SHAPE(size);
    plan *p = plan_create("doubling");
    p->scopes = scopes;
    p->scope_count = 1;
    plan_operand before = {.layout = tensor_contiguous(NULL, DTYPE_F32, &s)};
    for (int i = -1; i < steps; i++) {
        plan_buffer buffer = {.bytes = size * 4,
                              .role = i < 0 ? ROLE_INPUT : ROLE_ACTIVATION,
                              .type = DTYPE_F32,
                              .shape = s,
                              .name = i < 0 ? "x" : NULL,
                              .born = i,
                              .last_used = i < 0 || i == steps - 1 ? steps : i + 1,
                              .is_persistent = i < 0};
        plan_operand made = before;
        made.buffer = plan_add_buffer(p, &buffer);
        if (i >= 0) {
            plan_launch *l = plan_add_launch(p, 1, 1);
            l->kernel = k;
            l->kernel_name = k->name;
            l->inputs[0] = before;
            l->outputs[0] = made;
            l->overwrites[0] = 1;
        }
        before = made;
        if (i < 0 || i == steps - 1)
            plan_add_name(p, i < 0 ? "x" : "y", &made);
    }
    plan_finish(p);
    return p;
}

static void a_kernel_that_may_writes_over_its_input(void **state) {
    (void)state;
    enum { STEPS = 5, SIZE = 40 };
    static const kernel twice = {.name = "twice", .target = TARGET_CPU, .run = run_double};
    plan *p = plan_doubling(&twice, STEPS, SIZE);
    memory_plan_apply(p);
    assert_true(SIZE * 4 < MEMORY_PLAN_ALIGNMENT);
    assert_int_equal(p->arena_bytes, MEMORY_PLAN_ALIGNMENT);
    memory_pool *pool;
    executor *e;
    expect_ok(memory_pool_create(device_cpu(), 1 << 20, &pool));
    storage *shared = storage_create(pool);
    expect_ok(executor_create(p, pool, shared, &e));
    float *x = executor_find(e, "x").data;
    for (int i = 0; i < SIZE; i++)
        x[i] = (float)i;
    for (int again = 0; again < 2; again++) {
        expect_ok(executor_run(e, NULL, NULL));
        const float *y = executor_find(e, "y").data;
        for (int i = 0; i < SIZE; i++)
            assert_true(y[i] == (float)(i << STEPS) && x[i] == (float)i);
    }
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

static bool is_failing;

static dyno_status run_or_fail(const kernel_args *args) {
    if (is_failing)
        return dyno_fail(DYNO_DEVICE_FAILED, "the kernel cannot go on");
    return run_double(args);
}

static void a_kernel_that_fails_ends_the_step_with_its_reason(void **state) {
    (void)state;
    static const kernel failing = {.name = "failing", .target = TARGET_CPU, .run = run_or_fail};
    plan *p = plan_doubling(&failing, 2, 8);
    memory_plan_apply(p);
    memory_pool *pool;
    executor *e;
    expect_ok(memory_pool_create(device_cpu(), 1 << 20, &pool));
    storage *shared = storage_create(pool);
    expect_ok(executor_create(p, pool, shared, &e));
    is_failing = true;
    assert_int_equal(executor_run(e, NULL, NULL), DYNO_DEVICE_FAILED);
    assert_string_equal(dyno_error_message(), "'failing' in scope '': the kernel cannot go on");
    is_failing = false;
    expect_ok(executor_run(e, NULL, NULL));
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_steps_give_bitwise_what_eager_ones_do),
        cmocka_unit_test(predicted_memory_is_measured_memory_to_the_byte),
        cmocka_unit_test(plans_of_one_model_share_storage_and_pool),
        cmocka_unit_test(every_buffer_is_recorded_when_it_comes_and_goes),
        cmocka_unit_test(a_second_recorded_step_starts_by_dropping_the_outputs),
        cmocka_unit_test(outputs_are_there_after_a_run_and_only_then),
        cmocka_unit_test(memory_runs_out_when_the_executor_is_made_and_leaves_nothing),
        cmocka_unit_test(a_kernel_that_may_writes_over_its_input),
        cmocka_unit_test(a_kernel_that_fails_ends_the_step_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
