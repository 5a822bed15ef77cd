/* test_timing.c - which samples a timed run leaves, and that every nanosecond of a traced one has
 * a row. How long anything takes is nobody's business here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/breakdown.h"
#include "measure/timing.h"
#include "support/small_model.h"

enum { POOL_BYTES = 1 << 24 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 8,
                                  .d_ff = 12,
                                  .layers = 3,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .head_dim = 4,
                                  .vocab = 9,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

typedef struct bench {
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
    results *run;
    results_cell *cell;
} bench;

static bench bench_of(plan *p) {
    bench b = {.p = p};
    assert_int_equal(memory_pool_create(device_cpu(), POOL_BYTES, &b.pool), DYNO_OK);
    b.shared = storage_create(b.pool);
    assert_int_equal(executor_create(b.p, b.pool, b.shared, &b.e), DYNO_OK);
    small_model_fill(b.e, b.shared, &tiny, 1);
    b.run = results_create("bench", 0, NULL);
    b.cell = results_add_cell(b.run);
    return b;
}

static bench bench_create(step_extent extent) {
    return bench_of(small_model_plan(&tiny, 2, 3, extent));
}

/* Compiled, with a loss head that computes gradients in the forward. */
static bench bench_with_loss_head(step_extent extent) {
    step_options options = small_model_step(&tiny, 2, 3, extent);
    options.keep_logits = false;
    options.pipeline.mode = STEP_COMPILED;
    plan *p;
    assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
    assert_int_equal(plan_total_cost(p, PHASE_COUNT).split_launches, 1);
    return bench_of(p);
}

static void bench_destroy(bench *b) {
    results_destroy(b->run);
    executor_destroy(b->e);
    storage_destroy(b->shared);
    memory_pool_destroy(b->pool);
    plan_destroy(b->p);
}

static int64_t samples(const bench *b, const char *name) {
    const results_series *series = cell_find_series(b->cell, name);
    if (!series)
        return -1;
    assert_string_equal(series->unit, "ns");
    for (int64_t i = 0; i < series->count; i++)
        assert_true(results_series_at(series, i) > 0);
    return series->count;
}

static void warm_up_is_a_series_of_its_own(void **state) {
    (void)state;
    bench b = bench_create(STEP_FORWARD);
    assert_int_equal(timing_run(b.e, b.p, &(timing_options){.warmup = 3, .steps = 5}, b.cell),
                     DYNO_OK);
    assert_int_equal(samples(&b, "warmup"), 3);
    assert_int_equal(samples(&b, "step"), 5);
    bench_destroy(&b);
    b = bench_create(STEP_FORWARD);
    assert_int_equal(timing_run(b.e, b.p, &(timing_options){.steps = 2}, b.cell), DYNO_OK);
    assert_int_equal(samples(&b, "warmup"), -1);
    assert_int_equal(samples(&b, "step"), 2);
    bench_destroy(&b);
}

/* A pass that is one phase alone needs no series that says the same again. */
static void phases_have_series_where_there_are_several_and_sum_to_the_step(void **state) {
    (void)state;
    static const char *const phases[] = {"forward", "backward", "optimizer"};
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        bench b = bench_create((step_extent)extent);
        assert_int_equal(timing_run(b.e, b.p, &(timing_options){.warmup = 1, .steps = 4}, b.cell),
                         DYNO_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(samples(&b, phases[i]), extent > 0 && i <= extent ? 4 : -1);
        assert_int_equal(samples(&b, "communication"), -1);
        for (int64_t k = 0; extent > 0 && k < 4; k++) {
            double sum = 0;
            for (int i = 0; i <= extent; i++)
                sum += results_series_at(cell_find_series(b.cell, phases[i]), k);
            assert_true(sum == results_series_at(cell_find_series(b.cell, "step"), k));
        }
        bench_destroy(&b);
    }
}

/* What the host does before and after is in the step only when it is asked for. */
static void by_events_nothing_but_launches_is_timed(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL);
    step_times times;
    assert_int_equal(executor_run(b.e, NULL, &times), DYNO_OK);
    assert_true(times.outside_ns >= 0 && times.outside_ns < times.total_ns);
    assert_true(times.phase_ns[PHASE_OPTIMIZER] >= times.outside_ns);
    timing_options options = {.steps = 4, .by_events = true};
    assert_int_equal(timing_run(b.e, b.p, &options, b.cell), DYNO_OK);
    static const char *const phases[] = {"forward", "backward", "optimizer"};
    for (int64_t k = 0; k < 4; k++) {
        double sum = 0;
        for (int i = 0; i < 3; i++)
            sum += results_series_at(cell_find_series(b.cell, phases[i]), k);
        assert_true(sum == results_series_at(cell_find_series(b.cell, "step"), k));
    }
    bench_destroy(&b);
}

static void count_calls(void *context, int64_t steps_done) {
    int64_t *last = context;
    assert_int_equal(steps_done, *last + 1);
    *last = steps_done;
}

static void a_run_for_a_time_has_as_many_steps_as_fit_between_its_limits(void **state) {
    (void)state;
    static const struct {
        timing_span span;
        int64_t least, most;
    } cases[] = {{{0, 3, 50}, 3, 3}, {{1e-4, 3, 50}, 3, 50}, {{1e3, 2, 5}, 5, 5}};
    for (int i = 0; i < 3; i++) {
        bench b = bench_create(STEP_FORWARD);
        int64_t calls = 0;
        timing_options options = {.warmup = 2, .on_step = count_calls, .context = &calls};
        assert_int_equal(timing_run_for(b.e, b.p, &options, &cases[i].span, b.cell), DYNO_OK);
        int64_t count = samples(&b, "step");
        assert_in_range(count, cases[i].least, cases[i].most);
        assert_int_equal(samples(&b, "warmup"), 2);
        assert_int_equal(calls, count + 2);
        assert_int_equal(cell_find_parameter(b.cell, "reps")->integer, count);
        bench_destroy(&b);
    }
}

static double column_sum(const results_breakdown *table, int column) {
    double sum = 0;
    for (int64_t i = 0; i < table->row_count; i++)
        sum += results_number(&table->rows[i].values[column]);
    return sum;
}

static void every_breakdown_sums_to_the_traced_step(void **state) {
    (void)state;
    static const char *const names[] = {"by_class", "by_kernel", "by_phase", "by_scope"};
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++)
        for (int64_t steps = 1; steps <= 3; steps += 2) {
            bench b = steps == 1 && extent > STEP_FORWARD
                          ? bench_with_loss_head((step_extent)extent)
                          : bench_create((step_extent)extent);
            assert_int_equal(breakdown_run(b.e, b.p, &(timing_options){.steps = steps}, b.cell),
                             DYNO_OK);
            const results_metric *traced = cell_find_metric(b.cell, "traced_step_ns");
            plan_cost cost = plan_total_cost(b.p, PHASE_COUNT);
            for (int i = 0; i < 4; i++) {
                const results_breakdown *table = cell_find_breakdown(b.cell, names[i]);
                assert_non_null(table);
                assert_string_equal(table->columns[0].unit, "ns");
                assert_true(fabs(column_sum(table, 0) - results_number(&traced->value)) <=
                            (double)table->row_count);
                assert_true(column_sum(table, 1) == cost.launches); /* counts are per step */
                assert_true(fabs(column_sum(table, 2) - cost.flops) <= 1e-9 * cost.flops);
                double bytes = cost.bytes_read + cost.bytes_written;
                assert_true(fabs(column_sum(table, 3) - bytes) <= 1e-9 * bytes);
            }
            bench_destroy(&b);
        }
}

static const results_row *find_row(const results_breakdown *table, const char *key) {
    for (int64_t i = 0; i < table->row_count; i++)
        if (strcmp(table->rows[i].keys[0], key) == 0)
            return &table->rows[i];
    return NULL;
}

static void breakdowns_name_phases_and_fold_layers(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL);
    assert_int_equal(breakdown_run(b.e, b.p, &(timing_options){.steps = 2}, b.cell), DYNO_OK);
    const results_breakdown *phases = cell_find_breakdown(b.cell, "by_phase");
    for (int i = 0; i < PHASE_COMMUNICATION; i++)
        assert_int_equal(
            (int64_t)results_number(&find_row(phases, phase_name((phase)i))->values[1]),
            plan_total_cost(b.p, (phase)i).launches);
    assert_int_equal(phases->row_count, 3 + 1); /* and what lies between launches */
    const results_breakdown *scopes = cell_find_breakdown(b.cell, "by_scope");
    assert_non_null(find_row(scopes, "layers.*.attn.softmax"));
    assert_null(find_row(scopes, "layers.0.attn.softmax"));
    const results_breakdown *classes = cell_find_breakdown(b.cell, "by_class");
    assert_non_null(find_row(classes, "matmul"));
    assert_non_null(find_row(classes, "(between launches)"));
    bench_destroy(&b);
}

/* The loss head's launch: its FLOPs and time are the backward's to two thirds and more. */
static void a_launch_of_two_phases_is_divided_between_them(void **state) {
    (void)state;
    bench b = bench_with_loss_head(STEP_FULL);
    assert_int_equal(breakdown_run(b.e, b.p, &(timing_options){.steps = 3}, b.cell), DYNO_OK);
    const results_breakdown *phases = cell_find_breakdown(b.cell, "by_phase");
    double forward = 0;
    for (int i = 0; i < b.p->launch_count; i++)
        if (b.p->launches[i].phase == PHASE_FORWARD)
            forward += b.p->launches[i].flops;
    for (int i = 0; i < PHASE_COMMUNICATION; i++) {
        const results_row *row = find_row(phases, phase_name((phase)i));
        plan_cost cost = plan_total_cost(b.p, (phase)i);
        assert_true(fabs(results_number(&row->values[2]) - cost.flops) <= 1e-9 * cost.flops);
        assert_int_equal((int64_t)results_number(&row->values[1]), cost.launches);
    }
    assert_true(plan_total_cost(b.p, PHASE_FORWARD).flops < forward);
    bench_destroy(&b);
}

static void the_time_of_a_launch_of_two_phases_is_divided_by_flops(void **state) {
    (void)state;
    bench b = bench_create(STEP_FORWARD);
    executor_destroy(b.e);
    for (int i = 0; i < b.p->launch_count; i++) {
        b.p->launches[i].flops = 4;
        b.p->launches[i].backward_flops = 3;
    }
    assert_int_equal(executor_create(b.p, b.pool, b.shared, &b.e), DYNO_OK);
    step_times times;
    assert_int_equal(executor_run(b.e, NULL, &times), DYNO_OK);
    double launches = (double)(times.total_ns - times.outside_ns);
    assert_true(fabs((double)times.phase_ns[PHASE_BACKWARD] - 0.75 * launches) <=
                b.p->launch_count);
    assert_int_equal(times.phase_ns[PHASE_FORWARD] + times.phase_ns[PHASE_BACKWARD],
                     times.total_ns);
    bench_destroy(&b);
}

static int64_t stop_after, steps_seen;

static bool stop_now(void *context) {
    (void)context;
    return steps_seen >= stop_after;
}

static void count_step(void *context, int64_t steps_done) {
    assert_int_equal(steps_done, ++steps_seen);
    *(int64_t *)context = steps_done;
}

static void an_interruption_keeps_the_samples_so_far(void **state) {
    (void)state;
    for (stop_after = 0; stop_after < 6; stop_after++) {
        bench b = bench_create(STEP_BACKWARD);
        int64_t last = 0;
        steps_seen = 0;
        timing_options options = {.warmup = 2,
                                  .steps = 4,
                                  .should_stop = stop_now,
                                  .on_step = count_step,
                                  .context = &last};
        assert_int_equal(timing_run(b.e, b.p, &options, b.cell), DYNO_INTERRUPTED);
        char wanted[64];
        snprintf(wanted, sizeof wanted, "interrupted after %d of 6 steps", (int)stop_after);
        assert_string_equal(dyno_error_message(), wanted);
        assert_int_equal(last, stop_after);
        assert_int_equal(samples(&b, "warmup"), stop_after == 0  ? -1
                                                : stop_after > 2 ? 2
                                                                 : stop_after);
        assert_int_equal(samples(&b, "step"), stop_after > 2 ? stop_after - 2 : -1);
        assert_int_equal(samples(&b, "backward"), stop_after > 2 ? stop_after - 2 : -1);
        bench_destroy(&b);
    }
}

static bool stop_at_three(void *context) { return *(const int64_t *)context >= 3; }

static void a_run_for_a_time_ends_when_asked_to(void **state) {
    (void)state;
    bench b = bench_create(STEP_FORWARD);
    int64_t last = 0;
    steps_seen = 0;
    timing_options options = {
        .warmup = 1, .should_stop = stop_at_three, .on_step = count_step, .context = &last};
    timing_span span = {.seconds = 60, .least = 5, .most = 5};
    assert_int_equal(timing_run_for(b.e, b.p, &options, &span, b.cell), DYNO_INTERRUPTED);
    assert_string_equal(dyno_error_message(), "interrupted after 2 timed repetitions");
    assert_int_equal(samples(&b, "warmup"), 1);
    assert_int_equal(samples(&b, "step"), 2);
    bench_destroy(&b);
}

static void a_step_that_runs_out_of_memory_ends_the_run(void **state) {
    (void)state;
    bench b = bench_create(STEP_BACKWARD);
    memory_pool *small;
    int64_t persistent = memory_pool_taken_bytes(b.pool);
    assert_int_equal(memory_pool_create(device_cpu(), persistent + 64, &small), DYNO_OK);
    storage *shared = storage_create(small);
    executor *e;
    assert_int_equal(executor_create(b.p, small, shared, &e), DYNO_OK);
    assert_int_equal(timing_run(e, b.p, &(timing_options){.steps = 2}, b.cell), DYNO_OUT_OF_MEMORY);
    assert_int_equal(samples(&b, "step"), -1);
    assert_int_equal(breakdown_run(e, b.p, &(timing_options){.steps = 2}, b.cell),
                     DYNO_OUT_OF_MEMORY);
    assert_null(cell_find_breakdown(b.cell, "by_class"));
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(small);
    bench_destroy(&b);
}

static void resident_memory_is_told_where_the_system_tells_it(void **state) {
    (void)state;
    timing_reset_peak_rss();
    assert_true(timing_peak_rss_bytes() >= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_a_series_of_its_own),
        cmocka_unit_test(phases_have_series_where_there_are_several_and_sum_to_the_step),
        cmocka_unit_test(by_events_nothing_but_launches_is_timed),
        cmocka_unit_test(a_run_for_a_time_has_as_many_steps_as_fit_between_its_limits),
        cmocka_unit_test(every_breakdown_sums_to_the_traced_step),
        cmocka_unit_test(breakdowns_name_phases_and_fold_layers),
        cmocka_unit_test(a_launch_of_two_phases_is_divided_between_them),
        cmocka_unit_test(the_time_of_a_launch_of_two_phases_is_divided_by_flops),
        cmocka_unit_test(an_interruption_keeps_the_samples_so_far),
        cmocka_unit_test(a_run_for_a_time_ends_when_asked_to),
        cmocka_unit_test(a_step_that_runs_out_of_memory_ends_the_run),
        cmocka_unit_test(resident_memory_is_told_where_the_system_tells_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
