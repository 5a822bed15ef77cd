/* test_cli_profile.c - `dyno profile` as a user runs it: every format, the full grid, wrong flags, and
 * Ctrl-C. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "measure/keys.h"
#include "measure/profile_check.h"
#include "support/command.h"
#include "support/expect.h"
#include "support/scratch.h"

#define MODEL                                                                                      \
    "profile --d-model 32 --d-ff 64 --layers 2 --heads 2 --vocab 50 --batch 1 "                    \
    "--threads 1 --device cpu "
#define QUICK MODEL "--context 8 --steps 2 "

static void expect_all(const text *output, const char *const *parts) {
    for (; *parts; parts++)
        if (!strstr(text_string(output), *parts))
            fail_msg("no '%s' in:\n%s", *parts, text_string(output));
}

static void a_profile_says_where_the_time_goes(void **state) {
    (void)state;
    static const char *const PARTS[] = {"host / device",
                                        "kernels: ",
                                        "the top kernel of the forward is ",
                                        "the top kernel of the backward is ",
                                        "other than matrix products: ",
                                        "inside attention: ",
                                        "softmax with scale and mask takes ",
                                        "what to speed up next: ",
                                        "above their floors",
                                        "layers.*",
                                        "device time attributed to launches, %",
                                        "of inference and ",
                                        NULL};
    text output = {0};
    assert_int_equal(dyno_run(&output, QUICK), 0);
    expect_all(&output, PARTS);
    assert_null(strstr(text_string(&output), "  NO\n")); /* a check that does not hold */
    text_release(&output);
}

static void a_record_is_shown_as_it_was_printed(void **state) {
    (void)state;
    scratch made = scratch_create();
    text printed = {0}, shown = {0};
    assert_int_equal(dyno_run(&printed, QUICK "--out '%s/run' 2>/dev/null", made.path), 0);
    assert_int_equal(dyno_run(&shown, "show '%s/run'", made.path), 0);
    assert_string_equal(text_string(&shown), text_string(&printed));
    static const char *const FORMATS[] = {"md", "csv", "json"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dyno_run(&shown, "show '%s/run' --format %s", made.path, FORMATS[i]), 0);
        assert_non_null(strstr(text_string(&shown), "attn.softmax"));
    }
    results *run;
    char path[512];
    snprintf(path, sizeof path, "%s/run", made.path);
    expect_ok(results_read(path, &run));
    assert_true(run->is_complete);
    assert_int_equal(run->cell_count, 2);
    for (int i = 0; i < 2; i++) {
        profile_check check = profile_check_cell(run->cells[i]);
        expect_ok(profile_check_enforce(&check));
        static const char *const SERIES[] = {SERIES_STEP, SERIES_TRACED, SERIES_UNTRACED};
        for (int j = 0; j < 3; j++)
            assert_int_equal(cell_find_series(run->cells[i], SERIES[j])->count, 2);
    }
    results_destroy(run);
    text_release(&printed);
    text_release(&shown);
    scratch_remove(&made);
}

static void one_table_can_be_asked_for(void **state) {
    (void)state;
    text output = {0};
    static const char *const WAYS[] = {"kernel", "class", "op", "scope", "phase", "launch"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(
            dyno_run(&output, QUICK "--pass step --by %s --format csv 2>/dev/null", WAYS[i]), 0);
        assert_null(strstr(text_string(&output), "\r\n\r\n"));
        assert_non_null(strstr(text_string(&output), i ? "time ms" : "Total ms"));
    }
    dyno_expect(0, "backward", QUICK "--pass step --by phase --format csv");
    dyno_expect(0, "more rows have", QUICK "--pass forward --by launch --top 1");
    dyno_expect(0, "a line is the sum of the lines below it",
                QUICK "--pass forward --by scope --depth 1");
    text_release(&output);
}

static void every_cell_of_the_grid_is_a_row(void **state) {
    (void)state;
    text output = {0};
    assert_int_equal(dyno_run(&output,
                              MODEL "--steps 1 --context 8,4096 --pass forward,step --memory 2MiB "
                                    "--attention naive,flash"),
                     0);
    static const char *const PARTS[] = {"OOM", "needs ", "SKIP", "flash", " OK ", NULL};
    expect_all(&output, PARTS);
    text_release(&output);
}

static void wrong_flags_are_explained(void **state) {
    (void)state;
    dyno_expect(2, "--by", "profile --by kernels");
    dyno_expect(2, "kernel|class|op|scope|phase|launch", "profile --by kernels");
    dyno_expect(2, "--top", "profile --top -1");
    dyno_expect(2, "--depth", "profile --depth 65");
    dyno_expect(2, "--steps", "profile --steps 0");
    dyno_expect(2, "there is no pass 'sideways'", "profile --pass sideways");
    dyno_expect(2, "'nowhere'", "profile --device nowhere");
    dyno_expect(0, "where the time of a step goes", "profile --help");
}

/* Started with steps for hours, and ended when the first cell is on the disk, or while it traces. */
static void an_interruption_keeps_what_was_profiled(void **state) {
    (void)state;
    scratch made = scratch_create();
    char command[1024];
    snprintf(command, sizeof command,
             "exec '%s' " MODEL "--pass forward --context 8,16 --steps 2000 --out '%s/run' "
             "> '%s/out' 2> '%s/said'",
             DYNO_BINARY, made.path, made.path, made.path);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    scratch_path record = scratch_join(&made, "run/run.json");
    bool is_traced = false;
    for (int64_t since = clock_now_ns();
         !is_traced && clock_now_ns() - since < (int64_t)60 * 1000000000;) {
        char *bytes;
        size_t size;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        if (file_read_all(record.text, 1 << 26, &bytes, &size) == DYNO_OK) {
            is_traced = strstr(bytes, "\"by_kernel\"") != NULL;
            free(bytes);
        }
    }
    assert_int_equal(kill(process, SIGINT), 0);
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(is_traced);
    assert_true(WIFEXITED(status));
    results *run;
    expect_ok(results_read(record.text, &run));
    if (WEXITSTATUS(status) == 130) { /* unless it was done when the signal came */
        assert_false(run->is_complete);
        text shown = {0};
        assert_int_equal(dyno_run(&shown, "show '%s/run'", made.path), 0);
        assert_non_null(strstr(text_string(&shown), "incomplete"));
        text_release(&shown);
    }
    assert_non_null(cell_find_breakdown(run->cells[0], BREAKDOWN_BY_KERNEL));
    results_destroy(run);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_says_where_the_time_goes),
        cmocka_unit_test(a_record_is_shown_as_it_was_printed),
        cmocka_unit_test(one_table_can_be_asked_for),
        cmocka_unit_test(every_cell_of_the_grid_is_a_row),
        cmocka_unit_test(wrong_flags_are_explained),
        cmocka_unit_test(an_interruption_keeps_what_was_profiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
