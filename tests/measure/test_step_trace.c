/* test_step_trace.c - a device whose times are known is reproduced exactly, from its records to the
 * breakdowns of a cell; and what write-ups of others got wrong about time cannot happen. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/profile_check.h"
#include "measure/profile_record.h"
#include "measure/step_trace.h"
#include "support/expect.h"
#include "support/fake_device.h"
#include "support/small_model.h"

enum { POOL_BYTES = 1 << 26, BATCH = 2, CONTEXT = 5, STEPS = 3, GAP_NS = 7, STEP_GAP_NS = 1000 };

typedef struct bench {
    fake_device *f;
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
    int64_t *launch_ns;
    results *run;
    results_cell *cell;
} bench;

/* Launch i takes 10 + i ns, on a device that keeps records. */
static bench bench_create(step_extent extent, step_mode mode) {
    bench b = {.f = fake_device_create(POOL_BYTES, true)};
    step_options options = small_model_step(&small_model_fixed, BATCH, CONTEXT, extent);
    options.pipeline.mode = mode;
    expect_ok(step_plan_create(&options, &b.p));
    b.launch_ns = memory_allocate((size_t)b.p->launch_count, sizeof *b.launch_ns);
    for (int i = 0; i < b.p->launch_count; i++)
        b.launch_ns[i] = 10 + i;
    b.f->can_observe = true;
    b.f->launch_ns = b.launch_ns;
    b.f->launch_gap_ns = GAP_NS;
    b.f->step_gap_ns = STEP_GAP_NS;
    b.f->first_factor = 1000;
    expect_ok(memory_pool_create(fake_device_base(b.f), POOL_BYTES, &b.pool));
    b.shared = storage_create(b.pool);
    expect_ok(executor_create(b.p, b.pool, b.shared, &b.e));
    small_model_fill(b.e, b.shared, &small_model_fixed, 3);
    b.run = results_create(RUN_PROFILE, 0, NULL);
    b.cell = results_add_cell(b.run);
    return b;
}

static void bench_destroy(bench *b) {
    executor_destroy(b->e);
    storage_destroy(b->shared);
    memory_pool_destroy(b->pool);
    plan_destroy(b->p);
    device_close(fake_device_base(b->f));
    results_destroy(b->run);
    free(b->launch_ns);
}

static step_trace trace_of(bench *b) {
    step_trace trace;
    expect_ok(
        step_trace_run_interleaved(b->e, b->p, &(timing_options){.steps = STEPS}, b->cell, &trace));
    return trace;
}

static void record(bench *b, const step_trace *trace, int64_t steps) {
    int count;
    const grouping *by = profile_groupings(true, &count);
    kernel_groups *groups = kernel_groups_create(by, count);
    for (int64_t i = 0; i < trace->log.count; i++)
        expect_ok(kernel_groups_add(groups, &trace->log.records[i]));
    profile_record_groups(groups, steps, b->cell);
    cell_set_metric(b->cell, METRIC_LAUNCHES_UNSEEN, "", trace->sums.unseen);
    kernel_groups_destroy(groups);
}

static double value_of(const bench *b, const char *breakdown, const char *first, const char *second,
                       const char *column) {
    const results_breakdown *table = cell_find_breakdown(b->cell, breakdown);
    assert_non_null(table);
    for (int64_t i = 0; i < table->row_count; i++) {
        bool is_it = strcmp(table->rows[i].keys[0], first) == 0 &&
                     (!second || strcmp(table->rows[i].keys[1], second) == 0);
        for (int j = 0; is_it && j < table->column_count; j++)
            if (strcmp(table->columns[j].name, column) == 0)
                return results_number(&table->rows[i].values[j]);
    }
    fail_msg("%s has no row %s with %s", breakdown, first, column);
    return NAN;
}

static void expect_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-9 * fabs(b)))
        fail_msg("%.12g, wanted %.12g", a, b);
}

/* What launches with this text take in a step, how many there are, and the shortest and longest. */
typedef struct known {
    double ns, count, flops, min, max;
} known;

static known sum_launches(const bench *b, const char *(*key)(const bench *, int),
                          const char *wanted) {
    known sum = {.min = INFINITY};
    for (int i = 0; i < b->p->launch_count; i++) {
        if (strcmp(key(b, i), wanted) != 0)
            continue;
        double ns = (double)b->launch_ns[i];
        sum.ns += ns;
        sum.count++;
        sum.flops += b->p->launches[i].flops;
        sum.min = ns < sum.min ? ns : sum.min;
        sum.max = ns > sum.max ? ns : sum.max;
    }
    return sum;
}

static const char *class_of(const bench *b, int i) { return b->p->launches[i].class_name; }
static const char *op_of(const bench *b, int i) { return b->p->launches[i].op_name; }
static const char *kernel_of(const bench *b, int i) { return b->p->launches[i].kernel_name; }
static const char *phase_of(const bench *b, int i) { return phase_name(b->p->launches[i].phase); }

static void a_device_with_known_times_is_reproduced_exactly(void **state) {
    (void)state;
    static const struct {
        const char *breakdown;
        const char *(*key)(const bench *, int);
    } TABLES[] = {{BREAKDOWN_BY_CLASS, class_of},
                  {BREAKDOWN_BY_OP, op_of},
                  {BREAKDOWN_BY_KERNEL, kernel_of},
                  {BREAKDOWN_BY_PHASE, phase_of}};
    bench b = bench_create(STEP_FULL, STEP_EAGER);
    step_trace trace = trace_of(&b);
    assert_true(trace.is_observed);
    record(&b, &trace, STEPS);
    for (int i = 0; i < b.p->launch_count; i++)
        for (size_t j = 0; j < sizeof TABLES / sizeof *TABLES; j++) {
            const char *wanted = TABLES[j].key(&b, i), *name = TABLES[j].breakdown;
            known sum = sum_launches(&b, TABLES[j].key, wanted);
            expect_near(value_of(&b, name, wanted, NULL, COLUMN_TIME), sum.ns);
            expect_near(value_of(&b, name, wanted, NULL, COLUMN_RUNNING), sum.ns);
            expect_near(value_of(&b, name, wanted, NULL, COLUMN_COUNT), sum.count);
            expect_near(value_of(&b, name, wanted, NULL, COLUMN_MIN), sum.min);
            expect_near(value_of(&b, name, wanted, NULL, COLUMN_MAX), sum.max);
            if (sum.flops > 0)
                expect_near(value_of(&b, name, wanted, NULL, COLUMN_FLOPS), sum.flops);
        }
    step_trace_release(&trace);
    bench_destroy(&b);
}

static void the_devices_span_is_its_launches_and_the_gaps_between_them(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        bench b = bench_create(STEP_FULL, (step_mode)mode);
        step_trace trace = trace_of(&b);
        record(&b, &trace, STEPS);
        double busy = 0;
        for (int i = 0; i < b.p->launch_count; i++)
            busy += (double)b.launch_ns[i];
        double gaps = b.p->launch_count - 1;
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_BUSY), busy);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_RUNNING), busy);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_SPAN),
                    busy + gaps * GAP_NS);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_SPAN_MEDIAN),
                    busy + gaps * GAP_NS);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_GAPS), gaps);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_GAP_MEDIAN),
                    GAP_NS);
        expect_near(value_of(&b, BREAKDOWN_DEVICES, "0", ROW_ALL_PHASES, COLUMN_GAP_MAX), GAP_NS);
        profile_check check = profile_check_cell(b.cell);
        expect_ok(profile_check_enforce(&check));
        expect_near(check.coverage, 1);
        step_trace_release(&trace);
        bench_destroy(&b);
    }
}

static void without_gaps_launches_span_and_busy_time_are_the_same(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL, STEP_COMPILED);
    b.f->launch_gap_ns = 0;
    step_trace trace = trace_of(&b);
    assert_int_equal(trace.sums.span_ns, trace.sums.busy_ns);
    double sum = 0;
    for (int64_t i = 0; i < trace.log.count; i++)
        sum += (double)(trace.log.records[i].end_ns - trace.log.records[i].begin_ns);
    expect_near(sum, (double)trace.sums.span_ns);
    step_trace_release(&trace);
    bench_destroy(&b);
}

/* On a CPU: both by the same clock, so that nothing but the executor's own work lies between. Other
 * processes may take the core in the midst of a step, so that one of several steps is enough. */
static void the_hosts_clock_agrees_with_the_sum_of_launches(void **state) {
    (void)state;
    model_config config = small_model_fixed;
    config.d_ff = 2048;
    config.vocab = 4000;
    plan *p = small_model_plan(&config, 4, 64, STEP_FULL);
    memory_pool *pool;
    expect_ok(memory_pool_create(device_cpu(), (int64_t)1 << 30, &pool));
    storage *shared = storage_create(pool);
    executor *e;
    expect_ok(executor_create(p, pool, shared, &e));
    small_model_fill(e, shared, &config, 3);
    bool agrees = false;
    for (int step = 0; step < 20 && !agrees; step++) {
        launch_log log = {0};
        double sum = 0;
        expect_ok(executor_run(e, &log, NULL));
        for (int64_t i = 0; i < log.count; i++)
            sum += (double)(log.records[i].end_ns - log.records[i].begin_ns);
        double host = (double)(log.steps[0].end_ns - log.steps[0].begin_ns);
        assert_true(sum <= host);
        agrees = sum >= 0.98 * host;
        launch_log_release(&log);
    }
    assert_true(agrees);
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

/* ---- the mistakes of write-ups ---- */

/* This device does nothing before the host waits for it: all of the forward runs when the host has
 * launched all of the backward. Ranges cut by time would file it there. */
static void a_device_that_lags_behind_changes_no_phase(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        bench b = bench_create(STEP_FULL, (step_mode)mode);
        b.f->now_ns = (int64_t)1 << 60; /* and its clock has nothing to do with the host's */
        step_trace trace = trace_of(&b);
        for (int64_t i = 0; i < trace.log.count; i++) {
            const launch_record *r = &trace.log.records[i];
            const plan_launch *l = &b.p->launches[r->launch];
            assert_string_equal(r->phase, phase_name(l->phase));
            assert_string_equal(r->scope, b.p->scopes[l->scope]);
            assert_int_equal(r->end_ns - r->begin_ns, b.launch_ns[r->launch]);
        }
        step_trace_release(&trace);
        bench_destroy(&b);
    }
}

static void counts_are_whole_and_of_one_step(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL, STEP_EAGER);
    step_trace trace = trace_of(&b);
    record(&b, &trace, STEPS);
    const results_breakdown *launches = cell_find_breakdown(b.cell, BREAKDOWN_BY_LAUNCH);
    assert_int_equal(launches->row_count, b.p->launch_count);
    for (int64_t i = 0; i < launches->row_count; i++) {
        assert_int_equal(launches->rows[i].values[1].kind, RESULTS_INTEGER);
        assert_int_equal(launches->rows[i].values[1].integer, 1);
    }
    const results_breakdown *kinds = cell_find_breakdown(b.cell, BREAKDOWN_KINDS);
    int64_t count = 0;
    for (int64_t i = 0; i < kinds->row_count; i++)
        count += kinds->rows[i].values[1].integer;
    assert_int_equal(count, b.p->launch_count);
    assert_int_equal((int64_t)results_number(&cell_find_metric(b.cell, METRIC_TRACED_STEPS)->value),
                     STEPS);
    step_trace_release(&trace);
    bench_destroy(&b);
}

/* The first step of each observation takes 1000 times as long here, and is in no number. */
static void warm_up_is_in_no_time(void **state) {
    (void)state;
    bench b = bench_create(STEP_BACKWARD, STEP_COMPILED);
    step_trace trace = trace_of(&b);
    assert_int_equal(trace.log.step_count, STEPS);
    assert_int_equal(trace.log.count, STEPS * b.p->launch_count);
    for (int64_t i = 0; i < trace.log.count; i++) {
        const launch_record *r = &trace.log.records[i];
        assert_int_equal(r->end_ns - r->begin_ns, b.launch_ns[r->launch]);
    }
    step_trace_release(&trace);
    expect_ok(step_trace_run(b.e, b.p, &(timing_options){.steps = STEPS}, &trace));
    for (int64_t i = 0; i < trace.log.count; i++)
        assert_true(trace.log.records[i].end_ns - trace.log.records[i].begin_ns < 1000);
    step_trace_release(&trace);
    bench_destroy(&b);
}

static void a_launch_without_a_record_leaves_its_phase_incomplete(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL, STEP_EAGER);
    b.f->hidden_launch = b.p->launch_count - 1;
    step_trace trace = trace_of(&b);
    assert_int_equal(trace.sums.unseen, 1);
    record(&b, &trace, STEPS);
    profile_check check = profile_check_cell(b.cell);
    assert_int_equal(profile_check_enforce(&check), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "1 launches of the step left no record"));
    step_trace_release(&trace);
    bench_destroy(&b);
}

static void work_that_belongs_to_no_launch_is_told_and_refused(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL, STEP_EAGER);
    b.launch_ns[0] = 1; /* next to nothing */
    b.f->has_stranger = true;
    step_trace trace = trace_of(&b);
    record(&b, &trace, STEPS);
    profile_check check = profile_check_cell(b.cell);
    expect_ok(profile_check_enforce(&check));
    assert_true(check.coverage < 1);
    assert_true(value_of(&b, BREAKDOWN_BY_PHASE, ROW_UNATTRIBUTED, NULL, COLUMN_RUNNING) > 0);
    step_trace_release(&trace);
    b.launch_ns[0] = 1000000; /* nearly everything */
    assert_int_equal(
        step_trace_run_interleaved(b.e, b.p, &(timing_options){.steps = STEPS}, b.cell, &trace),
        DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "belongs to no launch"));
    assert_int_equal(trace.log.count, 0);
    bench_destroy(&b);
}

/* One FLOP table: each launch's own count, once, however many records it left. */
static void flops_are_those_of_the_plan(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        bench b = bench_create(STEP_FULL, (step_mode)mode);
        step_trace trace = trace_of(&b);
        record(&b, &trace, STEPS);
        static const char *const NAMES[] = {BREAKDOWN_BY_KERNEL, BREAKDOWN_BY_SCOPE,
                                            BREAKDOWN_BY_PHASE, BREAKDOWN_KINDS, BREAKDOWN_SCOPES};
        double wanted = plan_total_cost(b.p, PHASE_COUNT).flops;
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
            const results_breakdown *table = cell_find_breakdown(b.cell, NAMES[i]);
            double flops = 0;
            for (int64_t j = 0; j < table->row_count; j++)
                flops += results_number(&table->rows[j].values[2]);
            expect_near(flops, wanted);
        }
        step_trace_release(&trace);
        bench_destroy(&b);
    }
}

/* ---- tracing itself ---- */

static void traced_and_untraced_steps_take_turns(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        bench b = bench_create(STEP_FULL, (step_mode)mode);
        step_trace trace = trace_of(&b);
        static const char *const SERIES[] = {SERIES_TRACED, SERIES_UNTRACED, SERIES_ENQUEUE};
        for (size_t i = 0; i < sizeof SERIES / sizeof *SERIES; i++)
            assert_int_equal(cell_find_series(b.cell, SERIES[i])->count, STEPS);
        if (mode == STEP_COMPILED) { /* each observation captures anew, and so does its end */
            assert_int_equal(b.f->captures, 2 * STEPS);
            assert_int_equal(b.f->replays, 4 * STEPS);
        }
        step_trace_release(&trace);
        bench_destroy(&b);
    }
}

static void without_records_of_the_device_launches_are_timed_by_events(void **state) {
    (void)state;
    bench b = bench_create(STEP_FULL, STEP_COMPILED);
    b.f->can_observe = false;
    b.f->launch_gap_ns = b.f->step_gap_ns = 0;
    step_trace trace = trace_of(&b);
    assert_false(trace.is_observed);
    for (int64_t i = 0; i < trace.log.count; i++) {
        const launch_record *r = &trace.log.records[i];
        assert_int_equal(r->end_ns - r->begin_ns, b.launch_ns[r->launch]);
        expect_near(r->share_ns, (double)b.launch_ns[r->launch]);
    }
    step_trace_release(&trace);
    bench_destroy(&b);
}

static bool stop_at_once(void *context) {
    (void)context;
    return true;
}

static void an_interruption_leaves_no_trace(void **state) {
    (void)state;
    bench b = bench_create(STEP_FORWARD, STEP_EAGER);
    step_trace trace;
    timing_options options = {.steps = STEPS, .should_stop = stop_at_once};
    assert_int_equal(step_trace_run_interleaved(b.e, b.p, &options, b.cell, &trace),
                     DYNO_INTERRUPTED);
    assert_string_equal(dyno_error_message(), "interrupted after 0 of 3 traced steps");
    assert_null(trace.log.records);
    assert_int_equal(step_trace_run(b.e, b.p, &options, &trace), DYNO_INTERRUPTED);
    bench_destroy(&b);
}

static void counters_are_of_a_cpu_or_say_why_not(void **state) {
    (void)state;
    bench b = bench_create(STEP_FORWARD, STEP_EAGER);
    step_trace trace = trace_of(&b);
    assert_int_equal(step_trace_count(b.e, b.p, &trace), DYNO_UNSUPPORTED);
    step_trace_release(&trace);
    bench_destroy(&b);

    plan *p = small_model_plan(&small_model_fixed, BATCH, CONTEXT, STEP_FULL);
    memory_pool *pool;
    expect_ok(memory_pool_create(device_cpu(), POOL_BYTES, &pool));
    storage *shared = storage_create(pool);
    executor *e;
    expect_ok(executor_create(p, pool, shared, &e));
    small_model_fill(e, shared, &small_model_fixed, 3);
    expect_ok(step_trace_run(e, p, &(timing_options){.steps = 2}, &trace));
    dyno_status status = step_trace_count(e, p, &trace);
    if (status == DYNO_OK) {
        for (int64_t i = 0; i < trace.log.count; i++) {
            assert_true(trace.log.records[i].has_counters);
            assert_true(trace.log.records[i].counters.instructions > 0);
        }
    } else {
        assert_int_equal(status, DYNO_UNSUPPORTED);
        assert_non_null(strstr(dyno_error_message(), "perf_event_open says"));
    }
    step_trace_release(&trace);
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

/* A graph's replays have streams of other ids; a step that begins with the second one has it first. */
static void streams_are_numbered_as_a_step_uses_them(void **state) {
    (void)state;
    plan *p = small_model_plan(&small_model_fixed, BATCH, CONTEXT, STEP_FULL);
    static const struct {
        int step, id, begin, number;
    } rows[] = {{0, 7, 10, 0},  {0, 13, 20, 1}, {0, 7, 30, 0},
                {1, 21, 55, 1}, {1, 40, 50, 0}, {1, 21, 60, 1}};
    enum { COUNT = sizeof rows / sizeof *rows };
    launch_record records[COUNT];
    for (int i = 0; i < COUNT; i++)
        records[i] = (launch_record){.step = rows[i].step,
                                     .launch = i % 3,
                                     .stream = rows[i].id,
                                     .begin_ns = rows[i].begin,
                                     .end_ns = rows[i].begin + 5};
    results *run = results_create(RUN_PROFILE, 0, NULL);
    results_cell *cell = results_add_cell(run);
    profile_record_launches(records, COUNT, p, cell);
    const results_breakdown *kept = cell_find_breakdown(cell, BREAKDOWN_RECORDS);
    assert_int_equal(kept->row_count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal((int)results_number(&kept->rows[i].values[1]), rows[i].number);
    results_destroy(run);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_with_known_times_is_reproduced_exactly),
        cmocka_unit_test(the_devices_span_is_its_launches_and_the_gaps_between_them),
        cmocka_unit_test(without_gaps_launches_span_and_busy_time_are_the_same),
        cmocka_unit_test(the_hosts_clock_agrees_with_the_sum_of_launches),
        cmocka_unit_test(a_device_that_lags_behind_changes_no_phase),
        cmocka_unit_test(counts_are_whole_and_of_one_step),
        cmocka_unit_test(warm_up_is_in_no_time),
        cmocka_unit_test(a_launch_without_a_record_leaves_its_phase_incomplete),
        cmocka_unit_test(work_that_belongs_to_no_launch_is_told_and_refused),
        cmocka_unit_test(flops_are_those_of_the_plan),
        cmocka_unit_test(traced_and_untraced_steps_take_turns),
        cmocka_unit_test(without_records_of_the_device_launches_are_timed_by_events),
        cmocka_unit_test(an_interruption_leaves_no_trace),
        cmocka_unit_test(counters_are_of_a_cpu_or_say_why_not),
        cmocka_unit_test(streams_are_numbered_as_a_step_uses_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
