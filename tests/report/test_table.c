#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/plot.h"
#include "report/table.h"

static report_table *example(void) {
    report_table *table = table_create("times");
    table_add_column(table, "model", "model", TABLE_LEFT);
    table_add_column(table, "count", "count", TABLE_RIGHT);
    table_add_column(table, "mean_ms", "mean ms", TABLE_RIGHT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    table_add_row(table);
    table_add_text(table, "small");
    table_add_integer(table, 7);
    table_add_real(table, 12.3456, 2);
    table_add_row(table);
    table_add_text(table, "a,b|\"c\"");
    table_add_empty(table);
    table_add_real(table, NAN, 2);
    table_add_text(table, "two\nlines");
    table_add_note(table, "note %d %%", 1);
    return table;
}

static void expect(table_format format, bool is_bold, const char *wanted) {
    report_table *table = example();
    text out = {0};
    table_render(table, format, is_bold, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
    table_destroy(table);
}

static void a_terminal_gets_aligned_columns(void **state) {
    (void)state;
    expect(TABLE_TERMINAL, false,
           "times\n"
           "model    count  mean ms  note\n"
           "small        7    12.35\n"
           "a,b|\"c\"                  two lines\n"
           "note 1 %\n");
}

static void only_the_header_is_bold(void **state) {
    (void)state;
    report_table *table = example();
    text out = {0};
    table_render(table, TABLE_TERMINAL, true, &out);
    assert_non_null(strstr(text_string(&out), "\033[1mmodel    count  mean ms  note\033[0m\n"));
    text_release(&out);
    table_destroy(table);
}

static void markdown_escapes_its_own_characters(void **state) {
    (void)state;
    expect(TABLE_MARKDOWN, true,
           "**times**\n\n"
           "| model | count | mean ms | note |\n"
           "|:---|---:|---:|:---|\n"
           "| small | 7 | 12.35 |  |\n"
           "| a,b\\|\"c\" |  |  | two lines |\n"
           "\nnote 1 %\n");
}

static void csv_quotes_as_rfc_4180_says(void **state) {
    (void)state;
    expect(TABLE_CSV, true,
           "model,count,mean ms,note\r\n"
           "small,7,12.3456,\r\n"
           "\"a,b|\"\"c\"\"\",,,\"two\nlines\"\r\n");
}

static void json_has_numbers_as_numbers(void **state) {
    (void)state;
    report_table *table = example();
    text out = {0};
    table_render(table, TABLE_JSON, true, &out);
    json_t *root = json_loads(text_string(&out), 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(root), 2);
    const json_t *row = json_array_get(root, 0);
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 7);
    assert_true(json_real_value(json_object_get(row, "mean_ms")) == 12.3456);
    assert_true(json_is_null(json_object_get(row, "note")));
    row = json_array_get(root, 1);
    assert_string_equal(json_string_value(json_object_get(row, "model")), "a,b|\"c\"");
    assert_true(json_is_null(json_object_get(row, "mean_ms")));
    json_decref(root);
    text_release(&out);
    table_destroy(table);
}

static void csv_and_json_keep_every_digit(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_column(table, "x", "x", TABLE_RIGHT);
    table_add_row(table);
    table_add_real(table, 1.0 / 3, 1);
    table_add_row(table);
    table_add_real(table, 0.1, 1);
    text out = {0};
    table_render(table, TABLE_CSV, false, &out);
    assert_string_equal(text_string(&out), "x\r\n0.3333333333333333\r\n0.1\r\n");
    text_release(&out);
    table_destroy(table);
}

static void what_is_shown_as_zero_has_no_sign(void **state) {
    (void)state;
    report_table *table = table_create("costs");
    table_add_column(table, "percent", "%", TABLE_RIGHT);
    static const double VALUES[] = {-0.04, -0.0, -0.06};
    for (int i = 0; i < 3; i++) {
        table_add_row(table);
        table_add_real(table, VALUES[i], 1);
    }
    text out = {0};
    table_render(table, TABLE_TERMINAL, false, &out);
    assert_string_equal(text_string(&out), "costs\n   %\n 0.0\n 0.0\n-0.1\n");
    text_release(&out);
    table_destroy(table);
}

static void an_empty_table_is_still_valid(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_column(table, "x", "x", TABLE_RIGHT);
    text out = {0};
    table_render(table, TABLE_JSON, false, &out);
    table_render(table, TABLE_CSV, false, &out);
    table_render(table, TABLE_TERMINAL, false, &out);
    assert_string_equal(text_string(&out), "[]\nx\r\nx\n");
    text_release(&out);
    table_destroy(table);
}

static void escape_sequences_never_reach_the_terminal(void **state) {
    (void)state;
    report_table *table = table_create("t\033[2J");
    table_add_column(table, "x", "x", TABLE_LEFT);
    table_add_row(table);
    table_add_text(table, "\033]0;evil\a \xc2\x9b tab\there \xc3\xa9");
    text out = {0};
    table_render(table, TABLE_TERMINAL, false, &out);
    table_render(table, TABLE_MARKDOWN, false, &out);
    assert_null(strpbrk(text_string(&out), "\033\a\t"));
    assert_null(strstr(text_string(&out), "\xc2\x9b"));
    assert_non_null(strstr(text_string(&out), "\xc3\xa9"));
    text_release(&out);
    table_destroy(table);
}

static void text_that_is_not_utf8_still_gives_valid_json(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_column(table, "x", "x", TABLE_LEFT);
    table_add_row(table);
    table_add_text(table, "caf\xe9");
    text out = {0};
    table_render(table, TABLE_JSON, false, &out);
    json_t *root = json_loads(text_string(&out), 0, NULL);
    assert_non_null(root);
    json_decref(root);
    text_release(&out);
    table_destroy(table);
}

static void a_rule_stands_above_the_total(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_column(table, "x", "xyz", TABLE_RIGHT);
    table_add_row(table);
    table_add_integer(table, 1);
    table_add_rule(table);
    table_add_row(table);
    table_add_integer(table, 2);
    text out = {0};
    table_render(table, TABLE_TERMINAL, false, &out);
    assert_string_equal(text_string(&out), "xyz\n  1\n---\n  2\n");
    text_release(&out);
    table_destroy(table);
}

static void formats_are_known_by_name(void **state) {
    (void)state;
    table_format format;
    assert_int_equal(table_format_parse("csv", &format), DYNO_OK);
    assert_int_equal(format, TABLE_CSV);
    assert_int_equal(table_format_parse("xml", &format), DYNO_INVALID);
}

static void bars_are_as_long_as_their_values(void **state) {
    (void)state;
    const plot_bar bars[] = {{"matmul", 10}, {"softmax", 5}, {"none", -1}, {"nan", NAN}};
    text out = {0};
    plot_bars(&out, bars, 4, 10, 0, "ms");
    assert_string_equal(text_string(&out), "  matmul   ##########     10.000 ms\n"
                                           "  softmax  #####           5.000 ms\n"
                                           "  none                    -1.000 ms\n"
                                           "  nan                \n");
    text_release(&out);
}

static void a_line_shows_every_spike(void **state) {
    (void)state;
    double values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = 1;
    values[777] = 9;
    text out = {0};
    plot_line(&out, values, 1000, 10, 50, 5, "ms");
    const char *first_line = text_string(&out);
    const char *star = strchr(first_line, '*');
    assert_non_null(star);
    assert_true(star < strchr(first_line, '\n')); /* the spike is in the top row */
    assert_non_null(strchr(first_line, 'w'));
    text_release(&out);
}

static void plots_of_nothing_and_of_no_numbers_are_harmless(void **state) {
    (void)state;
    const double values[] = {NAN, INFINITY, -INFINITY}, same[] = {3, 3}, wide[] = {-1e308, 1e308};
    text out = {0};
    plot_line(&out, NULL, 0, 0, 10, 4, "ms");
    plot_line(&out, values, 3, 0, 10, 4, "ms");
    plot_bars(&out, NULL, 0, 10, 0, "ms");
    assert_int_equal(out.length, 0);
    plot_line(&out, same, 2, 0, 10, 1, "ms");
    plot_line(&out, wide, 2, 0, 10, 4, "ms");
    text_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_aligned_columns),
        cmocka_unit_test(only_the_header_is_bold),
        cmocka_unit_test(markdown_escapes_its_own_characters),
        cmocka_unit_test(csv_quotes_as_rfc_4180_says),
        cmocka_unit_test(json_has_numbers_as_numbers),
        cmocka_unit_test(csv_and_json_keep_every_digit),
        cmocka_unit_test(what_is_shown_as_zero_has_no_sign),
        cmocka_unit_test(an_empty_table_is_still_valid),
        cmocka_unit_test(escape_sequences_never_reach_the_terminal),
        cmocka_unit_test(text_that_is_not_utf8_still_gives_valid_json),
        cmocka_unit_test(a_rule_stands_above_the_total),
        cmocka_unit_test(formats_are_known_by_name),
        cmocka_unit_test(bars_are_as_long_as_their_values),
        cmocka_unit_test(a_line_shows_every_spike),
        cmocka_unit_test(plots_of_nothing_and_of_no_numbers_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
