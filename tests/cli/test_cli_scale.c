/* test_cli_scale.c - `dyno scale` as a user runs it: every format, what is measured elsewhere, wrong flags. */
#define _GNU_SOURCE
#include "support/expect.h"

#include "support/command.h"
#include "support/scratch.h"

#define MODEL "--d-model 32 --d-ff 64 --layers 2 --heads 4 --vocab 50 --batch 1 --context 8 "
#define SCALE "scale " MODEL

static void expect_all(const text *output, const char *const *parts) {
    for (; *parts; parts++)
        if (!strstr(text_string(output), *parts))
            fail_msg("no '%s' in:\n%s", *parts, text_string(output));
}

static void every_way_has_a_row_and_a_limit(void **state) {
    (void)state;
    static const char *const PARTS[] = {"memory MiB",
                                        "sent MB",
                                        "collectives ms",
                                        "ddp-flat",
                                        "ddp-bucket:25",
                                        "zero1",
                                        "fsdp+tp",
                                        "on paper",
                                        "tp of 8 ranks: the model has 4 heads",
                                        "450 GB/s inside a node of 8 ranks",
                                        "step time over ranks",
                                        "the most ranks before communication takes longer",
                                        "N = 1 + floor(K W / (2 G C))",
                                        "fsdp+tp:",
                                        "from the plan",
                                        NULL};
    text output = {0};
    assert_int_equal(dyno_run(&output, SCALE "--ranks 2..8 --parallel "
                                             "ddp-flat,ddp-bucket,zero1,fsdp,tp,fsdp+tp:2 "
                                             "--step-tokens 1000000 --inside 450GB/s"),
                     0);
    expect_all(&output, PARTS);
    text_release(&output);
}

/* In ms, of the first row. */
static double compute_ms(int ranks) {
    enum { COMPUTE_COLUMN = 25 };
    text output = {0};
    assert_int_equal(
        dyno_run(&output,
                 "scale --model xl --target h200 --parallel fsdp --ranks %d --format csv "
                 "2>/dev/null",
                 ranks),
        0);
    const char *at = strchr(text_string(&output), '\n');
    for (int i = 0; i < COMPUTE_COLUMN && at; i++)
        at = strchr(at + 1, ',');
    assert_non_null(at);
    double found = strtod(at + 1, NULL);
    text_release(&output);
    return found;
}

/* A block of xl has 8192 x 5000 elements, and parts are multiples of 16: at 8192 ranks there are zeros behind
 * each list. They are copied; the list is not. */
static void zeros_behind_a_list_do_not_cost_as_much_as_the_list(void **state) {
    (void)state;
    double without = compute_ms(4096), with = compute_ms(8192);
    assert_true(without > 0 && with < 1.02 * without);
}

static void a_record_is_shown_as_it_was_printed(void **state) {
    (void)state;
    scratch made = scratch_create();
    text printed = {0}, shown = {0};
    assert_int_equal(dyno_run(&printed, SCALE "--ranks 2,16 --out '%s/run' 2>/dev/null", made.path),
                     0);
    assert_int_equal(dyno_run(&shown, "show '%s/run'", made.path), 0);
    assert_string_equal(text_string(&shown), text_string(&printed));
    static const char *const FORMATS[] = {"md", "csv", "json"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dyno_run(&shown, "show '%s/run' --format %s", made.path, FORMATS[i]), 0);
        assert_non_null(strstr(text_string(&shown), "ddp-bucket:25"));
    }
    assert_non_null(strstr(text_string(&shown), "\"largest_ranks\""));
    assert_non_null(strstr(text_string(&shown), "\"step_ns\""));
    text_release(&printed);
    text_release(&shown);
    scratch_remove(&made);
}

/* Bytes and memory are those of `dyno plan`. */
static void rows_have_the_memory_of_the_plan(void **state) {
    (void)state;
    text output = {0}, planned = {0};
    assert_int_equal(dyno_run(&output,
                              SCALE "--ranks 4 --parallel zero1 --precision fp32 --target h100 "
                                    "--format json | grep -A3 predicted_reserved"),
                     0);
    assert_int_equal(dyno_run(&planned, "plan " MODEL
                                        "--ranks 4 --parallel zero1 --mode compiled --target h100 "
                                        "--format json | grep -A3 '\"reserved_bytes'"),
                     0);
    char *found = strstr(text_string(&output), "value"), *wanted;
    assert_non_null(found);
    wanted = strstr(text_string(&planned), "value");
    assert_non_null(wanted);
    *strchr(wanted, '\n') = '\0';
    assert_memory_equal(found, wanted, strlen(wanted));
    text_release(&output);
    text_release(&planned);
}

static void collectives_can_be_those_that_were_timed(void **state) {
    (void)state;
    scratch made = scratch_create();
    text output = {0};
    assert_int_equal(dyno_run(&output,
                              "allreduce --ranks 2 --bytes 1kB,1MB --reps 2 --op "
                              "all-reduce,all-gather --out '%s/times' 2>/dev/null",
                              made.path),
                     0);
    assert_int_equal(
        dyno_run(&output, SCALE "--ranks 2,4 --from '%s/times' --parallel fsdp,zero1", made.path),
        0);
    dyno_expect(2, "--from measures what --inside says", SCALE "--from '%s/times' --inside 1GB/s",
                made.path);
    dyno_expect(0, "OK", SCALE "--ranks 2 --best --from '%s/times' --parallel ddp-flat", made.path);
    assert_int_equal(dyno_run(&output, SCALE "--ranks 2 --out '%s/scale' 2>/dev/null", made.path),
                     0);
    dyno_expect(2, "has no time of a collective", SCALE "--from '%s/scale'", made.path);
    dyno_expect(1, "nowhere", SCALE "--from '%s/nowhere'", made.path);
    text_release(&output);
    scratch_remove(&made);
}

static void launches_can_be_those_of_a_profile(void **state) {
    (void)state;
    scratch made = scratch_create();
    text output = {0};
    assert_int_equal(dyno_run(&output,
                              "profile " MODEL "--pass step --mode compiled --steps 2 --device cpu "
                              "--out '%s/profile' 2>/dev/null",
                              made.path),
                     0);
    dyno_expect(0, "launches as the profile has them",
                SCALE "--profile '%s/profile' --precision fp32 --target cpu --ranks 1,2 "
                      "--parallel ddp-flat",
                made.path);
    dyno_expect(2, "has no profile of a whole step", SCALE "--profile '%s/profile'", made.path);
    dyno_expect(2, "give one of them", SCALE "--measure --profile '%s/profile'", made.path);
    text_release(&output);
    scratch_remove(&made);
}

static void launches_can_be_measured_here(void **state) {
    (void)state;
    dyno_expect(0, "launches timed here",
                SCALE "--measure --steps 2 --precision fp32 --ranks 1,2,4 --parallel fsdp,zero1");
    dyno_expect(2, "--measure times launches on this machine's CPU",
                SCALE "--measure --target h100");
    dyno_expect(2, "leave one of them out", SCALE "--measure --flops 3");
}

static void wrong_flags_are_named(void **state) {
    (void)state;
    dyno_expect(2, "--inside: '450' is not a bandwidth", SCALE "--inside 450");
    dyno_expect(2, "--across: '50Gb/s' is not a bandwidth", SCALE "--across 50Gb/s");
    dyno_expect(2, "--bandwidth", SCALE "--bandwidth 5");
    dyno_expect(2, "tp and fsdp+tp", SCALE "--parallel pp");
    dyno_expect(2, "2 to 65536 ranks", SCALE "--parallel fsdp+tp:0");
    dyno_expect(2, "--ranks", SCALE "--ranks 0");
    dyno_expect(2, "--ranks", SCALE "--ranks 1..999999");
    dyno_expect(2, "--latency", SCALE "--latency -1");
    dyno_expect(2, "--per-node", SCALE "--per-node 0");
    dyno_expect(2, "there is no target 'abacus'", SCALE "--target abacus");
    dyno_expect(2, "none of the 2 cells can be run as asked", SCALE "--parallel tp --ranks 64,128");
    dyno_expect(2, "can be replayed", SCALE "--accumulate 65536 --ranks 2 --parallel fsdp");
    dyno_expect(2, "flash in mode eager", SCALE "--mode eager --attention flash");
}

static void help_says_what_is_on_paper_only(void **state) {
    (void)state;
    dyno_expect(0, "on paper only", "scale --help");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_has_a_row_and_a_limit),
        cmocka_unit_test(zeros_behind_a_list_do_not_cost_as_much_as_the_list),
        cmocka_unit_test(a_record_is_shown_as_it_was_printed),
        cmocka_unit_test(rows_have_the_memory_of_the_plan),
        cmocka_unit_test(collectives_can_be_those_that_were_timed),
        cmocka_unit_test(launches_can_be_those_of_a_profile),
        cmocka_unit_test(launches_can_be_measured_here),
        cmocka_unit_test(wrong_flags_are_named),
        cmocka_unit_test(help_says_what_is_on_paper_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
