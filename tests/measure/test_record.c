/* test_record.c - a record on the disk grows with its run and is never replaced by less. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/file.h"
#include "measure/record.h"
#include "support/scratch.h"

static results *create_run(const char *verb, int64_t planned) {
    results *run = results_create(verb, 0, NULL);
    run->planned_cells = planned;
    return run;
}

static void finish_cell(results *run) {
    results_cell *cell = results_add_cell(run);
    cell_add_sample(cell, "step", "ns", 1000);
    cell_set_status(cell, RESULTS_OK, NULL);
}

static void expect_record(const char *path, bool is_complete, int64_t finished) {
    results *there;
    if (results_read(path, &there) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    assert_int_equal(there->is_complete, is_complete);
    assert_int_equal(results_finished_cells(there), finished);
    results_destroy(there);
}

/* A whole run of `cells` cells in the directory. */
static void leave_record(const char *directory, const char *verb, int cells, bool is_complete) {
    results *run = create_run(verb, cells);
    for (int i = 0; i < cells; i++)
        finish_cell(run);
    run->is_complete = is_complete;
    assert_int_equal(results_write(run, directory), DYNO_OK);
    results_destroy(run);
}

static void it_is_there_from_the_beginning_and_grows(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path directory = scratch_join(&made, "a/b");
    results *run = create_run("bench", 2);
    record *r = record_create(directory.text, run, false);
    assert_int_equal(scratch_count(directory.text), -1);
    assert_int_equal(record_begin(r), DYNO_OK);
    expect_record(directory.text, false, 0);
    finish_cell(run);
    assert_int_equal(record_keep(r), DYNO_OK); /* however soon */
    assert_false(record_was_put_off(r));
    expect_record(directory.text, false, 1);
    finish_cell(run);
    run->is_complete = true;
    assert_int_equal(record_end(r), DYNO_OK);
    expect_record(directory.text, true, 2);
    assert_false(record_is_beside(r));
    assert_int_equal(scratch_count(directory.text), 1); /* nothing temporary is left */
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void a_run_with_nothing_to_keep_leaves_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    results *run = create_run("bench", 2);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    record_abandon(r);
    assert_int_equal(scratch_count(made.path), 0);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void less_is_kept_beside(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path beside = scratch_join(&made, "run.incomplete.json");
    leave_record(made.path, "bench", 2, true);
    results *run = create_run("bench", 3);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    expect_record(beside.text, false, 0);
    for (int i = 0; i < 3; i++)
        finish_cell(run);
    assert_int_equal(record_end(r), DYNO_OK); /* more cells, but incomplete */
    assert_true(record_is_beside(r));
    assert_string_equal(record_path(r), beside.text);
    expect_record(made.path, true, 2);
    expect_record(beside.text, false, 3);
    run->is_complete = true;
    assert_int_equal(record_end(r), DYNO_OK);
    assert_false(record_is_beside(r));
    expect_record(made.path, true, 3);
    assert_int_equal(scratch_count(made.path), 1);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void an_incomplete_record_is_replaced_by_as_many_cells(void **state) {
    (void)state;
    scratch made = scratch_create();
    leave_record(made.path, "bench", 2, false);
    results *run = create_run("bench", 3);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    finish_cell(run);
    assert_int_equal(record_end(r), DYNO_OK);
    expect_record(made.path, false, 2);
    finish_cell(run);
    assert_int_equal(record_end(r), DYNO_OK);
    assert_false(record_is_beside(r));
    assert_int_equal(scratch_count(made.path), 1);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void expect_refusal(const scratch *made, const char *verb, const char *message) {
    results *run = create_run(verb, 3);
    record *r = record_create(made->path, run, false);
    assert_int_equal(record_begin(r), DYNO_INVALID);
    if (!strstr(dyno_error_message(), message) || !strstr(dyno_error_message(), "--force"))
        fail_msg("%s", dyno_error_message());
    record_destroy(r);
    results_destroy(run);
}

static void what_is_not_a_record_of_the_same_kind_is_not_replaced(void **state) {
    (void)state;
    scratch made = scratch_create();
    leave_record(made.path, "bench", 3, true);
    expect_refusal(&made, "plan", "is the record of `dyno bench`");
    expect_record(made.path, true, 3);
    assert_int_equal(scratch_count(made.path), 1);
    scratch_write(&made, "run.json", "{}", 2);
    expect_refusal(&made, "bench", "cannot be read as a record");
    scratch_remove(&made);
}

/* Somebody asked for a smaller grid, and it was measured to its end. */
static void a_complete_record_is_replaced_by_a_complete_one(void **state) {
    (void)state;
    scratch made = scratch_create();
    leave_record(made.path, "bench", 3, true);
    results *run = create_run("bench", 1);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    finish_cell(run);
    assert_int_equal(record_keep(r), DYNO_OK);
    expect_record(made.path, true, 3);
    run->is_complete = true;
    assert_int_equal(record_end(r), DYNO_OK);
    expect_record(made.path, true, 1);
    assert_int_equal(scratch_count(made.path), 1);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void force_replaces_anything_once_there_is_something(void **state) {
    (void)state;
    scratch made = scratch_create();
    leave_record(made.path, "plan", 3, true);
    results *run = create_run("bench", 2);
    record *r = record_create(made.path, run, true);
    assert_int_equal(record_begin(r), DYNO_OK);
    expect_record(made.path, true, 3); /* a run that fails now has replaced nothing */
    finish_cell(run);
    assert_int_equal(record_keep(r), DYNO_OK);
    expect_record(made.path, false, 1);
    assert_int_equal(scratch_count(made.path), 1);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void one_run_at_a_time_writes_to_a_directory(void **state) {
    (void)state;
    scratch made = scratch_create();
    results *run = create_run("bench", 1);
    record *first = record_create(made.path, run, false),
           *second = record_create(made.path, run, true);
    assert_int_equal(record_begin(first), DYNO_OK);
    assert_int_equal(record_begin(second), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "another run is writing its record"));
    record_destroy(first);
    assert_int_equal(record_begin(second), DYNO_OK);
    record_destroy(second);
    results_destroy(run);
    scratch_remove(&made);
}

/* Nobody reads the pipe: writing into it would never end. */
static void a_pipe_is_no_record(void **state) {
    (void)state;
    scratch made = scratch_create();
    assert_int_equal(mkfifo(scratch_join(&made, "run.json").text, 0600), 0);
    results *run = create_run("bench", 1);
    for (int forced = 0; forced < 2; forced++) {
        record *r = record_create(made.path, run, forced);
        assert_int_equal(record_begin(r), DYNO_INVALID);
        assert_non_null(strstr(dyno_error_message(), "is not a regular file"));
        record_destroy(r);
    }
    results_destroy(run);
    scratch_remove(&made);
}

static void a_full_disk_is_reported_and_tried_again(void **state) {
    (void)state;
    scratch made = scratch_create();
    results *run = create_run("bench", 100);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    for (int i = 0; i < 50; i++)
        finish_cell(run);
    scratch_limit_file_size(2000);
    assert_int_equal(record_end(r), DYNO_IO);
    assert_true(record_is_failing(r));
    expect_record(made.path, false, 0); /* the one before, whole */
    scratch_limit_file_size(-1);
    assert_int_equal(record_end(r), DYNO_OK);
    assert_false(record_is_failing(r));
    expect_record(made.path, false, 50);
    record_destroy(r);
    scratch_limit_file_size(10);
    r = record_create(scratch_join(&made, "other").text, run, false);
    assert_int_equal(record_begin(r), DYNO_IO); /* before anything is measured */
    scratch_limit_file_size(-1);
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

/* Cells that come faster than they can be written wait for one another. */
static void writing_takes_little_of_the_time(void **state) {
    (void)state;
    scratch made = scratch_create();
    results *run = create_run("bench", 5000);
    record *r = record_create(made.path, run, false);
    assert_int_equal(record_begin(r), DYNO_OK);
    for (int i = 0; i < 4000; i++)
        finish_cell(run);
    assert_int_equal(record_keep(r), DYNO_OK);
    int keeps = 0;
    do {
        finish_cell(run);
        assert_int_equal(record_keep(r), DYNO_OK);
        keeps++;
    } while (record_was_put_off(r));
    assert_true(keeps > 1);
    expect_record(made.path, false, 4000 + keeps); /* and are all written together */
    record_destroy(r);
    results_destroy(run);
    scratch_remove(&made);
}

static void a_run_written_at_once_keeps_to_the_same_rule(void **state) {
    (void)state;
    scratch made = scratch_create();
    results *run = create_run("bench", 1);
    finish_cell(run);
    assert_int_equal(record_write(run, made.path), DYNO_OK);
    run->is_complete = true;
    assert_int_equal(record_write(run, made.path), DYNO_OK);
    run->is_complete = false;
    assert_int_equal(record_write(run, made.path), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "remove it first"));
    expect_record(made.path, true, 1);
    results_destroy(run);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_there_from_the_beginning_and_grows),
        cmocka_unit_test(a_run_with_nothing_to_keep_leaves_nothing),
        cmocka_unit_test(less_is_kept_beside),
        cmocka_unit_test(an_incomplete_record_is_replaced_by_as_many_cells),
        cmocka_unit_test(what_is_not_a_record_of_the_same_kind_is_not_replaced),
        cmocka_unit_test(a_complete_record_is_replaced_by_a_complete_one),
        cmocka_unit_test(force_replaces_anything_once_there_is_something),
        cmocka_unit_test(one_run_at_a_time_writes_to_a_directory),
        cmocka_unit_test(a_pipe_is_no_record),
        cmocka_unit_test(a_full_disk_is_reported_and_tried_again),
        cmocka_unit_test(writing_takes_little_of_the_time),
        cmocka_unit_test(a_run_written_at_once_keeps_to_the_same_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
