/* test_cli_compare.c - `dyno compare` as a user and a CI job run it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/json.h"
#include "measure/keys.h"
#include "measure/results.h"
#include "support/command.h"
#include "support/scratch.h"

#define TINY "--layers 1 --d-model 16 --d-ff 32 --heads 2 --vocab 64 --context 4 --steps 2"

/* A run whose steps take `ms`, in DIRECTORY/NAME. */
static void write_run(const scratch *made, const char *name, const char *verb, double ms) {
    results *run = results_create(verb, 0, NULL);
    run->is_complete = true;
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_PASS, "step");
    cell_set_integer(cell, PARAM_CONTEXT, 128);
    cell_set_status(cell, RESULTS_OK, NULL);
    for (int i = 0; i < 20; i++)
        cell_add_sample(cell, SERIES_STEP, "ns", (int64_t)(ms * 1e6) + 100 * i);
    scratch_path path = scratch_join(made, name);
    char command[600];
    snprintf(command, sizeof command, "mkdir -p '%s'", path.text);
    assert_int_equal(system(command), 0);
    assert_int_equal(results_write(run, path.text), DYNO_OK);
    results_destroy(run);
}

static void exit_codes_tell_a_ci_job_what_to_do(void **state) {
    (void)state;
    scratch made = scratch_create();
    write_run(&made, "a", RUN_BENCH, 10);
    write_run(&made, "slow", RUN_BENCH, 12);
    write_run(&made, "same", RUN_BENCH, 10);
    const char *in = made.path;
    dyno_expect(0, "SAME", "compare %s/a %s/same --between-runs 0", in, in);
    dyno_expect(1, "SLOWER", "compare %s/a %s/slow/run.json", in, in);
    dyno_expect(1, "1 row got worse", "compare %s/a %s/slow", in, in);
    dyno_expect(0, "FASTER", "compare %s/slow %s/a", in, in);
    dyno_expect(0, "SAME", "compare %s/a %s/slow --threshold 30%% --between-runs 0%%", in, in);
    dyno_expect(1, "| SLOWER |", "compare %s/a %s/slow --format md", in, in);
    dyno_expect(1, "SLOWER,1.19998", "compare %s/a %s/slow --format csv", in, in);
    scratch_remove(&made);
}

static void json_has_a_row_for_each_cell(void **state) {
    (void)state;
    scratch made = scratch_create();
    write_run(&made, "a", RUN_BENCH, 10);
    text output = {0};
    json_t *root;
    assert_int_equal(dyno_run(&output, "compare %s/a %s/a --format json", made.path, made.path), 0);
    assert_int_equal(json_parse(text_string(&output), output.length, "output", &root), DYNO_OK);
    assert_int_equal(json_array_size(root), 1);
    const json_t *row = json_array_get(root, 0);
    assert_true(json_number_value(json_object_get(row, "ratio")) == 1);
    json_decref(root);
    text_release(&output);
    scratch_remove(&made);
}

static void rounds_in_a_directory_are_one_side(void **state) {
    (void)state;
    scratch made = scratch_create();
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "a/round-%d", i);
        write_run(&made, name, RUN_BENCH, 10 + 0.01 * i);
        snprintf(name, sizeof name, "b/round-%d", i);
        write_run(&made, name, RUN_BENCH, 11 + 0.01 * i);
    }
    dyno_expect(1, "SLOWER", "compare %s/a %s/b", made.path, made.path);
    dyno_expect(1, "A rounds", "compare %s/a %s/b", made.path, made.path);
    scratch_remove(&made);
}

static void two_commands_are_run_in_turns(void **state) {
    (void)state;
    scratch made = scratch_create();
    const char *in = made.path;
    char command[900];
    snprintf(command, sizeof command, "'%s bench " TINY " --pass step'", DYNO_BINARY);
    text output = {0};
    int code =
        dyno_run(&output, "compare --run %s %s --rounds 3 --out %s/kept", command, command, in);
    assert_true(code == 0 || code == 1); /* what it says depends on the machine */
    assert_non_null(strstr(text_string(&output), "pair by pair"));
    text_release(&output);
    scratch_path kept = scratch_join(&made, "kept/a");
    assert_int_equal(scratch_count(kept.text), 3);
    dyno_expect(2, "is there already", "compare --run %s %s --rounds 2 --out %s/kept", command,
                command, in);
    scratch_remove(&made);
}

static void temporary_rounds_are_removed(void **state) {
    (void)state;
    scratch made = scratch_create();
    char command[900];
    snprintf(command, sizeof command, "'%s bench " TINY " --pass forward'", DYNO_BINARY);
    setenv("TMPDIR", made.path, 1);
    text output = {0};
    int code = dyno_run(&output, "compare --run %s %s --rounds 2", command, command);
    unsetenv("TMPDIR");
    assert_true(code == 0 || code == 1);
    text_release(&output);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

static void bad_input_has_a_clear_answer(void **state) {
    (void)state;
    scratch made = scratch_create();
    const char *in = made.path;
    write_run(&made, "a", RUN_BENCH, 10);
    write_run(&made, "other", RUN_ATTENTION, 10);
    scratch_write(&made, "broken.json", "{\"format\": 3}", 13);
    dyno_expect(2, "nothing to compare", "compare %s/a %s/other", in, in);
    dyno_expect(1, "/nothing", "compare %s/a %s/nothing", in, in);
    dyno_expect(1, "broken.json", "compare %s/a %s/broken.json", in, in);
    scratch_path empty = scratch_join(&made, "empty");
    assert_int_equal(mkdir(empty.text, 0777), 0);
    dyno_expect(1, "holds no run", "compare %s/a %s/empty", in, in);
    dyno_expect(2, "write it like 2%", "compare %s/a %s/a --threshold 2x", in, in);
    dyno_expect(2, "--confidence", "compare %s/a %s/a --confidence 10%%", in, in);
    dyno_expect(2, "goes with --run", "compare %s/a %s/a --rounds 3", in, in);
    dyno_expect(2, "A B", "compare %s/a", in);
    dyno_expect(1, "exit code 1", "compare --run false false");
    dyno_expect(2, "wrote no run.json", "compare --run true true");
    dyno_expect(1, "no-such-program", "compare --run no-such-program true");
    scratch_remove(&made);
}

/* They would refuse the same command when it is given again. */
static void directories_without_a_round_are_removed(void **state) {
    (void)state;
    scratch made = scratch_create();
    for (int i = 0; i < 2; i++)
        dyno_expect(1, "failed with exit code 1", "compare --run false false --out %s/x/y",
                    made.path);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_tell_a_ci_job_what_to_do),
        cmocka_unit_test(json_has_a_row_for_each_cell),
        cmocka_unit_test(rounds_in_a_directory_are_one_side),
        cmocka_unit_test(two_commands_are_run_in_turns),
        cmocka_unit_test(temporary_rounds_are_removed),
        cmocka_unit_test(bad_input_has_a_clear_answer),
        cmocka_unit_test(directories_without_a_round_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
