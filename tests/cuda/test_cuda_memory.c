/* test_cuda_memory.c - memory of a GPU: what was foretold is what is taken, running out of it is a
 * status and leaves nothing behind, and sizes past 2^31 elements work. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "compiler/pipeline.h"
#include "experiments/experiment.h"
#include "measure/keys.h"
#include "ops/cast/cast.h"
#include "ops/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "ops/reduction.h"
#include "ops/reshape/reshape.h"
#include "ops/transpose/transpose.h"
#include "plan/memory_account.h"
#include "runtime/cuda/module.h"
#include "support/device_bench.h"
#include "support/expect.h"
#include "support/skip.h"
#include "support/step_bench.h"

#define GIB ((int64_t)1 << 30)
#define MIB ((int64_t)1 << 20)

static step_options draw_options(uint64_t seed, step_mode mode, precision p) {
    draw d = draw_create(seed, 1);
    model_config config = small_model_draw(&d);
    int64_t batch = 1 + draw_below(&d, 3), context = 1 + draw_below(&d, 40);
    step_options options = small_model_step(&config, batch, context, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = p;
    return options;
}

static void static_plans_take_what_was_foretold_to_the_byte(void **state) {
    device *d = device_bench_open(state);
    for (uint64_t seed = 10; seed < 13; seed++) {
        step_options options =
            draw_options(seed, STEP_COMPILED, seed % 2 ? PRECISION_BF16 : PRECISION_FP32);
        step_bench b = step_bench_create_on(d, &options, seed);
        memory_account account = memory_account_plan(b.p);
        for (int step = 0; step < 3; step++) {
            assert_int_equal(memory_pool_taken_bytes(b.pool), account.peak_bytes);
            assert_int_equal(memory_pool_peak_taken_bytes(b.pool), account.peak_bytes);
            assert_int_equal(memory_pool_reserved_bytes(b.pool), account.reserved_bytes);
            assert_true(memory_pool_committed_bytes(b.pool) >= account.reserved_bytes);
            step_bench_run(&b);
        }
        step_bench_stop(&b);
        assert_int_equal(memory_pool_taken_bytes(b.pool), 0);
        step_bench_destroy(&b);
    }
}

static void eager_plans_take_what_was_foretold_within_rounding(void **state) {
    device *d = device_bench_open(state);
    step_options options = draw_options(20, STEP_EAGER, PRECISION_FP32);
    step_bench b = step_bench_create_on(d, &options, 20);
    memory_account account = memory_account_plan(b.p);
    for (int step = 0; step < 3; step++)
        step_bench_run(&b);
    int64_t over = memory_pool_peak_taken_bytes(b.pool) - account.peak_bytes;
    assert_true(over >= 0 && over < BLOCK_ALIGNMENT * b.p->buffer_count);
    assert_int_equal(memory_pool_reserved_bytes(b.pool), account.reserved_bytes);
    step_bench_destroy(&b);
}

/* A pool that is too small, by a little: the executor is not made, or the step fails. */
static void a_limit_that_is_too_low_is_a_status(void **state) {
    device *d = device_bench_open(state);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        step_options options = draw_options(30, (step_mode)mode, PRECISION_FP32);
        options.pipeline.target = &d->target;
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        int64_t needed = memory_account_plan(p).reserved_bytes;
        for (int more = 0; more < 2; more++) {
            memory_pool *pool;
            executor *e;
            expect_ok(memory_pool_create(d, needed - 256 + 256 * more, &pool));
            storage *shared = storage_create(pool);
            dyno_status status = executor_create(p, pool, shared, &e);
            if (status == DYNO_OK) {
                small_model_fill(e, shared, &options.config, 1);
                status = executor_run(e, NULL, NULL);
            }
            assert_int_equal(status, more ? DYNO_OK : DYNO_OUT_OF_MEMORY);
            executor_destroy(e);
            storage_destroy(shared);
            assert_int_equal(memory_pool_taken_bytes(pool), 0);
            memory_pool_destroy(pool);
        }
        plan_destroy(p);
    }
}

/* A step that no GPU holds, in a pool whose limit says otherwise: the device itself refuses. */
static void a_device_without_enough_memory_refuses_and_goes_on(void **state) {
    device *d = device_bench_open(state);
    if (!device_bench_is_real(d))
        SKIP_BECAUSE("the host promises memory that it does not have");
    int64_t free_before = d->functions->available_bytes(d);
    /* Where time is short, the very first value of an eager step is already too large. */
    step_options huge = {.batch = device_bench_rounds(512, 8192),
                         .context = 2048,
                         .pipeline = {.extent = STEP_FULL,
                                      .mode = STEP_COMPILED,
                                      .precision = PRECISION_BF16,
                                      .target = &d->target,
                                      .optimizer = step_default_optimizer()}};
    expect_ok(model_config_from_preset("2.7B", &huge.config));
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        huge.pipeline.mode = (step_mode)mode;
        plan *p;
        memory_pool *pool;
        executor *e = NULL;
        expect_ok(step_plan_create(&huge, &p));
        assert_true(memory_account_plan(p).reserved_bytes > free_before);
        expect_ok(memory_pool_create(d, 64 * 1024 * GIB, &pool));
        storage *shared = storage_create(pool);
        dyno_status status = executor_create(p, pool, shared, &e);
        if (status == DYNO_OK)
            status = executor_run(e, NULL, NULL);
        assert_int_equal(status, DYNO_OUT_OF_MEMORY);
        print_message("%s\n", dyno_error_message());
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        plan_destroy(p);
        device_bench_finish(d); /* no error is left over */
    }
    step_options small = draw_options(31, STEP_COMPILED, PRECISION_FP32);
    step_bench b = step_bench_create_on(d, &small, 31);
    step_bench_run(&b);
    step_bench_destroy(&b);
    int64_t lost = free_before - d->functions->available_bytes(d);
    if (lost > 64 * MIB) /* what libraries keep from their first use on */
        fail_msg("%lld bytes were not given back", (long long)lost);
}

static void steps_made_and_unmade_leave_nothing_behind(void **state) {
    device *d = device_bench_open(state);
    if (!device_bench_is_real(d))
        SKIP_BECAUSE("what the host has free is others' business, too");
    int64_t before = 0;
    for (int round = 0; round < device_bench_rounds(12, 6); round++) {
        step_options options = draw_options(40, round % 2 ? STEP_COMPILED : STEP_EAGER,
                                            round % 4 < 2 ? PRECISION_FP32 : PRECISION_BF16);
        step_bench b = step_bench_create_on(d, &options, 40);
        step_bench_run(&b);
        step_bench_run(&b);
        step_bench_destroy(&b);
        if (round == 3)
            before = d->functions->available_bytes(d);
    }
    int64_t lost = before - d->functions->available_bytes(d);
    if (lost > 4 * MIB)
        fail_msg("the rounds after four lost %lld bytes", (long long)lost);
}

/* ---- large sizes ---- */

enum { WINDOW = 1024 };

typedef struct large_run {
    device *d;
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
} large_run;

static large_run large_create(device *d, graph *g, step_mode mode) {
    large_run r = {.d = d};
    pipeline_options options = {.extent = STEP_FORWARD, .mode = mode, .target = &d->target};
    expect_ok(pipeline_compile(g, &options, &r.p));
    graph_destroy(g);
    expect_ok(memory_pool_create(d, 64 * GIB, &r.pool));
    r.shared = storage_create(r.pool);
    expect_ok(executor_create(r.p, r.pool, r.shared, &r.e));
    return r;
}

static void large_destroy(large_run *r) {
    executor_destroy(r->e);
    storage_destroy(r->shared);
    memory_pool_destroy(r->pool);
    plan_destroy(r->p);
}

/* Bytes that the module says it has for timing products. */
static int64_t scratch_of_tuning(device *d) {
    const cuda_module *module;
    char *lines;
    expect_ok(cuda_module_load(&module));
    expect_ok(module->explain_memory(d, &lines));
    const char *line = strstr(lines, "scratch of tuning: ");
    assert_non_null(line);
    int64_t bytes = strtoll(strchr(line, ':') + 1, NULL, 10);
    free(lines);
    return bytes;
}

/* In an eager step products are tuned while tensors still come: what they were timed on is theirs.
 */
static void what_tuning_took_gives_way_to_tensors(void **state) {
    device *d = device_bench_open(state);
    if (!device_bench_is_real(d) || device_bench_rounds(false, true))
        SKIP_BECAUSE("it wants a GPU, and a tool that looks on needs memory, too");
    const shape square = SHAPE(8192, 8192);
    graph *g = graph_create("tuned");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_BF16, &square, "x");
    graph_add_output(g, build_matmul(g, x, x, false, true), "y");
    large_run r = large_create(d, g, STEP_EAGER);
    expect_ok(executor_start(r.e, NULL));
    int64_t scratch = scratch_of_tuning(d), got = 0;
    print_message("scratch of tuning: %lld MiB\n", (long long)(scratch / MIB));
    if (scratch >= 256 * MIB) { /* else it was chosen in an earlier run */
        /* Halfway between what is free and what is free without it. */
        int64_t want = d->functions->available_bytes(d) + 384 * MIB + scratch / 2;
        void *base;
        expect_ok(d->functions->reserve(d, want, &base));
        expect_ok(d->functions->commit(d, base, 0, want, &got));
        assert_true(got >= want);
        assert_int_equal(scratch_of_tuning(d), 0);
        d->functions->release(d, base, want, got);
    }
    expect_ok(executor_finish(r.e, NULL));
    large_destroy(&r);
}

static float small_number(int64_t i) { return (float)(i % 251) - 125; }

/* Element i of a bf16 leaf is small_number(i), at and around the given places; else 0. */
static void large_fill(large_run *r, const char *name, const int64_t *places, int count) {
    tensor t = executor_find(r->e, name);
    for (int i = 0; i < count; i++) {
        uint16_t window[WINDOW];
        for (int j = 0; j < WINDOW; j++)
            window[j] = dtype_f32_to_bf16(small_number(places[i] + j));
        r->d->functions->write(r->d, (uint16_t *)t.data + places[i], window, sizeof window);
    }
}

static void skip_unless_room(device *d) {
    if (!device_bench_is_real(d) || d->functions->available_bytes(d) < 30 * GIB ||
        device_bench_rounds(false, true))
        SKIP_BECAUSE("it wants a GPU with 30 GiB free");
}

/* x in bf16, cast to f32, scaled, cast back: one kernel or three. */
static void elementwise_kernels_and_casts_pass_two_to_the_31_elements(void **state) {
    device *d = device_bench_open(state);
    skip_unless_room(d);
    const int64_t size = ((int64_t)1 << 31) + 3 * WINDOW + 5;
    const int64_t places[] = {0, ((int64_t)1 << 30) - 500, ((int64_t)1 << 31) - 512, size - WINDOW};
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        graph *g = graph_create("large");
        const shape s = SHAPE(size);
        value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_BF16, &s, "x");
        value *wide = build_cast(g, x, DTYPE_F32);
        value *scaled = elementwise_build_scalar(g, &op_scale, wide, 2);
        graph_add_output(g, build_cast(g, scaled, DTYPE_BF16), "y");
        large_run r = large_create(d, g, (step_mode)mode);
        large_fill(&r, "x", places, 4);
        expect_ok(executor_run(r.e, NULL, NULL));
        const uint16_t *y = executor_find(r.e, "y").data;
        for (int i = 0; i < 4; i++) {
            uint16_t window[WINDOW];
            d->functions->read(d, window, y + places[i], sizeof window);
            for (int j = 0; j < WINDOW; j++)
                if (dtype_bf16_to_f32(window[j]) != 2 * small_number(places[i] + j))
                    fail_msg("%s: element %lld is %g", step_mode_name((step_mode)mode),
                             (long long)(places[i] + j), (double)dtype_bf16_to_f32(window[j]));
        }
        large_destroy(&r);
    }
}

/* [3, n] read the other way round: a copy with strides. */
static void copies_pass_two_to_the_31_elements(void **state) {
    device *d = device_bench_open(state);
    skip_unless_room(d);
    const int64_t n = 800000003, last = 3 * n - WINDOW;
    const int64_t places[] = {0, n - 512, 2 * n - 512, last};
    const shape stored = SHAPE(3, n), order = SHAPE(1, 0), flat = SHAPE(3 * n);
    graph *g = graph_create("large copy");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_BF16, &stored, "x");
    value *turned = build_transpose(g, x, &order);
    graph_add_output(g, build_reshape(g, turned, &flat), "y");
    large_run r = large_create(d, g, STEP_EAGER);
    large_fill(&r, "x", places, 4);
    expect_ok(executor_run(r.e, NULL, NULL));
    tensor y = executor_find(r.e, "y");
    assert_int_equal(y.stride[0], 1);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < WINDOW; j += 73) {
            int64_t from = places[i] + j, to = from % n * 3 + from / n;
            uint16_t got;
            d->functions->read(d, &got, (uint16_t *)y.data + to, sizeof got);
            if (dtype_bf16_to_f32(got) != small_number(from))
                fail_msg("element %lld came to %lld as %g", (long long)from, (long long)to,
                         (double)dtype_bf16_to_f32(got));
        }
    large_destroy(&r);
}

/* Sums of the rows of [n, 1024]. */
static void row_sums_pass_two_to_the_31_elements(void **state) {
    device *d = device_bench_open(state);
    skip_unless_room(d);
    const int64_t rows = ((int64_t)1 << 21) + 77, axis = 1;
    const int64_t places[] = {0, (rows / 2) * WINDOW, (rows - 77) * WINDOW, (rows - 1) * WINDOW};
    const shape s = SHAPE(rows, WINDOW), axes = SHAPE(axis);
    graph *g = graph_create("large sums");
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_BF16, &s, "x");
    graph_add_output(g, reduction_build(g, &op_sum, build_cast(g, x, DTYPE_F32), &axes), "y");
    large_run r = large_create(d, g, STEP_COMPILED);
    large_fill(&r, "x", places, 4);
    expect_ok(executor_run(r.e, NULL, NULL));
    const float *y = executor_find(r.e, "y").data;
    for (int i = 0; i < 4; i++) {
        float want = 0, got;
        for (int j = 0; j < WINDOW; j++)
            want += small_number(places[i] + j);
        d->functions->read(d, &got, y + places[i] / WINDOW, sizeof got);
        if (got != want) /* small integers: exact in any order */
            fail_msg("the sum of row %lld is %g, not %g", (long long)(places[i] / WINDOW),
                     (double)got, (double)want);
    }
    large_destroy(&r);
}

/* `dyno memory --measure`: what was in use while each launch ran. */
static void a_recorded_step_is_the_predicted_one_at_every_launch(void **state) {
    static const char *const settings[] = {
        "d-model=64",          "d-ff=128",           "layers=3",    "heads=2",
        "vocab=100",           "context=32",         "device=cuda", "mode=eager,compiled",
        "precision=fp32,bf16", "part=grid,timeline", "measure"};
    device_bench_open(state); /* or skips */
    const experiment *e = experiment_find("memory");
    experiment_context nobody = {0};
    experiment_output out;
    flags *given;
    expect_ok(flags_parse_settings(e->settings, (int)(sizeof settings / sizeof *settings), settings,
                                   &given));
    expect_ok(experiment_run(e, given, &nobody, &out));
    for (int64_t i = 0; i < out.run->cell_count; i++) {
        const results_cell *cell = out.run->cells[i];
        assert_int_equal(cell->status, RESULTS_OK);
        assert_int_equal(cell_find_metric(cell, METRIC_RESERVED_BYTES)->value.integer,
                         cell_find_metric(cell, METRIC_PREDICTED_RESERVED_BYTES)->value.integer);
        const results_breakdown *t = cell_find_breakdown(cell, BREAKDOWN_TIMELINE);
        int blocks = -1, measured = -1;
        for (int j = 0; j < t->column_count; j++) {
            blocks = strcmp(t->columns[j].name, COLUMN_BLOCKS) == 0 ? j : blocks;
            measured = strcmp(t->columns[j].name, COLUMN_MEASURED) == 0 ? j : measured;
        }
        for (int64_t row = 0; row < t->row_count; row++)
            assert_int_equal(t->rows[row].values[measured].integer,
                             t->rows[row].values[blocks].integer);
    }
    experiment_output_release(&out);
    flags_destroy(given);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_plans_take_what_was_foretold_to_the_byte),
        cmocka_unit_test(eager_plans_take_what_was_foretold_within_rounding),
        cmocka_unit_test(a_recorded_step_is_the_predicted_one_at_every_launch),
        cmocka_unit_test(a_limit_that_is_too_low_is_a_status),
        cmocka_unit_test(a_device_without_enough_memory_refuses_and_goes_on),
        cmocka_unit_test(steps_made_and_unmade_leave_nothing_behind),
        cmocka_unit_test(what_tuning_took_gives_way_to_tensors),
        cmocka_unit_test(elementwise_kernels_and_casts_pass_two_to_the_31_elements),
        cmocka_unit_test(copies_pass_two_to_the_31_elements),
        cmocka_unit_test(row_sums_pass_two_to_the_31_elements),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
