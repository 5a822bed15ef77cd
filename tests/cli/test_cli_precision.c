/* test_cli_precision.c - `dyno precision` in every format, and what it refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "base/json.h"
#include "support/command.h"

static void sums_are_those_of_the_write_up(void **state) {
    (void)state;
    const char *const sums[] = {"10.0001", "9.9531", "10.0021", "4.0000", "10.0098"};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        dyno_expect(0, sums[i], "precision accumulation");
    dyno_expect(0, "100 x 2 = 200", "precision accumulation --terms 100 --term 2");
    dyno_expect(0, "| fp16 | f16 | f16 | 9.9531 |", "precision accumulation --format md");
    dyno_expect(0, "fp16,f16,f16,9.953125,", "precision accumulation --format csv");
}

static void types_are_those_that_were_executed(void **state) {
    (void)state;
    dyno_expect(0, "fc1 output,f32,f16,bf16\r\n", "precision policy --format csv");
    dyno_expect(0, "LayerNorm output,f32,f32,f32\r\n", "precision policy --format csv");
    dyno_expect(0, "gradients,f32,f32,f32\r\n", "precision policy --format csv");
}

static void both_parts_make_one_object(void **state) {
    (void)state;
    text output = {0};
    json_t *root;
    assert_int_equal(dyno_run(&output, "precision --format json 2>/dev/null"), 0);
    assert_int_equal(json_parse(text_string(&output), output.length, "output", &root), DYNO_OK);
    assert_int_equal(json_array_size(json_object_get(root, "accumulation")), 7);
    assert_int_equal(json_array_size(json_object_get(root, "policy")), 8);
    json_decref(root);
    text_release(&output);
}

static void help_has_examples_and_mistakes_an_answer(void **state) {
    (void)state;
    dyno_expect(0, "dyno precision policy --format md", "precision --help");
    dyno_expect(2, "did you mean 'policy'?", "precision polcy");
    dyno_expect(2, "terms", "precision --terms 0");
    dyno_expect(2, "format", "precision --format xml");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_write_up),
        cmocka_unit_test(types_are_those_that_were_executed),
        cmocka_unit_test(both_parts_make_one_object),
        cmocka_unit_test(help_has_examples_and_mistakes_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
