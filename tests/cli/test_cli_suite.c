/* test_cli_suite.c - `dyno suite`: parts are run, kept, gone on with after Ctrl-C and kill -9. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "support/command.h"
#include "support/scratch.h"

#define TINY                                                                                       \
    "\"layers\": 1, \"d-model\": 16, \"d-ff\": 32, \"heads\": 2, \"vocab\": 64, \"steps\": 2"

static const char SUITE[] =
    "{\"format\": \"dyno-suite\", \"version\": 1, \"name\": \"mine\", \"title\": \"Mine\","
    " \"experiments\": ["
    "{\"name\": \"steps\", \"verb\": \"bench\", \"flags\": {" TINY
    ", \"pass\": \"step\", \"context\": [4, 8]}},"
    "{\"name\": \"impossible\", \"verb\": \"bench\", \"flags\": {" TINY
    ", \"mode\": \"eager\", \"attention\": \"flash\"}},"
    "{\"name\": \"other\", \"verb\": \"bench\", \"needs\": \"gpu\"},"
    "{\"name\": \"sums\", \"verb\": \"precision\", \"arguments\": [\"accumulation\"]}]}";

#define BEGIN_LONG                                                                                 \
    "{\"format\": \"dyno-suite\", \"version\": 1, \"name\": \"long\", \"experiments\": ["
#define SLOW_PART                                                                                  \
    "{\"name\": \"slow\", \"verb\": \"bench\", \"priority\": 2, \"flags\": {\"layers\": 2, "       \
    "\"d-model\": 64,"                                                                             \
    " \"d-ff\": 64, \"heads\": 2, \"vocab\": 64, \"steps\": 1000000, \"context\": 64}}]}"

/* Whose last part, or only one, takes minutes. */
static const char LONG[] = BEGIN_LONG "{\"name\": \"quick\", \"verb\": \"bench\", \"priority\": 1, "
                                      "\"flags\": {" TINY ", \"context\": 4}}," SLOW_PART;
static const char SLOW[] = BEGIN_LONG SLOW_PART;

static void parts_are_run_and_every_skip_has_its_reason(void **state) {
    (void)state;
    scratch made = scratch_create();
    const char *in = made.path;
    scratch_write(&made, "mine.json", SUITE, sizeof SUITE - 1);
    text output = {0};
    assert_int_equal(
        dyno_run(&output, "suite %s/mine.json --device cpu --out %s/study --format csv", in, in),
        0);
    assert_non_null(strstr(text_string(&output), "attention flash in mode eager"));
    assert_non_null(strstr(text_string(&output), "needs a GPU"));
    text_release(&output);
    assert_true(file_exists(scratch_join(&made, "study/steps/part-01/run.json").text));
    assert_true(file_exists(scratch_join(&made, "study/steps/part-02/run.json").text));
    assert_true(file_exists(scratch_join(&made, "study/sums/run.json").text));
    dyno_expect(0, "3 of 5 parts are done, 1 skipped, 0 failed, 1 to be run",
                "suite %s/mine.json --device cpu --out %s/study --dry-run", in, in);
    /* Parts of an experiment are one run. */
    dyno_expect(0, "     8", "show %s/study/steps", in);
    dyno_expect(0, "     4", "show %s/study/steps", in);
    dyno_expect(2, "several verbs", "show %s/study", in);
    scratch_remove(&made);
}

/* `experiment` behind one that would be run first. */
static void expect_mistake(const char *experiment, const char *message) {
    scratch made = scratch_create();
    text suite = {0};
    text_format(
        &suite,
        "{\"format\": \"dyno-suite\", \"version\": 1, \"name\": \"mine\", \"experiments\": ["
        "{\"name\": \"good\", \"verb\": \"precision\", \"priority\": 1}, %s]}",
        experiment);
    scratch_write(&made, "mine.json", suite.data, suite.length);
    dyno_expect(2, message, "suite %s/mine.json --device cpu --out %s/study", made.path, made.path);
    dyno_expect(2, message, "suite %s/mine.json --device cpu --out %s/study --dry-run", made.path,
                made.path);
    assert_int_equal(scratch_count(made.path), 1); /* no study: nothing was run */
    text_release(&suite);
    scratch_remove(&made);
}

static void a_mistake_in_the_file_is_found_before_anything_runs(void **state) {
    (void)state;
    expect_mistake(
        "{\"name\": \"wrong\", \"verb\": \"bench\", \"flags\": {\"contxt\": 4}}",
        "experiment 'wrong' (dyno bench): unknown flag '--contxt'; did you mean --context?");
    expect_mistake(
        "{\"name\": \"wrong\", \"verb\": \"bnch\"}",
        "experiment 'wrong' (dyno bnch): there is no verb 'bnch' that measures; did you mean "
        "'bench'?");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"teleport\"}", "there is no verb 'teleport'");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"bench\", \"gpu\": {\"stpes\": 4}}",
                   "did you mean --steps?"); /* also where there is no GPU */
    expect_mistake(
        "{\"name\": \"wrong\", \"verb\": \"bench\", \"needs\": \"gpu\", \"flags\": {\"x\": "
        "true}}",
        "unknown flag '--x'");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"bench\", \"flags\": {\"mode\": \"egaer\"}}",
                   "--mode: 'egaer' is not one of eager|compiled; did you mean 'eager'?");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"bench\", \"flags\": {\"device\": \"cpu\"}}",
                   "--device is what dyno suite gives each part");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"precision\", \"arguments\": [\"a\", \"b\"]}",
                   "unexpected 'b'");
    expect_mistake(
        "{\"name\": \"wrong\", \"verb\": \"bench\", \"flags\": {\"model\": \"small,smal\"}}",
        "no preset is called 'smal'");
    expect_mistake("{\"name\": \"wrong\", \"verb\": \"bench\", \"flgs\": {\"context\": 4}}",
                   "experiment 2: there is no field \"flgs\"; did you mean \"flags\"?");
}

static void a_dry_run_writes_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_expect(0, "to be run", "suite systems --device cpu --dry-run --out %s/study", made.path);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

static void expect_holds(const scratch *made, const char *name, const char *wanted) {
    static char content[1 << 20];
    FILE *file = fopen(scratch_join(made, name).text, "rb");
    assert_non_null(file);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(content, wanted));
}

/* Runs a suite, sends `number` to it when its part "slow" has begun, returns how it ended. */
static int signal_study(const scratch *made, const char *suite, int number) {
    scratch_path file = scratch_join(made, "long.json"), study = scratch_join(made, "study"),
                 running = scratch_join(made, "study/slow/run.json");
    scratch_write(made, "long.json", suite, strlen(suite));
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(1);
        execl(DYNO_BINARY, "dyno", "suite", file.text, "--device", "cpu", "--out", study.text,
              (char *)NULL);
        _exit(127);
    }
    const struct timespec moment = {.tv_nsec = 50000000};
    for (int i = 0; i < 1200 && !file_exists(running.text); i++)
        nanosleep(&moment, NULL);
    assert_true(file_exists(running.text));
    kill(child, number);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    return code;
}

/* The first part is done by then, however slow the machine is: the budget is the second one's. */
static void ctrl_c_and_a_budget_keep_what_is_finished(void **state) {
    (void)state;
    scratch made = scratch_create();
    int code = signal_study(&made, LONG, SIGINT);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 130);
    dyno_expect(0, "1 of 2 parts are done",
                "suite %s/long.json --device cpu --out %s/study --dry-run", made.path, made.path);
    /* Nothing is left for others, so that the part was not stopped for them; it is still to be run. */
    dyno_expect(0, "the budget was used up after",
                "suite %s/long.json --device cpu --out %s/study --budget 5s", made.path, made.path);
    dyno_expect(0, "0 skipped, 0 failed, 1 to be run",
                "suite %s/long.json --device cpu --out %s/study --budget 3s", made.path, made.path);
    dyno_expect(0, "x.md", "report %s/study -o %s/x.md", made.path, made.path);
    expect_holds(&made, "x.md", "Not run: PENDING: the budget was used up after");
    dyno_expect(0, "1 of 2 parts are done",
                "suite %s/long.json --device cpu --out %s/study --dry-run", made.path, made.path);
    scratch_remove(&made);
}

/* The record knows of the first part before it is done. */
static void the_record_is_there_from_the_beginning(void **state) {
    (void)state;
    scratch made = scratch_create();
    int code = signal_study(&made, SLOW, SIGKILL);
    assert_true(WIFSIGNALED(code));
    expect_holds(&made, "study/suite.json", "begun and not finished");
    scratch_remove(&made);
}

static void kill_9_loses_the_part_that_was_running_only(void **state) {
    (void)state;
    scratch made = scratch_create();
    int code = signal_study(&made, LONG, SIGKILL);
    assert_true(WIFSIGNALED(code));
    /* The part dies with it, if not in the same moment: its directory can be written to again. */
    const struct timespec moment = {.tv_nsec = 100000000};
    enum { MOST_TRIES = 100 };
    text said = {0};
    int tries = 0;
    while (dyno_run(&said,
                    "bench --layers 1 --d-model 16 --heads 2 --d-ff 32 --vocab 64 --context 4 "
                    "--steps 1 --force --out %s/study/slow",
                    made.path) != 0 &&
           tries++ < MOST_TRIES) {
        assert_non_null(strstr(text_string(&said), "another run is writing its record"));
        nanosleep(&moment, NULL);
    }
    assert_true(tries < MOST_TRIES);
    text_release(&said);
    scratch_remove(&made);
}

static void bad_input_has_a_clear_answer(void **state) {
    (void)state;
    scratch made = scratch_create();
    const char *in = made.path;
    dyno_expect(2, "there is no suite 'systms'; did you mean 'systems'? There are quick",
                "suite systms --device cpu --out %s/x", in);
    dyno_expect(2, "--out", "suite systems --device cpu");
    dyno_expect(2, "20min", "suite systems --device cpu --out %s/x --budget soon", in);
    dyno_expect(2, "--budget", "suite systems --device cpu --out %s/x --budget 0", in);
    dyno_expect(1, "cannot open", "suite %s/none.json --device cpu --out %s/x", in, in);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_run_and_every_skip_has_its_reason),
        cmocka_unit_test(a_mistake_in_the_file_is_found_before_anything_runs),
        cmocka_unit_test(a_dry_run_writes_nothing),
        cmocka_unit_test(ctrl_c_and_a_budget_keep_what_is_finished),
        cmocka_unit_test(the_record_is_there_from_the_beginning),
        cmocka_unit_test(kill_9_loses_the_part_that_was_running_only),
        cmocka_unit_test(bad_input_has_a_clear_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
