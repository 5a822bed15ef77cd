#include "base/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const flag_spec FLAGS[] = {
    {"quick", NULL, FLAG_SWITCH, NULL, .help = "be quick"},
    {"out", "DIR", FLAG_TEXT, NULL, .help = "where to write"},
    {"batch", NULL, FLAG_INTEGER, "4", .help = "sequences", .minimum = 1, .maximum = 1024},
    {"offset", NULL, FLAG_INTEGER, NULL, .help = "any number"},
    {"rate", NULL, FLAG_REAL, "0.5", .help = "a rate", .real_minimum = 0, .real_maximum = 1},
    {"memory", NULL, FLAG_BYTES, NULL, .help = "memory"},
    {"context", NULL, FLAG_INTEGER_LIST, "128,512", .help = "context lengths", .minimum = 1,
     .maximum = 1 << 20},
    {"number", NULL, FLAG_INTEGER_LIST, NULL, .help = "any numbers"},
    {"model", NULL, FLAG_TEXT_LIST, "small", .help = "models"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "format", .choices = "table|md|csv|json"},
    {"pass", NULL, FLAG_CHOICE_LIST, NULL, .help = "passes",
     .choices = "forward|forward+backward|step"},
};

static const flags_example EXAMPLES[] = {{"bench --context 128:1024:*2", "doubles"}};

static const flags_verb VERB = {.name = "bench",
                                .positional = "DIR",
                                .most_positionals = 1,
                                .summary = "Measures things and says how long they took.",
                                FLAGS_TABLE(FLAGS),
                                FLAGS_EXAMPLES(EXAMPLES)};

enum { MOST_ARGUMENTS = 16 };

/* Arguments as one array literal, NULL at the end. */
static dyno_status parse(const char *const *arguments, flags **given) {
    char *argv[MOST_ARGUMENTS] = {(char[]){"bench"}};
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    return flags_parse(&VERB, argc, argv, given);
}
#define PARSE(given, ...) parse((const char *const[]){__VA_ARGS__, NULL}, given)

static void expect_refusal(const char *flag, const char *value, const char *message) {
    flags *given;
    dyno_status status = value ? PARSE(&given, flag, value) : PARSE(&given, flag);
    if (status != DYNO_INVALID || !strstr(dyno_error_message(), message))
        print_error("%s %s: got '%s', wanted '%s'\n", flag, value ? value : "",
                    dyno_error_message(), message);
    assert_int_equal(status, DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), message));
    assert_null(given);
}

static void expect_list(const char *value, int count, const int64_t *wanted) {
    flags *given;
    assert_int_equal(PARSE(&given, "--number", value), DYNO_OK);
    int got;
    const int64_t *items = flags_list(given, "number", &got);
    assert_int_equal(got, count);
    assert_memory_equal(items, wanted, (size_t)count * sizeof *wanted);
    flags_destroy(given);
}
#define EXPECT_LIST(value, ...)                                                                    \
    expect_list(value, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                  \
                (const int64_t[]){__VA_ARGS__})

static void without_arguments_defaults_hold(void **state) {
    (void)state;
    flags *given;
    int count;
    assert_int_equal(parse((const char *const[]){NULL}, &given), DYNO_OK);
    assert_false(flags_switch(given, "quick"));
    assert_null(flags_text(given, "out"));
    assert_int_equal(flags_integer(given, "batch"), 4);
    assert_int_equal(flags_integer(given, "offset"), 0);
    assert_true(flags_real(given, "rate") == 0.5);
    assert_int_equal(flags_bytes(given, "memory"), 0);
    const int64_t *context = flags_list(given, "context", &count);
    assert_int_equal(count, 2);
    assert_int_equal(context[1], 512);
    assert_string_equal(flags_text_list(given, "model", &count)[0], "small");
    assert_string_equal(flags_text(given, "format"), "table");
    flags_text_list(given, "pass", &count);
    assert_int_equal(count, 0);
    assert_false(flags_is_set(given, "batch"));
    assert_int_equal(flags_positional_count(given), 0);
    flags_destroy(given);
}

static void values_follow_a_space_or_an_equals_sign(void **state) {
    (void)state;
    flags *given;
    int count;
    assert_int_equal(PARSE(&given, "--batch", "8", "--rate=0.25", "--quick", "--out=a=b",
                           "--memory", "2GiB", "--offset", "-5", "--pass=step,forward", "dir"),
                     DYNO_OK);
    assert_int_equal(flags_integer(given, "batch"), 8);
    assert_true(flags_real(given, "rate") == 0.25);
    assert_true(flags_switch(given, "quick"));
    assert_string_equal(flags_text(given, "out"), "a=b");
    assert_int_equal(flags_bytes(given, "memory"), INT64_C(2) << 30);
    assert_int_equal(flags_integer(given, "offset"), -5);
    assert_string_equal(flags_text_list(given, "pass", &count)[1], "forward");
    assert_int_equal(count, 2);
    assert_true(flags_is_set(given, "batch"));
    assert_string_equal(flags_positional(given, 0), "dir");
    flags_destroy(given);
}

static void a_given_list_replaces_the_default_list(void **state) {
    (void)state;
    flags *given;
    int count;
    assert_int_equal(PARSE(&given, "--context", "64"), DYNO_OK);
    assert_int_equal(flags_list(given, "context", &count)[0], 64);
    assert_int_equal(count, 1);
    flags_destroy(given);
}

static void two_dashes_end_the_flags(void **state) {
    (void)state;
    flags *given;
    assert_int_equal(PARSE(&given, "--", "--batch"), DYNO_OK);
    assert_string_equal(flags_positional(given, 0), "--batch");
    flags_destroy(given);
    assert_int_equal(PARSE(&given, "-"), DYNO_OK); /* a name like any other */
    assert_string_equal(flags_positional(given, 0), "-");
    flags_destroy(given);
}

static void ranges_count_and_multiply(void **state) {
    (void)state;
    EXPECT_LIST("7", 7);
    EXPECT_LIST("128,512", 128, 512);
    EXPECT_LIST("1:5", 1, 2, 3, 4, 5);
    EXPECT_LIST("1:10:+3", 1, 4, 7, 10);
    EXPECT_LIST("1:11:+3", 1, 4, 7, 10);
    EXPECT_LIST("128:1024:*2", 128, 256, 512, 1024);
    EXPECT_LIST("8..64", 8, 16, 32, 64);
    EXPECT_LIST("1,3..13,5", 1, 3, 6, 12, 5);
    EXPECT_LIST("3:100:*3", 3, 9, 27, 81);
    EXPECT_LIST("-2:1", -2, -1, 0, 1);
    EXPECT_LIST("5:5", 5);
    EXPECT_LIST("1,4:6,9:36:*2,2", 1, 4, 5, 6, 9, 18, 36, 2);
}

static void ranges_stop_at_the_largest_integer(void **state) {
    (void)state;
    EXPECT_LIST("9223372036854775806:9223372036854775807", INT64_MAX - 1, INT64_MAX);
    EXPECT_LIST("4611686018427387904:9223372036854775807:*2", INT64_C(1) << 62);
}

static void bad_lists_are_refused(void **state) {
    (void)state;
    expect_refusal("--number", "", "has an empty item");
    expect_refusal("--number", ",", "has an empty item");
    expect_refusal("--number", "1,", "has an empty item");
    expect_refusal("--number", ",1", "has an empty item");
    expect_refusal("--number", "1,,2", "has an empty item");
    expect_refusal("--number", "1:10:+0", "never ends");
    expect_refusal("--number", "1:10:*1", "never ends");
    expect_refusal("--number", "1:10:*0", "never ends");
    expect_refusal("--number", "1:10:3", "neither +NUMBER nor *NUMBER");
    expect_refusal("--number", "1:10:", "neither +NUMBER nor *NUMBER");
    expect_refusal("--number", "1:10:+-3", "neither +NUMBER nor *NUMBER");
    expect_refusal("--number", "1:10:-3", "neither +NUMBER nor *NUMBER");
    expect_refusal("--number", "1:10:+3:4", "is not a range");
    expect_refusal("--number", "0..8", "must start at 1 or more");
    expect_refusal("--number", "8..4", "ends before it starts");
    expect_refusal("--number", "8..", "''");
    expect_refusal("--number", "1..2..3", "2..3");
    expect_refusal("--number", "10:1", "ends before it starts");
    expect_refusal("--number", "0:10:*2", "must start at 1 or more");
    expect_refusal("--number", "-4:10:*2", "must start at 1 or more");
    expect_refusal("--number", ":", "is not a whole number");
    expect_refusal("--number", "1:", "is not a whole number");
    expect_refusal("--number", ":5", "is not a whole number");
    expect_refusal("--number", "a:b", "is not a whole number");
    expect_refusal("--number", "1 ,2", "is not a whole number");
    expect_refusal("--number", "1:10001", "over 10000 items");
    expect_refusal("--number", "1:9223372036854775807", "over 10000 items");
    expect_refusal("--number", "1:6000,1:6000", "over 10000 items");
    expect_refusal("--number", "99999999999999999999", "does not fit 64 bits");
    expect_refusal("--number", "1:10:+99999999999999999999", "does not fit 64 bits");
    expect_refusal("--context", "0", "--context: 0 is outside 1 to 1048576");
    expect_refusal("--context", "1:2000000", "--context: 2000000 is outside 1 to 1048576");
    expect_refusal("--model", "a,,b", "has an empty item");
    expect_refusal("--pass", "forward,bakward", "'bakward' is not one of");
    flags *given;
    assert_int_equal(PARSE(&given, "--number", "1:10000"), DYNO_OK);
    flags_destroy(given);
}

static void bad_numbers_are_refused(void **state) {
    (void)state;
    static const char *const words[] = {"",    " 4", "4 ",  "+4",   "4.0", "4k",
                                        "0x4", "-",  "--4", "four", "1e3"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        flags *given;
        char joined[32];
        snprintf(joined, sizeof joined, "--batch=%s", words[i]);
        assert_int_equal(PARSE(&given, joined), DYNO_INVALID);
        assert_non_null(strstr(dyno_error_message(), "--batch"));
    }
    expect_refusal("--batch", "0", "--batch: 0 is outside 1 to 1024");
    expect_refusal("--batch", "1025", "--batch: 1025 is outside 1 to 1024");
    expect_refusal("--batch", "-9223372036854775809", "does not fit 64 bits");
    expect_refusal("--rate", "1.5", "--rate: 1.5 is outside 0 to 1");
    expect_refusal("--rate", "-0.1", "is outside 0 to 1");
    expect_refusal("--rate", "nan", "is not a number");
    expect_refusal("--rate", "inf", "is not a number");
    expect_refusal("--rate", "1e999", "is not a number");
    expect_refusal("--rate", "0.5x", "is not a number");
    expect_refusal("--rate", "", "is not a number");
    expect_refusal("--memory", "lots", "--memory: 'lots' is not a size");
    expect_refusal("--memory", "-1GiB", "--memory");
}

static void misuse_is_refused_with_a_way_out(void **state) {
    (void)state;
    expect_refusal("--bach", "4", "did you mean --batch?");
    expect_refusal("--contxt=4", NULL, "did you mean --context?");
    expect_refusal("--hlep", NULL, "did you mean --help?");
    expect_refusal("--zzzzzzzzz", NULL, "see dyno bench --help");
    expect_refusal("-b", "4", "unknown flag '-b'");
    expect_refusal("--=4", NULL, "unknown flag");
    expect_refusal("--batch", NULL, "--batch needs a value");
    expect_refusal("--batch", "--quick", "--batch needs a value");
    expect_refusal("--quick=yes", NULL, "--quick takes no value");
    expect_refusal("--out=", NULL, "--out: the value is empty");
    expect_refusal("--format", "cvs", "did you mean 'csv'?");
    expect_refusal("--format", "spreadsheet", "is not one of table|md|csv|json");
    expect_refusal("--format", "", "is not one of");
    expect_refusal("--format", "table|md", "is not one of");
    expect_refusal("a", "b", "unexpected 'b'");
    flags *given;
    assert_int_equal(PARSE(&given, "--batch", "4", "--batch=4"), DYNO_INVALID);
    assert_string_equal(dyno_error_message(), "--batch is given twice");
    assert_int_equal(PARSE(&given, "--quick", "--quick"), DYNO_INVALID);
}

static void a_missing_positional_is_named(void **state) {
    (void)state;
    flags_verb verb = VERB;
    verb.least_positionals = 1;
    flags *given;
    char *argv[] = {(char[]){"bench"}};
    assert_int_equal(flags_parse(&verb, 1, argv, &given), DYNO_INVALID);
    assert_string_equal(dyno_error_message(), "DIR is missing; see dyno bench --help");
}

static void a_wrong_default_is_found_out(void **state) {
    (void)state;
    static const flag_spec wrong[] = {
        {"batch", NULL, FLAG_INTEGER, "0", .help = "x", .minimum = 1, .maximum = 2}};
    const flags_verb verb = {.name = "v", .summary = "", FLAGS_TABLE(wrong)};
    flags *given;
    char *argv[] = {(char[]){"v"}};
    assert_int_equal(flags_parse(&verb, 1, argv, &given), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "the default of --batch"));
}

static void help_wins_over_everything_else(void **state) {
    (void)state;
    flags *given;
    assert_int_equal(PARSE(&given, "--nonsense", "--batch", "--help"), DYNO_OK);
    assert_true(flags_wants_help(given));
    flags_destroy(given);
    assert_int_equal(PARSE(&given, "-h"), DYNO_OK);
    assert_true(flags_wants_help(given));
    flags_destroy(given);
    assert_int_equal(PARSE(&given, "--", "--help"), DYNO_OK);
    assert_false(flags_wants_help(given));
    flags_destroy(given);
}

#define SETTINGS(given, ...)                                                                       \
    flags_parse_settings(&VERB, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)),       \
                         (const char *const[]){__VA_ARGS__}, given)

static void settings_are_flags_without_dashes(void **state) {
    (void)state;
    flags *given;
    int count;
    assert_int_equal(SETTINGS(&given, "batch=8", "quick", "runs/a", "context=1:3"), DYNO_OK);
    assert_int_equal(flags_integer(given, "batch"), 8);
    assert_true(flags_switch(given, "quick"));
    assert_string_equal(flags_positional(given, 0), "runs/a");
    flags_list(given, "context", &count);
    assert_int_equal(count, 3);
    assert_string_equal(flags_text(given, "format"), "table");
    const char *const *arguments = flags_arguments(given, &count);
    static const char *const typed[] = {"bench", "--batch=8", "--quick", "runs/a", "--context=1:3"};
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++)
        assert_string_equal(arguments[i], typed[i]);
    flags_destroy(given);
}

static void bad_settings_are_refused_as_flags_are(void **state) {
    (void)state;
    static const struct {
        const char *setting, *message;
    } cases[] = {{"batch=0", "--batch: 0 is outside 1 to 1024"},
                 {"batch", "--batch: '' is not a whole number"},
                 {"out", "--out: the value is empty"},
                 {"btach=3", "did you mean --batch?"},
                 {"quick=yes", "--quick takes no value"},
                 {"=", "unknown flag"},
                 {"-h", "unknown flag"},
                 {"--help", "unknown flag"},
                 {"--batch=3", "unknown flag"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flags *given;
        assert_int_equal(SETTINGS(&given, cases[i].setting, "runs/a"), DYNO_INVALID);
        assert_null(given);
        if (!strstr(dyno_error_message(), cases[i].message))
            fail_msg("%s: '%s'", cases[i].setting, dyno_error_message());
    }
}

static void what_a_flag_stands_for_can_be_set(void **state) {
    (void)state;
    flags *given;
    int count;
    assert_int_equal(PARSE(&given, "--batch", "8"), DYNO_OK);
    assert_false(flags_is_set(given, "context"));
    assert_int_equal(flags_set(given, "context", "7"), DYNO_OK);
    const int64_t *contexts = flags_list(given, "context", &count);
    assert_int_equal(count, 1);
    assert_int_equal(contexts[0], 7);
    assert_true(flags_is_set(given, "context"));
    assert_int_equal(flags_set(given, "batch", "0"), DYNO_INVALID);
    flags_destroy(given);
}

static void help_teaches(void **state) {
    (void)state;
    text help = {0};
    flags_append_help(&VERB, 0, &help);
    static const char *const wanted[] = {"usage: dyno bench [DIR] [flags]\n",
                                         "Measures things",
                                         "--batch NUMBER",
                                         "sequences (1 to 1024; default 4)",
                                         "--format table|md|csv|json",
                                         "passes (forward|forward+backward|step)",
                                         "a rate (0 to 1; default 0.5)",
                                         "128:1024:*2 doubles",
                                         "EXAMPLES\n  dyno bench --context 128:1024:*2\n"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_non_null(strstr(text_string(&help), wanted[i]));
    for (const char *line = text_string(&help); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    text_release(&help);
}

/* An example is broken as a shell takes it. */
static void help_fits_a_terminal(void **state) {
    (void)state;
    static const int widths[] = {40, 60, 80, 200};
    static const flags_example examples[] = {
        {"bench --context 128:1024:*2 --warmup 0,1,5 --format csv --pass forward,step",
         "an example that is longer than most terminals are wide, with an effect that is, too"}};
    flags_verb verb = VERB;
    verb.examples = examples;
    verb.example_count = 1;
    for (int i = 0; i < 4; i++) {
        text help = {0};
        flags_append_help(&verb, widths[i], &help);
        for (const char *line = text_string(&help); *line; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= (size_t)widths[i]);
        bool is_broken = strstr(text_string(&help), " \\\n    ") != NULL;
        assert_int_equal(is_broken, widths[i] <= 80);
        text_release(&help);
    }
}

/* ---- flags that others make meaningless ---- */

static const flags_rule RULES[] = {
    {"rate|batch", "quick", "is decided by --quick"},
    {"memory", "!out", "goes with --out"},
    {"number", "format=csv|json&!quick", "is not in files"},
    {"offset", "model=small|tiny", "has no effect on small models"},
    {"^out|pass", "pass=forward", "is not for forwards"},
    {"offset", "flag-of-a-larger-table", "is never refused for a flag that there is not"},
};

static void expect_rule(const char *const *arguments, const char *message) {
    flags_verb verb = VERB;
    char *argv[MOST_ARGUMENTS] = {(char[]){"bench"}};
    int argc = 1;
    flags *given;
    verb.rules = RULES;
    verb.rule_count = (int)(sizeof RULES / sizeof *RULES);
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    dyno_status status = flags_parse(&verb, argc, argv, &given);
    assert_int_equal(status, message ? DYNO_INVALID : DYNO_OK);
    if (message)
        assert_string_equal(dyno_error_message(), message);
    flags_destroy(given);
}
#define EXPECT_RULE(message, ...) expect_rule((const char *const[]){__VA_ARGS__, NULL}, message)

static void flags_without_an_effect_are_refused(void **state) {
    (void)state;
    EXPECT_RULE(NULL, "--rate", "0.2");
    EXPECT_RULE(NULL, "--quick"); /* a default is not ignored: nobody gave it */
    EXPECT_RULE("--rate is decided by --quick", "--rate", "0.2", "--quick");
    EXPECT_RULE("--batch is decided by --quick", "--quick", "--batch", "2");
    EXPECT_RULE("--memory goes with --out", "--memory", "1KiB");
    EXPECT_RULE(NULL, "--memory", "1KiB", "--out", "x");
    EXPECT_RULE(NULL, "--number", "1", "--format", "md");
    EXPECT_RULE("--number is not in files", "--number", "1", "--format", "json");
    EXPECT_RULE(NULL, "--number", "1", "--format", "json", "--quick");
    EXPECT_RULE("--offset has no effect on small models", "--offset", "1"); /* by default */
    EXPECT_RULE("--offset has no effect on small models", "--offset", "1", "--model", "tiny,small");
    EXPECT_RULE(NULL, "--offset", "1", "--model", "small,large");
    EXPECT_RULE("--quick is not for forwards", "--pass", "forward", "--out", "x", "--quick");
    EXPECT_RULE(NULL, "--pass", "forward", "--out", "x");
    EXPECT_RULE(NULL, "--pass", "forward,step", "--quick");
    EXPECT_RULE(NULL, "--quick", "--rate", "0.2", "--help");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_arguments_defaults_hold),
        cmocka_unit_test(values_follow_a_space_or_an_equals_sign),
        cmocka_unit_test(a_given_list_replaces_the_default_list),
        cmocka_unit_test(two_dashes_end_the_flags),
        cmocka_unit_test(ranges_count_and_multiply),
        cmocka_unit_test(ranges_stop_at_the_largest_integer),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(misuse_is_refused_with_a_way_out),
        cmocka_unit_test(a_missing_positional_is_named),
        cmocka_unit_test(a_wrong_default_is_found_out),
        cmocka_unit_test(help_wins_over_everything_else),
        cmocka_unit_test(settings_are_flags_without_dashes),
        cmocka_unit_test(bad_settings_are_refused_as_flags_are),
        cmocka_unit_test(what_a_flag_stands_for_can_be_set),
        cmocka_unit_test(help_teaches),
        cmocka_unit_test(help_fits_a_terminal),
        cmocka_unit_test(flags_without_an_effect_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
