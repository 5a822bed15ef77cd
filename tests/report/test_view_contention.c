/* test_view_contention.c - who is told that the machine was busy, and who is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/view_parts.h"

enum { MS = 1000000 };

/* What was read around a cell, in ms; -1: the system did not tell. */
typedef struct readings {
    int watched, own_cpu, all_cpu, waited, preemptions;
} readings;

static void set_unless_unknown(results_cell *cell, const char *name, int64_t ms) {
    if (ms >= 0)
        cell_set_metric(cell, name, "ns", ms * MS);
}

static results *run_on(const char *verb, int cores, int threads) {
    results *run = results_create(verb, 0, NULL);
    results_set_environment_integer(run, "cores_available", cores);
    results_set_environment_integer(run, "threads", threads);
    return run;
}

static void add_cell(results *run, readings r) {
    results_cell *cell = results_add_cell(run);
    set_unless_unknown(cell, "watched_ns", r.watched);
    set_unless_unknown(cell, "own_cpu_ns", r.own_cpu);
    set_unless_unknown(cell, "all_cpu_ns", r.all_cpu);
    set_unless_unknown(cell, "waited_ns", r.waited);
    cell_set_metric(cell, "preemptions", "", r.preemptions);
    cell_set_status(cell, RESULTS_OK, NULL);
}

/* Destroys the run. `expected` is the note, or "" for none. */
static void expect_note(results *run, const char *expected) {
    report_table *table = table_create(NULL);
    table_add_column(table, "a", "a", TABLE_LEFT);
    view_note_contention(run, table);
    text out = {0};
    table_render(table, TABLE_TERMINAL, false, &out);
    text whole = {0};
    text_format(&whole, "a\n%s%s", expected, expected[0] ? "\n" : "");
    assert_string_equal(text_string(&out), text_string(&whole));
    text_release(&whole);
    text_release(&out);
    table_destroy(table);
    results_destroy(run);
}

static void nothing_is_said_of_an_idle_machine(void **state) {
    (void)state;
    results *run = run_on("bench", 2, 2);
    add_cell(run, (readings){1000, 1990, 2010, 3, 4});
    add_cell(run, (readings){1, 2, 20, 0, 0}); /* two ticks happened to fall into it */
    expect_note(run, "");
    /* Threads that sleep and wake up wait a little, and nobody makes them leave. */
    run = run_on("attention", 16, 16);
    add_cell(run, (readings){1000, 9000, 9010, 300, 0});
    expect_note(run, "");
    run = run_on("attention", 16, 16);
    add_cell(run, (readings){1000, 9000, 9010, 300, 2});
    expect_note(run, "");
    run = run_on("attention", 16, 16);
    add_cell(run, (readings){50, 450, 460, 10, 0});
    expect_note(run, "");
    /* Others that leave a core for each thread do no harm. */
    run = run_on("attention", 16, 4);
    add_cell(run, (readings){1000, 4000, 10000, 2, 1});
    expect_note(run, "");
}

static void others_that_are_busy_are_named_with_a_way_out(void **state) {
    (void)state;
    results *run = run_on("bench", 2, 2);
    add_cell(run, (readings){1000, 780, 2000, 480, 100});
    add_cell(run, (readings){1000, 780, 2000, 40, 9});
    expect_note(run, "busy machine: others used 61 % of the 2 cores while this was measured, and a "
                     "thread waited up to 48 % of the time for a core, in 1 of 2 cells; times can "
                     "be far too long, medians too: run again on an idle machine, or with "
                     "--threads 1");
    run = run_on("attention", 16, 16);
    add_cell(run, (readings){1000, 13500, 16000, 500, 100});
    expect_note(run, "busy machine: others used 16 % of the 16 cores while this was measured, and "
                     "a thread waited up to 50 % of the time for a core; times can be far too "
                     "long, medians too: run again on an idle machine, or with --threads 13");
    run = run_on("bench", 1, 1);
    add_cell(run, (readings){1000, 500, 1000, 500, 100});
    expect_note(run, "busy machine: others used 50 % of the 1 core while this was measured, and a "
                     "thread waited up to 50 % of the time for a core; times can be far too long, "
                     "medians too: run again on an idle machine");
}

static void peaks_of_a_busy_machine_are_too_low(void **state) {
    (void)state;
    results *run = run_on("doctor", 2, 2);
    add_cell(run, (readings){1000, 500, 1500, 300, 100});
    expect_note(run, "busy machine: others used 50 % of the 2 cores while this was measured, and a "
                     "thread waited up to 30 % of the time for a core; peaks are measured too low: "
                     "run again on an idle machine");
}

static void what_ticks_cannot_tell_is_not_said(void **state) {
    (void)state;
    results *run = run_on("attention", 2, 2);
    add_cell(run, (readings){20, 20, 40, 10, 5});
    expect_note(run, "busy machine: a thread waited up to 50 % of the time for a core; times can "
                     "be far too long, medians too: run again on an idle machine, or with "
                     "--threads 1");
    run = run_on("attention", 2, 2);
    add_cell(run, (readings){1000, 1000, -1, 500, 5});
    expect_note(run, "busy machine: a thread waited up to 50 % of the time for a core; times can "
                     "be far too long, medians too: run again on an idle machine, or with "
                     "--threads 1");
}

static void without_waits_what_others_used_decides(void **state) {
    (void)state;
    results *run = run_on("bench", 4, 4);
    add_cell(run, (readings){1000, 3000, 4000, -1, 0});
    expect_note(run, "busy machine: others used 25 % of the 4 cores while this was measured; times "
                     "can be far too long, medians too: run again on an idle machine, or with "
                     "--threads 3");
    run = run_on("bench", 4, 2);
    add_cell(run, (readings){1000, 2000, 3000, -1, 5});
    expect_note(run, "");
}

static void more_threads_than_cores_wait_for_one_another(void **state) {
    (void)state;
    results *run = run_on("bench", 2, 8);
    add_cell(run, (readings){1000, 1990, 2000, 700, 500});
    expect_note(run, "8 threads on 2 cores wait for one another: a thread waited up to 70 % of the "
                     "time for a core; --threads 2 is as many as there are cores");
}

static void a_limit_on_processor_time_is_guessed_where_nobody_else_is(void **state) {
    (void)state;
    results *run = run_on("bench", 64, 64);
    add_cell(run, (readings){1000, 2000, 2010, 900, 500});
    expect_note(run, "a thread waited up to 90 % of the time for a core, without other processes: "
                     "processor time seems to be limited, as in a container; times are too long: "
                     "raise the limit, or set --threads to as many cores as it allows");
    /* One cell of several was held up by something else. */
    run = run_on("attention", 2, 2);
    add_cell(run, (readings){100, 150, 151, 35, 4});
    for (int i = 0; i < 3; i++)
        add_cell(run, (readings){100, 198, 199, 0, 0});
    expect_note(run, "");
}

static void records_without_readings_are_shown_as_ever(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    cell_set_status(results_add_cell(run), RESULTS_OK, NULL);
    expect_note(run, "");
    run = run_on("bench", 2, 2);
    add_cell(run, (readings){1000, 780, 2000, 480, 100});
    cell_set_status(run->cells[0], RESULTS_INCOMPLETE, "interrupted");
    expect_note(run, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_of_an_idle_machine),
        cmocka_unit_test(others_that_are_busy_are_named_with_a_way_out),
        cmocka_unit_test(peaks_of_a_busy_machine_are_too_low),
        cmocka_unit_test(what_ticks_cannot_tell_is_not_said),
        cmocka_unit_test(without_waits_what_others_used_decides),
        cmocka_unit_test(more_threads_than_cores_wait_for_one_another),
        cmocka_unit_test(a_limit_on_processor_time_is_guessed_where_nobody_else_is),
        cmocka_unit_test(records_without_readings_are_shown_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
