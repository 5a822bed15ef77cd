/* test_cli_record.c - what is left of a run that is killed, interrupted or repeated, by real
 * processes. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "measure/results.h"
#include "support/command.h"
#include "support/scratch.h"

#define MODEL "--d-model 32 --d-ff 64 --layers 1 --heads 2 --vocab 50 --threads 1 --warmup 0 "

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }

/* Starts `dyno ARGUMENTS` with both streams in the file "said". */
static pid_t start(const scratch *made, const char *arguments) {
    char command[2048];
    snprintf(command, sizeof command, "exec '%s' %s --out %s/kept > %s/said 2>&1", DYNO_BINARY,
             arguments, made->path, made->path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Waits until the file is a record with so many finished cells. */
static void wait_for_cells(pid_t child, const scratch *made, const char *name, int64_t cells) {
    scratch_path path = scratch_join(made, name);
    for (int64_t finished = -1; finished < cells; wait_a_little()) {
        results *run;
        int status;
        if (results_read(path.text, &run) == DYNO_OK) {
            finished = results_finished_cells(run);
            results_destroy(run);
        }
        if (finished < cells && waitpid(child, &status, WNOHANG) == child)
            fail_msg("it ended before there were %lld cells in %s", (long long)cells, path.text);
    }
}

static int end(pid_t child, int signal_number) {
    int status;
    assert_int_equal(kill(child, signal_number), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void expect_record(const scratch *made, const char *name, bool is_complete, int64_t least) {
    results *run;
    if (results_read(scratch_join(made, name).text, &run) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    assert_int_equal(run->is_complete, is_complete);
    assert_true(results_finished_cells(run) >= least);
    results_destroy(run);
}

static text read_text(const scratch *made, const char *name) {
    char *bytes;
    size_t size;
    text content = {0};
    assert_int_equal(file_read_all(scratch_join(made, name).text, 1 << 24, &bytes, &size), DYNO_OK);
    text_append_bytes(&content, bytes, size);
    free(bytes);
    return content;
}

/* Grids of many cells, each a moment long. */
static const char *const LONG_RUNS[] = {
    "bench " MODEL "--context 8:207 --pass forward --steps 1000",
    "attention --seq 8:207 --reps 1000 --mode eager --pass forward --threads 1",
    "plan --layers 1 --device cpu --context 8:9000"};

static void a_killed_run_leaves_its_finished_cells(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        scratch made = scratch_create();
        pid_t child = start(&made, LONG_RUNS[i]);
        wait_for_cells(child, &made, "kept/run.json", 2);
        assert_true(WIFSIGNALED(end(child, SIGKILL)));
        expect_record(&made, "kept/run.json", false, 2);
        dyno_expect(0, "incomplete: interrupted after", "show %s/kept", made.path);
        scratch_remove(&made);
    }
}

/* Runs that take hours or a moment, as --steps or --reps is. */
static const struct {
    const char *arguments, *few, *many;
} REPEATED[] = {
    {"bench " MODEL "--context 8,16 --pass forward", "--steps 1", "--steps 1000000"},
    {"attention --seq 8,16 --mode eager --pass forward --threads 1", "--reps 1", "--reps 1000000"},
};

static void an_interrupted_repetition_keeps_the_complete_record(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        scratch made = scratch_create();
        char command[512];
        dyno_expect(0, "", "%s %s --out %s/kept", REPEATED[i].arguments, REPEATED[i].few,
                    made.path);
        text before = read_text(&made, "kept/run.json");
        snprintf(command, sizeof command, "%s %s", REPEATED[i].arguments, REPEATED[i].many);
        pid_t child = start(&made, command);
        wait_for_cells(child, &made, "kept/run.incomplete.json", 0);
        int status = end(child, SIGINT);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 130);
        text after = read_text(&made, "kept/run.json"), said = read_text(&made, "said");
        assert_string_equal(text_string(&before), text_string(&after));
        assert_non_null(strstr(text_string(&said), "run.json' has more and is kept as it was"));
        assert_non_null(strstr(text_string(&said), "kept/run.incomplete.json'"));
        expect_record(&made, "kept/run.incomplete.json", false, 0);
        dyno_expect(0, "incomplete", "show %s/kept/run.incomplete.json", made.path);
        text_release(&after);
        text_release(&said);

        child = start(&made, command);
        wait_for_cells(child, &made, "kept/run.incomplete.json", 0);
        assert_true(WIFSIGNALED(end(child, SIGKILL)));
        after = read_text(&made, "kept/run.json");
        assert_string_equal(text_string(&before), text_string(&after));
        text_release(&before);
        text_release(&after);

        dyno_expect(0, "", "%s %s --out %s/kept", REPEATED[i].arguments, REPEATED[i].few,
                    made.path);
        expect_record(&made, "kept/run.json", true, 2);
        assert_int_equal(access(scratch_join(&made, "kept/run.incomplete.json").text, F_OK), -1);
        scratch_remove(&made);
    }
}

static void force_gives_up_the_complete_record(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", "bench " MODEL "--context 8,16 --pass forward --steps 1 --out %s/kept",
                made.path);
    char command[512];
    snprintf(command, sizeof command, "%s --force", LONG_RUNS[0]);
    pid_t child = start(&made, command);
    wait_for_cells(child, &made, "kept/run.json", 3); /* the old one has 2 */
    int status = end(child, SIGINT);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    expect_record(&made, "kept/run.json", false, 3);
    scratch_remove(&made);
}

static void a_record_of_another_verb_is_not_replaced(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "", "plan --layers 1 --device cpu --context 8,16 --out %s", made.path);
    text before = read_text(&made, "run.json");
    dyno_expect(2, "is the record of `dyno plan`",
                "bench " MODEL "--context 8,16 --pass step --steps 1 --out %s", made.path);
    dyno_expect(2, "is the record of `dyno plan`", "attention --seq 8,16 --reps 1 --out %s",
                made.path);
    text after = read_text(&made, "run.json");
    assert_string_equal(text_string(&before), text_string(&after));
    text_release(&before);
    text_release(&after);
    assert_int_equal(scratch_count(made.path), 1);
    dyno_expect(0, "", "attention --seq 8 --reps 1 --pass forward --force --out %s", made.path);
    expect_record(&made, "run.json", true, 2);
    assert_int_equal(scratch_count(made.path), 1);
    scratch_remove(&made);
}

static void a_pipe_as_the_record_is_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    assert_int_equal(mkfifo(scratch_join(&made, "run.json").text, 0600), 0);
    static const char *const forced[] = {"", "--force"};
    for (int i = 0; i < 2; i++)
        command_expect("timeout", 2, "run.json' is not a regular file",
                       "60 '%s' plan --layers 1 --device cpu %s --out %s", DYNO_BINARY, forced[i],
                       made.path);
    scratch_remove(&made);
}

/* Files may have no byte, and then some: a full disk, at the start and later. */
static void a_full_disk_is_told_once_and_results_are_printed(void **state) {
    (void)state;
    scratch made = scratch_create();
    text output = {0};
    static const char run[] = "trap '' XFSZ; ulimit -f %d; '%s' bench " MODEL
                              "--context 8,16,24,32 --pass forward --steps 1 --out %s 2>&1";
    char command[1024];
    snprintf(command, sizeof command, run, 0, DYNO_BINARY, made.path);
    assert_int_equal(command_run("sh", &output, "-c \"%s\"", command), 1);
    assert_non_null(strstr(text_string(&output), "writing '"));
    assert_null(strstr(text_string(&output), "GFLOP/s"));
    snprintf(command, sizeof command, run, 4, DYNO_BINARY, made.path);
    assert_int_equal(command_run("sh", &output, "-c \"%s\"", command), 1);
    const char *told = strstr(text_string(&output), "the run goes on");
    assert_non_null(told);
    assert_null(strstr(told + 1, "the run goes on"));
    assert_non_null(strstr(text_string(&output), "GFLOP/s"));
    text_release(&output);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_leaves_its_finished_cells),
        cmocka_unit_test(an_interrupted_repetition_keeps_the_complete_record),
        cmocka_unit_test(force_gives_up_the_complete_record),
        cmocka_unit_test(a_record_of_another_verb_is_not_replaced),
        cmocka_unit_test(a_pipe_as_the_record_is_refused),
        cmocka_unit_test(a_full_disk_is_told_once_and_results_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
