/* test_cli_outputs.c - output files that cannot be written are refused before anything runs, by every
 * verb that has one, and nothing is left behind. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/file.h"
#include "support/command.h"
#include "support/scratch.h"
#include <unistd.h>

#define GOLDEN DYNO_TEST_DIR "/golden/tiny"
#define TINY                                                                                       \
    "--d-model 16 --d-ff 32 --layers 1 --heads 2 --vocab 50 --batch 1 --threads 1 --device cpu "   \
    "--context 4 "
#define PROFILE "profile " TINY "--pass forward --steps 1 --peaks none "
#define MEMORY "memory " TINY "--measure "

/* What is shown of a run goes to stdout: nothing was shown, so nothing was run. */
static void expect_refused(int code, const char *part, const char *arguments) {
    text output = {0};
    dyno_expect(code, part, "%s", arguments);
    assert_int_equal(dyno_run(&output, "%s 2>/dev/null", arguments), code);
    if (output.length)
        fail_msg("'%s' printed:\n%s", arguments, text_string(&output));
    text_release(&output);
}

static void an_output_without_a_directory_is_refused_before_anything_runs(void **state) {
    (void)state;
    static const char *const COMMANDS[] = {
        PROFILE "--trace %s/none/step.json",
        PROFILE "--trace %s/none/step.json.gz",
        PROFILE "--trace %s/none/step.json --force",
        MEMORY "--snapshot %s/none/step.pickle",
        MEMORY "--snapshot %s/none/step.pickle --force",
        "step --load " GOLDEN " --tokens " GOLDEN "/tokens.bin --out %s/none/step.safetensors",
        "report " GOLDEN " --out %s/none/study.html",
    };
    scratch made = scratch_create();
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        char arguments[1024], missing[512];
        snprintf(arguments, sizeof arguments, COMMANDS[i], made.path);
        snprintf(missing, sizeof missing, "there is no directory '%s/none'; make it", made.path);
        expect_refused(1, missing, arguments);
    }
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

static void an_output_where_no_file_can_be_made_is_refused_before_anything_runs(void **state) {
    (void)state;
    expect_refused(1, "--trace: cannot write '/proc/step.json': no file can be made in '/proc'",
                   PROFILE "--trace /proc/step.json");
    expect_refused(1, "--snapshot: cannot write '/proc/step.pickle': no file can be made in",
                   MEMORY "--snapshot /proc/step.pickle");
    expect_refused(1, "cannot write '/proc/study.md': no file can be made in '/proc'",
                   "report " GOLDEN " --out /proc/study.md");
    expect_refused(1, "cannot make the output directory '/proc/none'", PROFILE "--out /proc/none");
}

static void what_was_made_for_a_refused_run_is_removed(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(1, "there is no directory", PROFILE "--out %s/a/b/c --trace %s/none/step.json",
                made.path, made.path);
    dyno_expect(1, "there is no directory", MEMORY "--out %s/a/b/ --snapshot %s/none/step.pickle",
                made.path, made.path);
    assert_int_equal(scratch_count(made.path), 0);
    /* What was there before stays, whichever way leads to it. */
    assert_int_equal(mkdir(scratch_join(&made, "kept").text, 0777), 0);
    dyno_expect(1, "there is no directory",
                PROFILE "--out %s/new/../kept --trace %s/none/step.json", made.path, made.path);
    assert_int_equal(access(scratch_join(&made, "kept").text, F_OK), 0);
    scratch_remove(&made);
}

/* The directory of --out is made before the other file is written to it. */
static void an_output_may_be_in_the_directory_of_the_record(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", PROFILE "--out %s/a --trace %s/a/step.json", made.path, made.path);
    assert_int_equal(scratch_count(scratch_join(&made, "a").text), 2);
    dyno_expect(0, "", MEMORY "--out %s/b --snapshot %s/b/step.pickle", made.path, made.path);
    assert_int_equal(scratch_count(scratch_join(&made, "b").text), 2);
    scratch_remove(&made);
}

static void a_report_of_a_record_lies_beside_it(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", "bench " TINY "--steps 1 --pass forward --peaks none --out %s/a", made.path);
    dyno_expect(0, "/a/report.html\n", "report %s/a/run.json", made.path);
    assert_true(file_exists(scratch_join(&made, "a/report.html").text));
    scratch_write(&made, "empty.json", "", 0);
    dyno_expect(1, "empty.json is not valid JSON: it is empty", "report %s/empty.json", made.path);
    dyno_expect(1, "empty.json is not valid JSON: it is empty", "show %s/empty.json", made.path);
    dyno_expect(2, "is not a regular file", "report /dev/null");
    assert_int_equal(scratch_count(made.path), 2);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_without_a_directory_is_refused_before_anything_runs),
        cmocka_unit_test(an_output_where_no_file_can_be_made_is_refused_before_anything_runs),
        cmocka_unit_test(what_was_made_for_a_refused_run_is_removed),
        cmocka_unit_test(an_output_may_be_in_the_directory_of_the_record),
        cmocka_unit_test(a_report_of_a_record_lies_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
