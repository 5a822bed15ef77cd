/* test_foreign_programs.c - programs that are not one thread with one loop: steps that count anew, steps in steps,
 * threads that mark steps alone, ranges that overlap, phases that take turns. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "base/text.h"
#include "support/foreign_groups.h"
#include "support/trace_text.h"

static void expect_steps(const char *document, int steps, double device_span_ns) {
    foreign_groups g = foreign_groups_of_text(document, DYNO_OK);
    const device_time *times;
    assert_true(kernel_groups_device_times(g.groups, &times) > 0);
    if (g.trace.steps != steps || (int64_t)times[0].span_ns != (int64_t)device_span_ns)
        fail_msg("%d steps, %.0f ns: %s", g.trace.steps, times[0].span_ns, document);
    foreign_groups_release(&g);
}

/* A loop that is run again, for another epoch for instance, counts from 0 once more. */
static void steps_that_count_anew_are_other_steps(void **state) {
    (void)state;
    expect_steps(TRACE(RANGE("step 0", 1, 0, 10) CALL(1, 5, 1) KERNEL("k", 6, 3, 1)
                           RANGE("step 1", 1, 10, 10) CALL(1, 15, 2) KERNEL("k", 16, 3, 2)
                               RANGE("step 0", 1, 100, 10) CALL(1, 105, 3) KERNEL("k", 106, 3, 3)),
                 3, 9000);
}

static void the_same_step_of_two_threads_is_one(void **state) {
    (void)state;
    expect_steps(TRACE(RANGE("step 0", 1, 0, 10) CALL(1, 5, 1) KERNEL("k", 6, 3, 1)
                           RANGE("step 0", 2, 1, 10) CALL(2, 6, 2) KERNEL("k", 10, 3, 2)
                               RANGE("step 1", 1, 20, 10) CALL(1, 25, 3) KERNEL("k", 26, 3, 3)),
                 2, 7000 + 3000);
}

/* Each epoch has a loader of its own, which marks the steps that it loads for. */
static void steps_of_threads_that_come_and_go_are_those_that_they_overlap(void **state) {
    (void)state;
    expect_steps(TRACE(RANGE("step 0", 1, 0, 10) CALL(1, 5, 1) KERNEL("k", 6, 3, 1)
                           RANGE("step 0", 10, 2, 5) CALL(10, 3, 2) KERNEL("copy", 4, 1, 2)
                               RANGE("step 0", 1, 1000, 10) CALL(1, 1005, 3) KERNEL("k", 1006, 3, 3)
                                   RANGE("step 0", 11, 1002, 5) CALL(11, 1003, 4)
                                       KERNEL("copy", 1004, 1, 4)),
                 2, 5000 + 5000);
}

/* Two threads begin different steps at the same time. */
static void launches_are_of_the_step_of_their_own_thread(void **state) {
    (void)state;
    expect_steps(TRACE(RANGE("step 0", 1, 0, 10) CALL(1, 5, 1) KERNEL("k", 6, 3, 1)
                           RANGE("step 5", 2, 0, 10) CALL(2, 3, 2) KERNEL("k", 500, 3, 2)),
                 2, 3000 + 3000);
}

static void a_step_inside_another_is_a_part_of_it(void **state) {
    (void)state;
    expect_steps(TRACE(RANGE("step 10", 1, 0, 20) RANGE("microbatch 0", 1, 0, 9) CALL(1, 5, 1)
                           KERNEL("k", 6, 3, 1) RANGE("microbatch 1", 1, 9, 9) CALL(1, 12, 2)
                               KERNEL("k", 13, 3, 2) RANGE("step 11", 1, 30, 20)
                                   RANGE("microbatch 0", 1, 30, 9) CALL(1, 35, 3)
                                       KERNEL("k", 36, 3, 3) CALL(2, 46, 4) KERNEL("k", 47, 3, 4)),
                 2, 10000 + 14000);
}

static void a_thread_that_marks_steps_takes_no_phase_of_another(void **state) {
    (void)state;
    static const char BESIDE_LOADER[] = TRACE(RANGE("step 1", 1, 0, 50) CALL(1, 5, 1) KERNEL(
        "gemm", 10, 3, 1) RANGE("load", 2, 0, 60) CALL(2, 6, 2) KERNEL("copy", 20, 3, 2));
    expect_phase(BESIDE_LOADER, "load", 1);
    expect_phase(BESIDE_LOADER, ROW_UNATTRIBUTED, 1);
    foreign_groups g = foreign_groups_of_text(
        TRACE(RANGE("step 1", 1, 0, 50) CALL(1, 5, 1) KERNEL("gemm", 10, 3, 1)), DYNO_OK);
    expect_group(&g, BY_PHASE, "step", 1, 3000);
    assert_int_equal(g.trace.joined[JOINED_BY_THREAD], 1);
    foreign_groups_release(&g);
}

/* Each overlaps the next one only, so that two are open at once. */
static void any_number_of_ranges_may_follow_each_other_overlapping(void **state) {
    (void)state;
    enum { RANGES = 2 * HOST_MOST_NESTING };
    text document = {0};
    text_append(&document, "[");
    for (int i = 0; i < RANGES; i++)
        text_format(&document,
                    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,"
                    "\"ts\":%d,\"dur\":15},",
                    i % 2 ? "forward" : "load", 10 * i);
    /* At this time the range before the last is open, too, and it began first. */
    text_format(&document, "%s", CALL(1, 20472, 9) KERNEL("k", 30000, 3, 9) "{}]");
    expect_phase(text_string(&document), "load", 1);
    text_release(&document);
}

/* Among ranges that stay open, short ones that overlap: the list of open spans is made anew again and again. */
static void short_ranges_may_overlap_among_long_ones(void **state) {
    (void)state;
    enum { LONG = 100, SHORT = 5000 };
    text document = {0};
    text_append(&document, "[");
    for (int i = 0; i < LONG + SHORT; i++)
        text_format(&document,
                    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,"
                    "\"ts\":%d,\"dur\":%d},",
                    i == 0 ? "train" : "part", i < LONG ? i : 10 * i, i < LONG ? 1000000 : 15);
    text_format(&document, "%s", CALL(1, 50990, 9) KERNEL("k", 60000, 3, 9) "{}]");
    expect_phase(text_string(&document), "train", 1);
    text_release(&document);
}

/* Each process has a thread with a range and one without, as PyTorch's backward. */
static void threads_of_any_number_of_processes_are_asked(void **state) {
    (void)state;
    enum { PROCESSES = 70 };
    static const char HEAD[] = "{\"ph\":\"X\",\"pid\":%d,\"ts\":5,";
    text document = {0};
    text_append(&document, "[");
    for (int i = 1; i <= PROCESSES; i++) {
        text_format(&document, HEAD, i);
        text_format(&document,
                    "\"tid\":1,\"cat\":\"user_annotation\",\"name\":\"backward\",\"dur\":50},");
        text_format(&document, HEAD, i);
        text_format(&document,
                    "\"tid\":2,\"cat\":\"cpu_op\",\"name\":\"op\",\"dur\":9,\"args\":{\"External "
                    "id\":%d}},",
                    i);
        text_format(&document,
                    "{\"ph\":\"X\",\"tid\":7,\"ts\":9,\"dur\":1,\"cat\":\"kernel\",\"name\":\"k\","
                    "\"args\":{"
                    "\"External id\":%d}},",
                    i);
    }
    text_append(&document, "{}]");
    expect_phase(text_string(&document), "backward", PROCESSES);
    text_release(&document);
}

static void names_that_are_too_long_are_told_as_such(void **state) {
    (void)state;
    text document = {0}, name = {0};
    for (int i = 0; i < 13; i++)
        text_append(&name, "0123456789");
    text_append(&document, "[");
    text_format(&document, "%s", RANGE("forward", 1, 0, 50));
    text_format(
        &document,
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":1,"
        "\"dur\":40},",
        text_string(&name));
    text_format(&document, "%s", RANGE("fc", 1, 2, 30) CALL(1, 5, 9) KERNEL("k", 500, 3, 9) "{}]");
    foreign_groups g = foreign_groups_of_text(text_string(&document), DYNO_OK);
    expect_group(&g, BY_SCOPE, "(more)", 1, 3000);
    foreign_groups_release(&g);
    text_release(&document);
    text_release(&name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_count_anew_are_other_steps),
        cmocka_unit_test(the_same_step_of_two_threads_is_one),
        cmocka_unit_test(steps_of_threads_that_come_and_go_are_those_that_they_overlap),
        cmocka_unit_test(launches_are_of_the_step_of_their_own_thread),
        cmocka_unit_test(a_step_inside_another_is_a_part_of_it),
        cmocka_unit_test(a_thread_that_marks_steps_takes_no_phase_of_another),
        cmocka_unit_test(any_number_of_ranges_may_follow_each_other_overlapping),
        cmocka_unit_test(short_ranges_may_overlap_among_long_ones),
        cmocka_unit_test(threads_of_any_number_of_processes_are_asked),
        cmocka_unit_test(names_that_are_too_long_are_told_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
