/* test_executor.c - what a plan foretells is what happens: bytes at every launch, numbers, and
 * an orderly end at every place where memory can run out. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/transformer.h"
#include "plan/memory_account.h"
#include "support/expect.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/reference_run.h"
#include "support/small_model.h"

enum { POOL_BYTES = 1 << 26 };

static int64_t rounded(int64_t bytes) {
    return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

static int64_t persistent_bytes(const plan *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++)
        bytes += p->buffers[i].is_persistent ? rounded(p->buffers[i].bytes) : 0;
    return bytes;
}

/* A model of drawn sizes and the plan of one of its passes, in a pool of its own. */
typedef struct bench {
    model_config config;
    int64_t batch, context;
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
} bench;

static bench bench_create(uint64_t seed, step_extent extent, bool is_recording) {
    draw d = draw_create(seed, 1);
    bench b = {.config = small_model_draw(&d)};
    b.batch = 1 + draw_below(&d, 3);
    b.context = 1 + draw_below(&d, 9);
    b.p = small_model_plan(&b.config, b.batch, b.context, extent);
    expect_ok(memory_pool_create(device_cpu(), POOL_BYTES, &b.pool));
    if (is_recording)
        memory_pool_start_recording(b.pool);
    b.shared = storage_create(b.pool);
    expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
    small_model_fill(b.e, b.shared, &b.config, seed);
    return b;
}

static void bench_stop(bench *b) {
    executor_destroy(b->e);
    storage_destroy(b->shared);
}

static void bench_destroy(bench *b) {
    bench_stop(b);
    memory_pool_destroy(b->pool);
    plan_destroy(b->p);
}

/* The peak in whole blocks, found the slow way: launch by launch, over all buffers. */
static int64_t peak_in_blocks(const plan *p, int *alive_then) {
    int64_t peak = 0;
    for (int launch = -1; launch < p->launch_count; launch++) {
        int64_t bytes = 0;
        int alive = 0;
        for (int i = 0; i < p->buffer_count; i++)
            if (memory_account_is_alive(&p->buffers[i], launch)) {
                bytes += rounded(p->buffers[i].bytes);
                alive++;
            }
        if (bytes > peak) {
            peak = bytes;
            *alive_then = alive;
        }
    }
    return peak;
}

static void expect_foretold(const bench *b) {
    memory_account account = memory_account_plan(b->p);
    int alive = 0;
    int64_t peak = peak_in_blocks(b->p, &alive), measured = memory_pool_peak_taken_bytes(b->pool);
    assert_int_equal(measured, peak);
    assert_in_range(measured - account.peak_bytes, 0, (BLOCK_ALIGNMENT - 1) * alive);
    assert_int_equal(memory_pool_reserved_bytes(b->pool), account.reserved_bytes);
}

static void predicted_memory_is_what_every_step_takes(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++)
        for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
            bench b = bench_create(seed, (step_extent)extent, false);
            expect_ok(executor_run(b.e, NULL, NULL));
            expect_foretold(&b);
            memory_pool_trim(b.pool); /* the peaks start anew */
            expect_ok(executor_run(b.e, NULL, NULL));
            memory_pool_trim(b.pool);
            expect_ok(executor_run(b.e, NULL, NULL));
            expect_foretold(&b);
            bench_destroy(&b);
        }
}

/* Plans that follow one another in a pool, weights kept, as in a sweep: each reserves what it
 * would alone. */
static void a_pool_that_keeps_weights_reserves_what_an_empty_one_would(void **state) {
    (void)state;
    static const step_extent passes[] = {STEP_FULL, STEP_FORWARD, STEP_BACKWARD, STEP_FULL};
    bench b = bench_create(60, STEP_FULL, false);
    const char *name = "model.norm.weight";
    const void *weight = storage_find(b.shared, name);
    for (int64_t context = 9; context > 0; context -= 4)
        for (int i = 0; i < 4; i++) {
            executor_destroy(b.e);
            plan_destroy(b.p);
            b.p = small_model_plan(&b.config, b.batch, context, passes[i]);
            storage_keep_parameters(b.shared, b.p);
            memory_pool_trim(b.pool);
            expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
            small_model_fill(b.e, b.shared, &b.config, 60);
            expect_ok(executor_run(b.e, NULL, NULL));
            expect_foretold(&b);
            assert_ptr_equal(storage_find(b.shared, name), weight);
        }
    bench_destroy(&b);
}

/* The buffers in the order in which a step must ask for them. */
static int *expected_order(const plan *p) {
    int *order = memory_allocate((size_t)p->buffer_count, sizeof *order), count = 0;
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            order[count++] = i;
    memcpy(order + count, p->births, (size_t)p->birth_start[p->launch_count] * sizeof *order);
    assert_int_equal(count + p->birth_start[p->launch_count], p->buffer_count);
    return order;
}

static void expect_described(const plan *p, const memory_record *r, const plan_buffer *b) {
    assert_int_equal(r->role, b->role);
    assert_int_equal(r->type, b->type);
    assert_true(shape_equal(&r->shape, &b->shape));
    assert_int_equal(r->bytes, rounded(b->bytes));
    assert_string_equal(r->scope, p->scopes[b->scope]);
    assert_int_equal(r->name != NULL, b->name != NULL);
    if (b->name)
        assert_string_equal(r->name, b->name);
}

/* Replays the records: each release is that of a block taken, no two that are alive overlap. */
static void replay(const bench *b, const memory_record *records, int count) {
    const plan *p = b->p;
    const memory_record **alive = memory_allocate((size_t)p->buffer_count, sizeof *alive);
    int *order = expected_order(p), taken = 0;
    int64_t bytes = 0, peak = 0;
    for (int i = 0; i < count; i++) {
        const memory_record *r = &records[i];
        if (r->is_allocation) {
            const plan_buffer *buffer = &p->buffers[order[taken]];
            expect_described(p, r, buffer);
            assert_int_equal(r->launch, buffer->born);
            for (int j = 0; j < taken; j++)
                assert_true(!alive[j] || alive[j]->offset + alive[j]->bytes <= r->offset ||
                            r->offset + r->bytes <= alive[j]->offset);
            alive[taken++] = r;
            bytes += r->bytes;
            peak = bytes > peak ? bytes : peak;
            continue;
        }
        int owner = 0;
        while (owner < taken && !(alive[owner] && alive[owner]->offset == r->offset))
            owner++;
        assert_true(owner < taken);
        const plan_buffer *buffer = &p->buffers[order[owner]];
        if (!buffer->is_persistent) {
            expect_described(p, r, buffer);
            assert_int_equal(r->launch, buffer->last_used);
        }
        alive[owner] = NULL;
        bytes -= r->bytes;
    }
    assert_int_equal(taken, p->buffer_count);
    assert_int_equal(bytes, 0);
    assert_int_equal(peak, memory_pool_peak_taken_bytes(b->pool));
    free(alive);
    free(order);
}

static void every_byte_taken_is_recorded_with_its_reason_and_its_return(void **state) {
    (void)state;
    for (uint64_t seed = 20; seed < 24; seed++)
        for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
            bench b = bench_create(seed, (step_extent)extent, true);
            expect_ok(executor_run(b.e, NULL, NULL));
            bench_stop(&b);
            int count;
            const memory_record *records = memory_pool_records(b.pool, &count);
            assert_int_equal(count, 2 * b.p->buffer_count);
            replay(&b, records, count);
            memory_pool_destroy(b.pool);
            plan_destroy(b.p);
        }
}

static void records_outlive_plan_and_storage(void **state) {
    (void)state;
    bench b = bench_create(30, STEP_FULL, true);
    expect_ok(executor_run(b.e, NULL, NULL));
    bench_stop(&b);
    plan_destroy(b.p);
    int count, tokens = 0;
    const memory_record *records = memory_pool_records(b.pool, &count);
    for (int i = 0; i < count; i++) {
        assert_non_null(records[i].scope);
        tokens += records[i].name && strcmp(records[i].name, "tokens") == 0;
    }
    assert_int_equal(tokens, 2);
    memory_pool_start_recording(b.pool);
    memory_pool_records(b.pool, &count);
    assert_int_equal(count, 0);
    memory_pool_destroy(b.pool);
}

/* The graph of the same step, run in double on the same leaves, before the step changes them. */
static void steps_compute_what_the_references_say(void **state) {
    (void)state;
    for (uint64_t seed = 40; seed < 46; seed++) {
        bench b = bench_create(seed, STEP_FULL, false);
        step_options options = small_model_step(&b.config, b.batch, b.context, STEP_FULL);
        transformer_options sizes = {b.batch, b.context, true};
        graph *g;
        plan *unused;
        expect_ok(transformer_build(&b.config, &sizes, &g));
        expect_ok(pipeline_compile(g, &options.pipeline, &unused));
        plan_destroy(unused);
        double **leaves = memory_allocate((size_t)g->value_count, sizeof *leaves);
        for (int i = 0; i < g->value_count; i++) {
            if (g->values[i]->producer)
                continue;
            tensor leaf = executor_find(b.e, g->values[i]->name);
            leaves[i] = tensor_to_doubles(&leaf);
        }
        reference_run *wanted = reference_run_create(g, (const double *const *)leaves);
        expect_ok(executor_run(b.e, NULL, NULL));
        int compared = 0;
        for (int i = 0; i < g->value_count; i++) {
            const value *v = g->values[i];
            bool is_updated = v->producer && v->role == ROLE_PARAMETER;
            if (!v->is_output && !is_updated)
                continue;
            const value *named = is_updated ? v->producer->inputs[0] : v;
            tensor found = executor_find(b.e, named->name);
            assert_non_null(found.data);
            double *got = tensor_to_doubles(&found);
            double error =
                relative_error(got, reference_run_value(wanted, v), shape_elements(&v->shape));
            /* An update is a gradient divided by its own size: near zero rounding shows. */
            if (!(error <= 1e-3))
                fail_msg("seed %d: '%s' is off by %g", (int)seed, named->name, error);
            free(got);
            compared++;
        }
        assert_true(compared >= 2 + 2 * 12);
        reference_run_destroy(wanted);
        for (int i = 0; i < g->value_count; i++)
            free(leaves[i]);
        free(leaves);
        graph_destroy(g);
        bench_destroy(&b);
    }
}

static void outputs_are_there_after_a_run_and_only_then(void **state) {
    (void)state;
    bench b = bench_create(50, STEP_BACKWARD, false);
    assert_null(executor_find(b.e, "loss").data);
    assert_non_null(executor_find(b.e, "tokens").data);
    assert_null(executor_find(b.e, "no such thing").data);
    expect_ok(executor_run(b.e, NULL, NULL));
    int outputs = 0;
    float first = *(const float *)executor_find(b.e, "loss").data;
    for (int i = 0; i < b.p->name_count; i++) {
        tensor t = executor_find(b.e, b.p->names[i].name);
        assert_non_null(t.data);
        double *numbers = tensor_to_doubles(&t); /* every byte can be read */
        free(numbers);
        outputs += !b.p->buffers[b.p->names[i].operand.buffer].is_persistent;
    }
    assert_true(outputs >= 2 + 12); /* loss, logits and the gradients of a layer */
    expect_ok(executor_run(b.e, NULL, NULL));
    assert_true(first == *(const float *)executor_find(b.e, "loss").data);
    bench_destroy(&b);
}

static void the_time_of_a_step_is_the_sum_of_its_phases(void **state) {
    (void)state;
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        bench b = bench_create(51, (step_extent)extent, false);
        step_times times;
        launch_log t = {0};
        expect_ok(executor_run(b.e, &t, &times));
        assert_int_equal(t.count, b.p->launch_count);
        int64_t sum = 0;
        for (int i = 0; i < PHASE_COUNT; i++) {
            assert_int_equal(times.phase_ns[i] > 0, i <= extent);
            sum += times.phase_ns[i];
        }
        assert_int_equal(sum, times.total_ns);
        int64_t mark = t.steps[0].begin_ns;
        for (int i = 0; i < b.p->launch_count; i++) {
            assert_true(mark <= t.records[i].begin_ns);
            assert_true(t.records[i].begin_ns <= t.records[i].end_ns);
            mark = t.records[i].end_ns;
        }
        assert_true(mark <= t.steps[0].end_ns);
        assert_true(t.steps[0].end_ns - t.steps[0].begin_ns <= times.total_ns);
        launch_log_release(&t);
        bench_destroy(&b);
    }
}

static const model_config tiny = {.name = "tiny",
                                  .d_model = 4,
                                  .d_ff = 6,
                                  .layers = 1,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .head_dim = 2,
                                  .vocab = 5,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static void expect_out_of_memory(dyno_status status) {
    assert_int_equal(status, DYNO_OUT_OF_MEMORY);
    assert_non_null(strstr(dyno_error_message(), "in scope '"));
    assert_non_null(strstr(dyno_error_message(), "the limit is"));
}

/* What is left after a failure must serve a smaller step as if nothing had been. */
static void expect_usable(memory_pool *pool, storage *shared, const plan *smaller) {
    storage_keep_parameters(shared, smaller);
    memory_pool_trim(pool);
    executor *e;
    bool fits = memory_account_plan(smaller).reserved_bytes <= memory_pool_limit_bytes(pool);
    dyno_status status = executor_create(smaller, pool, shared, &e);
    if (status == DYNO_OK) {
        small_model_fill(e, shared, &tiny, 1);
        status = executor_run(e, NULL, NULL);
    }
    assert_int_equal(status, fits ? DYNO_OK : DYNO_OUT_OF_MEMORY);
    executor_destroy(e);
}

/* Every limit from nothing to one block too few: wherever memory runs out, in whichever launch,
 * nothing transient stays behind. */
static void running_out_of_memory_anywhere_leaks_nothing(void **state) {
    (void)state;
    plan *p = small_model_plan(&tiny, 2, 3, STEP_FULL);
    plan *smaller = small_model_plan(&tiny, 2, 3, STEP_FORWARD);
    int64_t needed = memory_account_plan(p).reserved_bytes, persistent = persistent_bytes(p);
    int failed_launches = 0;
    for (int64_t limit = BLOCK_ALIGNMENT; limit <= needed; limit += BLOCK_ALIGNMENT) {
        memory_pool *pool;
        executor *e;
        /* Just below as well as on the boundary of a block. */
        int64_t less = limit < needed && limit % (2 * BLOCK_ALIGNMENT) == 0;
        expect_ok(memory_pool_create(device_cpu(), limit - less, &pool));
        storage *shared = storage_create(pool);
        dyno_status status = executor_create(p, pool, shared, &e);
        if (status == DYNO_OK) {
            small_model_fill(e, shared, &tiny, 1);
            for (int again = 0; again < 2; again++) {
                status = executor_run(e, NULL, NULL);
                if (limit == needed)
                    break;
                expect_out_of_memory(status);
                assert_int_equal(memory_pool_taken_bytes(pool), persistent);
                assert_null(executor_find(e, "loss").data);
                failed_launches++;
            }
        } else {
            expect_out_of_memory(status);
            assert_null(e);
            assert_int_equal(memory_pool_taken_bytes(pool), 0);
        }
        assert_int_equal(status == DYNO_OK, limit == needed);
        executor_destroy(e);
        expect_usable(pool, shared, smaller);
        storage_destroy(shared);
        assert_int_equal(memory_pool_taken_bytes(pool), 0);
        memory_pool_destroy(pool);
    }
    assert_true(failed_launches > 20);
    plan_destroy(p);
    plan_destroy(smaller);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_memory_is_what_every_step_takes),
        cmocka_unit_test(a_pool_that_keeps_weights_reserves_what_an_empty_one_would),
        cmocka_unit_test(every_byte_taken_is_recorded_with_its_reason_and_its_return),
        cmocka_unit_test(records_outlive_plan_and_storage),
        cmocka_unit_test(steps_compute_what_the_references_say),
        cmocka_unit_test(outputs_are_there_after_a_run_and_only_then),
        cmocka_unit_test(the_time_of_a_step_is_the_sum_of_its_phases),
        cmocka_unit_test(running_out_of_memory_anywhere_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
