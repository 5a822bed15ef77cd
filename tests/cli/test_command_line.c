/* Runs the dyno binary as a user does: exit codes, streams, closed pipes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/results.h"
#include "support/skip.h"

enum { ANSWER_BYTES = 65536 };

/* Runs `dyno ARGUMENTS` in a shell, redirections included; both streams unless redirected. */
static int run(const char *arguments, char *answer) {
    char command[1024];
    snprintf(command, sizeof command, "exec 2>&1; '%s' %s", DYNO_BINARY, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = fread(answer, 1, ANSWER_BYTES - 1, pipe);
    answer[got] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect(const char *arguments, int code, const char *message) {
    static char answer[ANSWER_BYTES];
    int got = run(arguments, answer);
    if (got != code || !strstr(answer, message))
        print_error("dyno %s: exit %d, '%s'\n", arguments, got, answer);
    assert_int_equal(got, code);
    assert_non_null(strstr(answer, message));
}

static void help_and_version_are_answers(void **state) {
    (void)state;
    expect("--help 2>/dev/null", 0, "usage: dyno VERB");
    expect("-h", 0, "usage: dyno VERB");
    expect("help", 0, "usage: dyno VERB");
    expect("--version", 0, "dyno " DYNO_VERSION "\n");
    expect("help show", 0, "usage: dyno show DIR");
    expect("show --help", 0, "EXAMPLES");
    expect("doctor --help", 0, "EXAMPLES");
}

static void misuse_exits_with_2_on_stderr(void **state) {
    (void)state;
    expect(">/dev/null", 2, "usage: dyno VERB");
    expect("shwo >/dev/null", 2, "unknown verb 'shwo'; did you mean 'show'?");
    expect("help shwo", 2, "did you mean 'show'?");
    expect("frobnicate", 2, "dyno --help lists them");
    expect("--format csv", 2, "is not a verb");
    expect("''", 2, "unknown verb ''");
    expect("show", 2, "dyno show: DIR is missing");
    expect("show a b", 2, "dyno show: unexpected 'b'");
    expect("show a --format xml", 2, "dyno show: --format: 'xml' is not one of");
    expect("doctor --threads 5000", 2, "dyno doctor: --threads: 5000 is outside 0 to 4096");
}

static void a_run_that_cannot_be_read_exits_with_1(void **state) {
    (void)state;
    expect("show /nowhere", 1, "dyno show: cannot open '/nowhere'");
    expect("show '" DYNO_TEST_DIR "'", 1, "has no run.json");
    expect("show '" DYNO_TEST_DIR "/CMakeLists.txt'", 1, "is not valid JSON");
}

static void output_that_cannot_be_written_is_a_failure(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        SKIP_BECAUSE("there is no /dev/full");
    expect("--help >/dev/full", 1, "dyno: writing to standard output: No space left on device");
    expect("--version >&-", 1, "dyno: writing to standard output");
}

static void a_recorded_run_is_shown_in_every_format(void **state) {
    (void)state;
    char directory[] = "/tmp/dyno-show-XXXXXX", command[128], file[64];
    assert_non_null(mkdtemp(directory));
    results *written = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(written);
    cell_set_text(cell, "model", "small");
    cell_set_text(cell, "pass", "forward");
    for (int i = 1; i <= 3; i++)
        cell_add_sample(cell, "step", "ns", i * 1000000);
    cell_set_status(cell, RESULTS_OK, NULL);
    assert_int_equal(results_write(written, directory), DYNO_OK);
    results_destroy(written);
    static const char *const formats[] = {"table", "md", "csv", "json", "table --plot"};
    static const char *const wanted[] = {"2.00", "| 2.00 |", ",2,", "2000000", "ms per step"};
    for (int i = 0; i < 5; i++) {
        snprintf(command, sizeof command, "show %s --format %s", directory, formats[i]);
        expect(command, 0, wanted[i]);
    }
    snprintf(command, sizeof command, "show %s", directory);
    expect(command, 0, "incomplete: interrupted after 1 of 1 cells");
    snprintf(file, sizeof file, "%s/run.json", directory);
    unlink(file);
    rmdir(directory);
}

static void doctor_sees_the_machine(void **state) {
    (void)state;
    expect("doctor --threads 1 --format csv", 0, "cores available");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version_are_answers),
        cmocka_unit_test(misuse_exits_with_2_on_stderr),
        cmocka_unit_test(a_run_that_cannot_be_read_exits_with_1),
        cmocka_unit_test(output_that_cannot_be_written_is_a_failure),
        cmocka_unit_test(a_recorded_run_is_shown_in_every_format),
        cmocka_unit_test(doctor_sees_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
