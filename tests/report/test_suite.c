/* test_suite.c - suites as files: what they make, in which order, and what hostile ones get. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/embedded.h"
#include "report/suite.h"

#include "base/file.h"
#include "support/scratch.h"

#define SUITE(experiments)                                                                         \
    "{\"format\": \"dyno-suite\", \"version\": 1, \"name\": \"mine\", \"experiments\": "           \
    "[" experiments "]}"

static dyno_status read_text(const scratch *made, const char *content, const char *device,
                             suite **out) {
    scratch_write(made, "suite-under-test.json", content, strlen(content));
    return suite_read(scratch_join(made, "suite-under-test.json").text, device, out);
}

static void expect_arguments(const suite_part *part, const char *wanted) {
    char line[512] = "";
    for (int i = 0; i < part->argument_count; i++) {
        strcat(line, i ? " " : "");
        strcat(line, part->arguments[i]);
    }
    assert_string_equal(line, wanted);
}

static void arrays_make_parts_and_first_parts_come_first(void **state) {
    (void)state;
    scratch made = scratch_create();
    suite *s;
    assert_int_equal(
        read_text(
            &made,
            SUITE("{\"name\": \"late\", \"verb\": \"bench\", \"priority\": 7},"
                  "{\"name\": \"one\", \"verb\": \"bench\", \"flags\": {\"model\": [\"a\", \"b\"],"
                  " \"context\": [1, 2], \"breakdown\": true, \"lr\": 0.5, \"wide\": false}},"
                  "{\"name\": \"two\", \"verb\": \"plan\", \"arguments\": [\"x\"],"
                  " \"flags\": {\"batch\": 4}, \"cpu\": {\"batch\": 2}}"),
            "cpu", &s),
        DYNO_OK);
    static const char *const order[] = {"one/part-01", "two",         "one/part-02",
                                        "one/part-03", "one/part-04", "late"};
    assert_int_equal(s->count, 6);
    for (int i = 0; i < 6; i++)
        assert_string_equal(s->parts[i].directory, order[i]);
    expect_arguments(&s->parts[0], "--model a --context 1 --breakdown --lr 0.5");
    expect_arguments(&s->parts[2], "--model a --context 2 --breakdown --lr 0.5");
    expect_arguments(&s->parts[3], "--model b --context 1 --breakdown --lr 0.5");
    expect_arguments(&s->parts[1], "x --batch 2");
    suite_destroy(s);
    scratch_remove(&made);
}

static void what_needs_another_device_is_skipped_with_the_reason(void **state) {
    (void)state;
    scratch made = scratch_create();
    suite *s;
    const char *content = SUITE("{\"name\": \"one\", \"verb\": \"bench\", \"needs\": \"gpu\"}");
    assert_int_equal(read_text(&made, content, "cpu", &s), DYNO_OK);
    assert_int_equal(s->parts[0].status, SUITE_SKIP);
    assert_string_equal(s->parts[0].reason, "needs a GPU");
    suite_destroy(s);
    assert_int_equal(read_text(&made, content, "cuda", &s), DYNO_OK);
    assert_int_equal(s->parts[0].status, SUITE_PENDING);
    suite_destroy(s);
    scratch_remove(&made);
}

static void expect_resumed_as(suite *s, const scratch *made, suite_status wanted) {
    assert_int_equal(suite_resume(s, made->path), DYNO_OK);
    assert_int_equal(s->parts[0].status, wanted);
}

static void write_run(const scratch *made, const char *directory, const char *content) {
    char path[240];
    assert_int_equal(file_make_output_directory(scratch_join(made, directory).text), DYNO_OK);
    snprintf(path, sizeof path, "%.200s/run.json", directory);
    scratch_write(made, path, content, strlen(content));
}

static void finished_parts_are_found_again_and_changed_ones_are_not(void **state) {
    (void)state;
    scratch made = scratch_create();
    suite *s;
    const char *content =
        SUITE("{\"name\": \"one\", \"verb\": \"bench\", \"flags\": {\"context\": [1, 2]}},"
              "{\"name\": \"two\", \"verb\": \"bench\"}");
    assert_int_equal(read_text(&made, content, "cpu", &s), DYNO_OK);
    suite_settle(s, 0, SUITE_OK, "", 1.5);
    suite_settle(s, 1, SUITE_FAILED, "it broke", 1);
    assert_int_equal(suite_write(s, made.path), DYNO_OK);
    suite_destroy(s);
    assert_int_equal(read_text(&made, content, "cpu", &s), DYNO_OK);
    expect_resumed_as(s, &made, SUITE_PENDING); /* what it measured is not there */
    assert_string_equal(s->parts[0].reason, SUITE_RECORD_IS_GONE);
    write_run(&made, s->parts[0].directory, "{\"format\": ");
    assert_int_equal(suite_resume(s, made.path), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "it is measured again"));
    write_run(&made, s->parts[0].directory,
              "{\"format\": \"dyno-run\", \"version\": 1, \"verb\": \"bench\", \"argv\": [], "
              "\"started\": \"\", \"complete\": true, \"planned_cells\": 0, "
              "\"environment\": {}, \"cells\": []}");
    expect_resumed_as(s, &made, SUITE_OK);
    assert_true(s->parts[0].seconds == 1.5);
    assert_int_equal(s->parts[1].status, SUITE_PENDING);
    assert_int_equal(unlink(scratch_join(&made, "suite.json").text), 0);
    assert_int_equal(suite_resume(s, made.path), DYNO_INVALID); /* nothing is measured over it */
    assert_non_null(strstr(dyno_error_message(), "has no suite.json"));
    assert_int_equal(suite_write(s, made.path), DYNO_OK);
    suite_destroy(s);
    content = SUITE("{\"name\": \"one\", \"verb\": \"bench\", \"flags\": {\"context\": [3, 2]}}");
    assert_int_equal(read_text(&made, content, "cpu", &s), DYNO_OK);
    assert_int_equal(suite_resume(s, made.path), DYNO_OK);
    assert_int_equal(s->parts[0].status, SUITE_PENDING);
    s->name = "another";
    assert_int_equal(suite_resume(s, made.path), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "holds the suite 'mine'"));
    suite_destroy(s);
    scratch_remove(&made);
}

/* Whoever reads a study that somebody else made reads nothing outside of it. */
static void runs_of_a_record_are_below_the_study(void **state) {
    (void)state;
    static const struct {
        const char *directory;
        bool is_below;
    } cases[] = {{"one", true},   {"one/part-01", true},       {"../one", false}, {"one/..", false},
                 {"/etc", false}, {"one/part-01/more", false}, {"one//x", false}, {"", false},
                 {"one/", false}, {"One/part", false}};
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        suite *s;
        char record[512];
        snprintf(record, sizeof record,
                 "{\"format\": \"dyno-suite-record\", \"version\": 1, \"name\": \"mine\", "
                 "\"parts\": [{\"name\": \"one\", \"verb\": \"bench\", \"arguments\": [], "
                 "\"directory\": \"%s\", \"status\": \"OK\", \"priority\": 1, \"part\": 0, "
                 "\"parts\": 1}]}",
                 cases[i].directory);
        scratch_write(&made, "suite.json", record, strlen(record));
        assert_int_equal(suite_read_record(made.path, &s) == DYNO_OK, cases[i].is_below);
        if (!cases[i].is_below)
            assert_non_null(strstr(dyno_error_message(), "\"directory\""));
        suite_destroy(s);
    }
    scratch_remove(&made);
}

static void files_that_are_no_suites_say_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *content, *said;
    } cases[] = {
        {"[]", "\"format\""},
        {"{\"format\": \"dyno-suite\", \"version\": 2}", "version 1"},
        {"{\"format\": \"dyno-suite\", \"version\": 1}", "\"name\""},
        {SUITE(""), "\"experiments\""},
        {SUITE("3"), "object"},
        {SUITE("{\"name\": \"../up\", \"verb\": \"bench\"}"), "\"name\""},
        {SUITE("{\"name\": \"a/b\", \"verb\": \"bench\"}"), "\"name\""},
        {SUITE("{\"name\": \"a\"}"), "\"verb\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\"}, {\"name\": \"a\", \"verb\": \"plan\"}"),
         "two experiments have the name 'a'"},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": [1]}"), "\"flags\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": {\"x\": {}}}"), "\"x\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": {\"x\": []}}"), "\"x\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": {\"x\": [[1]]}}"), "\"x\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": {\"out\": \"/etc\"}}"), "--out"},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"priority\": 0}"), "\"priority\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"needs\": \"tpu\"}"), "\"needs\""},
        {SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"arguments\": \"x\"}"), "\"arguments\""},
    };
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        suite *s;
        assert_true(read_text(&made, cases[i].content, "cpu", &s) != DYNO_OK);
        assert_null(s);
        if (!strstr(dyno_error_message(), cases[i].said))
            fail_msg("%s: %s", cases[i].content, dyno_error_message());
    }
    suite *s;
    assert_int_equal(suite_read("systms", "cpu", &s), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "systems"));
    scratch_remove(&made);
}

static void too_many_parts_are_refused_before_they_are_made(void **state) {
    (void)state;
    scratch made = scratch_create();
    suite *s;
    text list = {0}, file = {0};
    for (int i = 0; i < 1000; i++)
        text_format(&list, "%s%d", i ? "," : "", i);
    text_format(&file,
                SUITE("{\"name\": \"a\", \"verb\": \"bench\", \"flags\": {\"x\": [%s], \"y\": [%s],"
                      " \"z\": [%s]}}"),
                list.data, list.data, list.data);
    assert_int_equal(read_text(&made, file.data, "cpu", &s), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "parts at most"));
    text_release(&list);
    text_release(&file);
    scratch_remove(&made);
}

static void every_suite_that_is_compiled_in_can_be_read(void **state) {
    (void)state;
    int count = 0;
    for (const embedded_file *file = EMBEDDED_FILES; file->name; file++) {
        char name[64];
        if (sscanf(file->name, "suites/%63[a-z].json", name) != 1)
            continue;
        static const char *const devices[] = {"cpu", "cuda"};
        for (int i = 0; i < 2; i++) {
            suite *s;
            if (suite_read(name, devices[i], &s) != DYNO_OK)
                fail_msg("%s: %s", file->name, dyno_error_message());
            assert_string_equal(s->name, name);
            suite_destroy(s);
        }
        count++;
    }
    assert_true(count >= 2);
    report_table *list = suite_create_list();
    assert_int_equal(table_row_count(list), count);
    table_destroy(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_make_parts_and_first_parts_come_first),
        cmocka_unit_test(what_needs_another_device_is_skipped_with_the_reason),
        cmocka_unit_test(finished_parts_are_found_again_and_changed_ones_are_not),
        cmocka_unit_test(runs_of_a_record_are_below_the_study),
        cmocka_unit_test(files_that_are_no_suites_say_what_is_wrong),
        cmocka_unit_test(too_many_parts_are_refused_before_they_are_made),
        cmocka_unit_test(every_suite_that_is_compiled_in_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
