/* test_activity.c - what is derived from a device's records: busy and idle, each launch's own time,
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

#include "profile/activity.h"
#include "support/expect.h"

enum { LAUNCHES = 4 };

/* Launches 0, 1 and 3 on one stream, launch 2 beside them. */
static const int STREAMS[LAUNCHES] = {0, 0, 1, 0};

static activity records_of(const activity_record *records, int count) {
    activity a = {0};
    for (int i = 0; i < count; i++)
        activity_add(&a, records[i]);
    return a;
}

static activity_question question(int first_step, int step_count) {
    return (activity_question){LAUNCHES, STREAMS, first_step, step_count};
}

#define RECORDS(...)                                                                               \
    records_of((const activity_record[]){__VA_ARGS__},                                             \
               (int)(sizeof((const activity_record[]){__VA_ARGS__}) / sizeof(activity_record)))

static void expect_near(double a, double b) { assert_true(fabs(a - b) < 1e-6); }

static void busy_is_the_union_of_all_streams_and_idle_what_is_left_of_the_step(void **state) {
    (void)state;
    activity a =
        RECORDS({0, 0, 100, 200, 0}, {0, 1, 210, 300, 0}, {0, 2, 250, 400, 0}, {0, 3, 500, 600, 0});
    activity_times t;
    activity_question asked = question(0, 1);
    expect_ok(activity_analyse(&a, &asked, &t));
    assert_int_equal(t.span_ns, 500);
    assert_int_equal(t.busy_ns, 100 + 190 + 100);
    assert_int_equal(t.between_ns, 0);
    assert_int_equal(t.unseen, 0);
    assert_int_equal(t.running_ns[1], 90);
    assert_int_equal(t.running_ns[2], 150);
    /* 50 of them side by side: each has half of those. */
    expect_near(t.share_ns[1], 40 + 25);
    expect_near(t.share_ns[2], 25 + 100);
    activity_times_release(&t);
    activity_release(&a);
}

static void shares_add_up_to_the_busy_time(void **state) {
    (void)state;
    activity a = {0};
    uint32_t random = 12345;
    for (int i = 0; i < 400; i++) {
        random = random * 1664525u + 1013904223u;
        int64_t begin = random >> 16 & 4095;
        random = random * 1664525u + 1013904223u;
        activity_add(&a, (activity_record){0, i % LAUNCHES, begin, begin + (random >> 24), 0});
    }
    activity_times t;
    activity_question asked = question(0, 1);
    expect_ok(activity_analyse(&a, &asked, &t));
    double sum = 0;
    for (int i = 0; i < LAUNCHES; i++)
        sum += t.share_ns[i];
    expect_near(sum, (double)t.busy_ns);
    assert_true(t.busy_ns <= t.span_ns);
    activity_times_release(&t);
    activity_release(&a);
}

static void what_a_launch_waits_for_the_one_before_it_is_not_its_own_time(void **state) {
    (void)state;
    /* Launch 1 is on the device 30 ns before launch 0 has ended; launch 2 is on another stream. */
    activity a =
        RECORDS({0, 0, 0, 100, 0}, {0, 1, 70, 150, 0}, {0, 2, 70, 150, 0}, {0, 3, 150, 160, 0});
    activity_times t;
    activity_question asked = question(0, 1);
    expect_ok(activity_analyse(&a, &asked, &t));
    assert_int_equal(t.running_ns[0], 100);
    assert_int_equal(t.running_ns[1], 50);
    assert_int_equal(t.running_ns[2], 80);
    assert_int_equal(t.busy_ns, 160);
    activity_times_release(&t);
    activity_release(&a);
}

static void the_pieces_of_a_launch_add_up(void **state) {
    (void)state;
    activity a = RECORDS({0, 0, 0, 10, 0}, {0, 0, 10, 15, 0}, {0, 0, 20, 30, 0}, {0, 1, 30, 31, 0},
                         {0, 2, 0, 1, 0}, {0, 3, 31, 32, 0});
    activity_times t;
    activity_question asked = question(0, 1);
    expect_ok(activity_analyse(&a, &asked, &t));
    assert_int_equal(t.running_ns[0], 25);
    assert_int_equal(t.pieces[0], 3);
    activity_times_release(&t);
    activity_release(&a);
}

static void records_may_come_in_any_order(void **state) {
    (void)state;
    static const activity_record records[] = {
        {0, 0, 0, 10, 0},    {0, 1, 8, 20, 0},    {0, 2, 5, 9, 0},     {0, 3, 25, 30, 0},
        {1, 0, 100, 110, 0}, {1, 1, 108, 120, 0}, {1, 2, 105, 109, 0}, {1, 3, 125, 130, 0}};
    enum { COUNT = sizeof records / sizeof *records };
    activity_question asked = question(0, 2);
    activity_times in_order, t;
    activity a = records_of(records, COUNT);
    expect_ok(activity_analyse(&a, &asked, &in_order));
    activity_release(&a);
    for (int step = 3; step < COUNT; step += 2) { /* coprime to COUNT */
        for (int i = 0; i < COUNT; i++)
            activity_add(&a, records[(i * step + 5) % COUNT]);
        expect_ok(activity_analyse(&a, &asked, &t));
        assert_memory_equal(t.running_ns, in_order.running_ns, LAUNCHES * sizeof *t.running_ns);
        assert_memory_equal(t.share_ns, in_order.share_ns, LAUNCHES * sizeof *t.share_ns);
        assert_int_equal(t.span_ns, in_order.span_ns);
        assert_int_equal(t.busy_ns, in_order.busy_ns);
        assert_int_equal(t.between_ns, 70);
        activity_times_release(&t);
        activity_release(&a);
    }
    activity_times_release(&in_order);
}

static void the_warm_up_is_not_looked_at(void **state) {
    (void)state;
    activity a = RECORDS({0, 0, 0, 1000, 0}, {1, 0, 2000, 2010, 0}, {1, 1, 2010, 2020, 0},
                         {2, 0, 3000, 3010, 0}, {2, 1, 3010, 3020, 0});
    activity_times t;
    activity_question asked = question(1, 2);
    expect_ok(activity_analyse(&a, &asked, &t));
    assert_int_equal(t.span_ns, 40);
    assert_int_equal(t.running_ns[0], 20);
    assert_int_equal(t.between_ns, 980);
    assert_int_equal(t.unseen, 2); /* launches 2 and 3 */
    activity_times_release(&t);
    activity_release(&a);
}

static void expect_incomplete(activity *a, activity_question asked, const char *says) {
    activity_times t;
    assert_int_equal(activity_analyse(a, &asked, &t), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), says));
    assert_null(t.running_ns);
    assert_int_equal(t.busy_ns, 0);
    activity_release(a);
}

static void nothing_is_derived_when_records_were_lost(void **state) {
    (void)state;
    activity a = RECORDS({0, 0, 0, 10, 0}, {1, 0, 20, 30, 0});
    a.dropped = 3;
    expect_incomplete(&a, question(0, 2), "3 of the device's records were dropped");
    a = RECORDS({0, 0, 0, 10, 0}, {0, 1, 10, 20, 0}, {1, 0, 30, 40, 0});
    expect_incomplete(&a, question(0, 2), "launch 1");
    a = RECORDS({0, 0, 0, 10, 0}, {0, 0, 10, 11, 0}, {1, 0, 30, 40, 0});
    expect_incomplete(&a, question(0, 2), "launch 0");
    a = RECORDS({0, 0, 0, 10, 0});
    expect_incomplete(&a, question(0, 2), "no record of traced step 1");
    a = (activity){0};
    expect_incomplete(&a, question(0, 1), "no record of traced step 0");
}

static void nothing_is_derived_when_time_belongs_to_no_launch(void **state) {
    (void)state;
    activity a = RECORDS({0, 0, 0, 1000, 0}, {0, ACTIVITY_NOBODY, 1000, 1011, 0});
    expect_incomplete(&a, question(0, 1), "1.1 %");
    a = RECORDS({0, 0, 0, 1000, 0}, {0, ACTIVITY_NOBODY, 1000, 1005, 0});
    activity_times t;
    activity_question asked = question(0, 1);
    expect_ok(activity_analyse(&a, &asked, &t));
    expect_near(t.unknown_ns, 5);
    assert_int_equal(t.busy_ns, 1005);
    activity_times_release(&t);
    activity_release(&a);
    a = RECORDS({0, LAUNCHES, 0, 10, 0});
    expect_incomplete(&a, question(0, 1), "launch 4 of 4");
    a = RECORDS({0, 0, 10, 0, 0});
    expect_incomplete(&a, question(0, 1), "-10 ns");
}

static void names_are_kept_once_each(void **state) {
    (void)state;
    activity a = {0};
    assert_int_equal(activity_add_name(&a, "forward"), 0);
    assert_int_equal(activity_add_name(&a, "memcpy"), 1);
    assert_int_equal(activity_add_name(&a, "forward"), 0);
    assert_int_equal(a.name_count, 2);
    assert_string_equal(a.names[1], "memcpy");
    activity_release(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_is_the_union_of_all_streams_and_idle_what_is_left_of_the_step),
        cmocka_unit_test(shares_add_up_to_the_busy_time),
        cmocka_unit_test(what_a_launch_waits_for_the_one_before_it_is_not_its_own_time),
        cmocka_unit_test(the_pieces_of_a_launch_add_up),
        cmocka_unit_test(records_may_come_in_any_order),
        cmocka_unit_test(the_warm_up_is_not_looked_at),
        cmocka_unit_test(nothing_is_derived_when_records_were_lost),
        cmocka_unit_test(nothing_is_derived_when_time_belongs_to_no_launch),
        cmocka_unit_test(names_are_kept_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
