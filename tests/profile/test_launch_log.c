/* test_launch_log.c - what is derived from a device's records: busy and idle, each launch's own time,
 * and that nothing is derived from records that are not all there. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "profile/launch_plan.h"
#include "support/expect.h"

enum { LAUNCHES = 4 };

/* Launches 0, 1 and 3 on one stream, launch 2 beside them. */
static const int STREAMS[LAUNCHES] = {0, 0, 1, 0};

typedef struct times_of_launch {
    int step, launch;
    int64_t begin_ns, end_ns;
} times_of_launch;

static void add(launch_log *log, times_of_launch t) {
    launch_log_add(
        log, &(launch_record){
                 .step = t.step, .launch = t.launch, .begin_ns = t.begin_ns, .end_ns = t.end_ns});
}

static launch_log records_of(const times_of_launch *records, int count) {
    launch_log a = {0};
    for (int i = 0; i < count; i++)
        add(&a, records[i]);
    return a;
}

/* What a settled log says of one launch, over all steps. */
static int64_t running_of(const launch_log *log, int launch) {
    int64_t ns = 0;
    for (int64_t i = 0; i < log->count; i++)
        if (log->records[i].launch == launch)
            ns += log->records[i].end_ns - log->records[i].begin_ns;
    return ns;
}

static double share_of(const launch_log *log, int launch) {
    double ns = 0;
    for (int64_t i = 0; i < log->count; i++)
        if (log->records[i].launch == launch)
            ns += log->records[i].share_ns;
    return ns;
}

static launch_log_question question(int first_step, int step_count) {
    return (launch_log_question){.launch_count = LAUNCHES,
                                 .stream = STREAMS,
                                 .first_step = first_step,
                                 .step_count = step_count};
}

#define RECORDS(...)                                                                               \
    records_of((const times_of_launch[]){__VA_ARGS__},                                             \
               (int)(sizeof((const times_of_launch[]){__VA_ARGS__}) / sizeof(times_of_launch)))

static void expect_near(double a, double b) { assert_true(fabs(a - b) < 1e-6); }

static void busy_is_the_union_of_all_streams_and_idle_what_is_left_of_the_step(void **state) {
    (void)state;
    launch_log a = RECORDS({0, 0, 100, 200}, {0, 1, 210, 300}, {0, 2, 250, 400}, {0, 3, 500, 600});
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    expect_ok(launch_log_settle(&a, &asked, &t));
    assert_int_equal(t.span_ns, 500);
    assert_int_equal(t.busy_ns, 100 + 190 + 100);
    assert_int_equal(t.between_ns, 0);
    assert_int_equal(t.unseen, 0);
    assert_int_equal(running_of(&a, 1), 90);
    assert_int_equal(running_of(&a, 2), 150);
    /* 50 of them side by side: each has half of those. */
    expect_near(share_of(&a, 1), 40 + 25);
    expect_near(share_of(&a, 2), 25 + 100);
    launch_log_release(&a);
}

static void shares_add_up_to_the_busy_time(void **state) {
    (void)state;
    launch_log a = {0};
    uint32_t random = 12345;
    for (int i = 0; i < 400; i++) {
        random = random * 1664525u + 1013904223u;
        int64_t begin = random >> 16 & 4095;
        random = random * 1664525u + 1013904223u;
        add(&a, (times_of_launch){0, i % LAUNCHES, begin, begin + (random >> 24)});
    }
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    expect_ok(launch_log_settle(&a, &asked, &t));
    double sum = 0;
    for (int i = 0; i < LAUNCHES; i++)
        sum += share_of(&a, i);
    expect_near(sum, (double)t.busy_ns);
    assert_true(t.busy_ns <= t.span_ns);
    launch_log_release(&a);
}

static void what_a_launch_waits_for_the_one_before_it_is_not_its_own_time(void **state) {
    (void)state;
    /* Launch 1 is on the device 30 ns before launch 0 has ended; launch 2 is on another stream. */
    launch_log a = RECORDS({0, 0, 0, 100}, {0, 1, 70, 150}, {0, 2, 70, 150}, {0, 3, 150, 160});
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    expect_ok(launch_log_settle(&a, &asked, &t));
    assert_int_equal(running_of(&a, 0), 100);
    assert_int_equal(running_of(&a, 1), 50);
    assert_int_equal(running_of(&a, 2), 80);
    assert_int_equal(t.busy_ns, 160);
    launch_log_release(&a);
}

/* Launches 0 and 1 run in each of two micro-batches, 2 beside the last one, 3 behind both. */
static void launches_of_micro_batches_do_not_wait_for_those_of_the_next(void **state) {
    (void)state;
    static const int TIMES[LAUNCHES] = {2, 2, 1, 1};
    launch_log a = RECORDS({0, 3, 50, 60}, {0, 0, 20, 30}, {0, 1, 30, 40}, {0, 2, 35, 45},
                           {0, 0, 0, 10}, {0, 1, 10, 20});
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    asked.times = TIMES;
    asked.repetitions = 2;
    expect_ok(launch_log_settle(&a, &asked, &t));
    assert_int_equal(running_of(&a, 0), 20);
    assert_int_equal(running_of(&a, 1), 20);
    assert_int_equal(t.busy_ns, 45 + 10);
    static const int ORDER[] = {0, 1, 0, 1, 2, 3}, REPETITION[] = {0, 0, 1, 1, 1, 1};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(a.records[i].launch, ORDER[i]);
        assert_int_equal(a.records[i].repetition, REPETITION[i]);
    }
    launch_log_release(&a);
}

static void the_pieces_of_a_launch_add_up(void **state) {
    (void)state;
    launch_log a = RECORDS({0, 0, 0, 10}, {0, 0, 10, 15}, {0, 0, 20, 30}, {0, 1, 30, 31},
                           {0, 2, 0, 1}, {0, 3, 31, 32});
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    expect_ok(launch_log_settle(&a, &asked, &t));
    assert_int_equal(running_of(&a, 0), 25);
    assert_int_equal(a.records[2].launch, 0);
    assert_int_equal(a.records[3].launch, 1);
    launch_log_release(&a);
}

static void records_may_come_in_any_order(void **state) {
    (void)state;
    static const times_of_launch records[] = {{0, 0, 0, 10},    {0, 1, 8, 20},    {0, 2, 5, 9},
                                              {0, 3, 25, 30},   {1, 0, 100, 110}, {1, 1, 108, 120},
                                              {1, 2, 105, 109}, {1, 3, 125, 130}};
    enum { COUNT = sizeof records / sizeof *records };
    launch_log_question asked = question(0, 2);
    launch_log_sums first, t;
    launch_log in_order = records_of(records, COUNT);
    expect_ok(launch_log_settle(&in_order, &asked, &first));
    for (int step = 3; step < COUNT; step += 2) { /* coprime to COUNT */
        launch_log a = {0};
        for (int i = 0; i < COUNT; i++)
            add(&a, records[(i * step + 5) % COUNT]);
        expect_ok(launch_log_settle(&a, &asked, &t));
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(a.records[i].launch, in_order.records[i].launch);
            assert_int_equal(a.records[i].begin_ns, in_order.records[i].begin_ns);
            assert_int_equal(a.records[i].end_ns, in_order.records[i].end_ns);
            expect_near(a.records[i].share_ns, in_order.records[i].share_ns);
        }
        assert_int_equal(t.span_ns, first.span_ns);
        assert_int_equal(t.busy_ns, first.busy_ns);
        assert_int_equal(t.between_ns, 70);
        launch_log_release(&a);
    }
    launch_log_release(&in_order);
}

static void the_warm_up_is_not_looked_at(void **state) {
    (void)state;
    launch_log a = RECORDS({0, 0, 0, 1000}, {1, 0, 2000, 2010}, {1, 1, 2010, 2020},
                           {2, 0, 3000, 3010}, {2, 1, 3010, 3020});
    launch_log_sums t;
    launch_log_question asked = question(1, 2);
    expect_ok(launch_log_settle(&a, &asked, &t));
    assert_int_equal(t.span_ns, 40);
    assert_int_equal(running_of(&a, 0), 20);
    assert_int_equal(t.between_ns, 980);
    assert_int_equal(t.unseen, 2); /* launches 2 and 3 */
    launch_log_release(&a);
}

static void expect_incomplete(launch_log *a, launch_log_question asked, const char *says) {
    launch_log_sums t;
    assert_int_equal(launch_log_settle(a, &asked, &t), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), says));
    assert_int_equal(t.busy_ns, 0);
    launch_log_release(a);
}

static void nothing_is_derived_when_records_were_lost(void **state) {
    (void)state;
    launch_log a = RECORDS({0, 0, 0, 10}, {1, 0, 20, 30});
    a.dropped = 3;
    expect_incomplete(&a, question(0, 2), "3 of the device's records were dropped");
    a = RECORDS({0, 0, 0, 10}, {0, 1, 10, 20}, {1, 0, 30, 40});
    expect_incomplete(&a, question(0, 2), "launch 1");
    a = RECORDS({0, 0, 0, 10}, {0, 0, 10, 11}, {1, 0, 30, 40});
    expect_incomplete(&a, question(0, 2), "launch 0");
    a = RECORDS({0, 0, 0, 10});
    expect_incomplete(&a, question(0, 2), "no record of traced step 1");
    a = (launch_log){0};
    expect_incomplete(&a, question(0, 1), "no record of traced step 0");
}

static void nothing_is_derived_when_time_belongs_to_no_launch(void **state) {
    (void)state;
    launch_log a = RECORDS({0, 0, 0, 1000}, {0, LAUNCH_UNKNOWN, 1000, 1011});
    expect_incomplete(&a, question(0, 1), "1.1 %");
    a = RECORDS({0, 0, 0, 1000}, {0, LAUNCH_UNKNOWN, 1000, 1005});
    launch_log_sums t;
    launch_log_question asked = question(0, 1);
    expect_ok(launch_log_settle(&a, &asked, &t));
    expect_near(t.unknown_ns, 5);
    assert_int_equal(t.busy_ns, 1005);
    launch_log_release(&a);
    a = RECORDS({0, LAUNCHES, 0, 10});
    expect_incomplete(&a, question(0, 1), "launch 4 of 4");
    a = RECORDS({0, 0, 10, 0});
    expect_incomplete(&a, question(0, 1), "-10 ns");
}

static void names_are_kept_once_each(void **state) {
    (void)state;
    launch_log a = {0};
    const char *first = launch_log_name(&a, "forward");
    assert_ptr_not_equal(launch_log_name(&a, "memcpy"), first);
    assert_ptr_equal(launch_log_name(&a, "forward"), first);
    assert_int_equal(a.text_count, 2);
    launch_log_release(&a);
}

static void steps_of_several_logs_are_joined_and_own_their_texts(void **state) {
    (void)state;
    launch_log all = {0};
    for (int round = 0; round < 3; round++) {
        launch_log one = {0};
        for (int step = 0; step < 2; step++) { /* the first warms up */
            launch_log_add(&one, &(launch_record){.step = step,
                                                  .recorded = launch_log_name(&one, "gemm"),
                                                  .begin_ns = 100 * round + 10 * step,
                                                  .end_ns = 100 * round + 10 * step + 5});
            launch_log_add_step(&one, (logged_step){step, step, step + 1});
        }
        launch_log_append(&all, &one, 1);
        launch_log_release(&one);
    }
    assert_int_equal(all.count, 3);
    assert_int_equal(all.step_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(all.records[i].step, i);
        assert_int_equal(all.records[i].begin_ns, 100 * i + 10);
        assert_string_equal(all.records[i].recorded, "gemm");
        assert_int_equal(all.steps[i].begin_ns, 1);
    }
    launch_log_release(&all);
}

/* ---- what the plan adds ---- */

static plan *two_launches(void) {
    plan *p = plan_create("two");
    for (int i = 0; i < 2; i++) {
        plan_launch *l = plan_add_launch(p, 0, 0);
        l->kernel_name = i ? "exp_cuda" : "matmul_cublas";
        l->variant = i ? NULL : "128x64";
        l->op_name = i ? "exp" : "matmul";
        l->class_name = i ? "elementwise" : "matmul";
        l->phase = i ? PHASE_BACKWARD : PHASE_FORWARD;
        l->flops = 1000 * (i + 1);
        l->bytes_read = 30;
        l->bytes_written = 10;
    }
    p->scopes = arena_allocate(p->memory, 1, sizeof *p->scopes);
    p->scopes[0] = "layers.0.attn";
    p->scope_count = 1;
    return p;
}

/* A product that clears its workspace first leaves two records. They take 4 + 7 and 6 + 4 of 21: each has its part
 * of the FLOPs, in both steps the same one. */
static void the_cost_of_a_launch_is_divided_among_its_records_by_time(void **state) {
    (void)state;
    plan *p = two_launches();
    launch_log a = RECORDS({0, 0, 0, 4}, {0, 0, 4, 10}, {0, 1, 10, 20}, {1, 0, 100, 107},
                           {1, 0, 107, 112}, {1, 1, 112, 120}); /* in all 11 and 10: the first */
    a.records[4].end_ns = 111;
    static const int ONE_STREAM[2] = {0};
    launch_log_sums sums;
    launch_log_question asked = {.launch_count = 2, .stream = ONE_STREAM, .step_count = 2};
    expect_ok(launch_log_settle(&a, &asked, &sums));
    launch_plan_describe(&a, p);
    plan_destroy(p);
    for (int i = 0; i < 6; i++) {
        const launch_record *r = &a.records[i];
        bool is_main = i % 3 == 0, is_exp = i % 3 == 2;
        assert_int_equal(r->is_further, !is_main && !is_exp);
        assert_true(r->has_cost);
        expect_near(r->flops, is_exp ? 2000 : 1000 * (is_main ? 11.0 : 10.0) / 21);
        expect_near(r->bytes, is_exp ? 40 : 40 * (is_main ? 11.0 : 10.0) / 21);
        assert_string_equal(r->kernel, is_exp ? "exp_cuda" : "matmul_cublas 128x64");
        assert_string_equal(r->phase, is_exp ? "backward" : "forward");
        assert_string_equal(r->scope, "layers.0.attn");
    }
    launch_log_release(&a);
}

/* Layers are one kind of launch in a profile's tables only if their records cost the same. */
static void records_of_launches_that_do_the_same_cost_the_same(void **state) {
    (void)state;
    plan *p = two_launches();
    p->launches[1] = p->launches[0];
    launch_log a = RECORDS({0, 0, 0, 4}, {0, 0, 4, 10}, {0, 1, 10, 13}, {0, 1, 13, 20});
    static const int ONE_STREAM[2] = {0};
    launch_log_sums sums;
    launch_log_question asked = {.launch_count = 2, .stream = ONE_STREAM, .step_count = 1};
    expect_ok(launch_log_settle(&a, &asked, &sums));
    launch_plan_describe(&a, p);
    plan_destroy(p);
    assert_true(a.records[0].flops == a.records[2].flops);
    assert_true(a.records[1].flops == a.records[3].flops);
    expect_near(a.records[0].flops, 1000 * 7.0 / 20);
    expect_near(a.records[0].flops + a.records[1].flops, 1000);
    launch_log_release(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_is_the_union_of_all_streams_and_idle_what_is_left_of_the_step),
        cmocka_unit_test(shares_add_up_to_the_busy_time),
        cmocka_unit_test(what_a_launch_waits_for_the_one_before_it_is_not_its_own_time),
        cmocka_unit_test(launches_of_micro_batches_do_not_wait_for_those_of_the_next),
        cmocka_unit_test(the_pieces_of_a_launch_add_up),
        cmocka_unit_test(records_may_come_in_any_order),
        cmocka_unit_test(the_warm_up_is_not_looked_at),
        cmocka_unit_test(nothing_is_derived_when_records_were_lost),
        cmocka_unit_test(nothing_is_derived_when_time_belongs_to_no_launch),
        cmocka_unit_test(names_are_kept_once_each),
        cmocka_unit_test(steps_of_several_logs_are_joined_and_own_their_texts),
        cmocka_unit_test(the_cost_of_a_launch_is_divided_among_its_records_by_time),
        cmocka_unit_test(records_of_launches_that_do_the_same_cost_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
