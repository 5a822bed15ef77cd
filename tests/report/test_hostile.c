/* test_hostile.c - a run.json that somebody sent: what it says reaches no terminal, spreadsheet or page
 * as anything but text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/printable.h"
#include "measure/keys.h"
#include "measure/results_json.h"
#include "report/view.h"

/* Escape sequences, C1, a carriage return, an override of direction; formulas; Markdown and HTML. */
#define ESCAPES                                                                                    \
    "\033[2J\033]0;t\a\xc2\x9b"                                                                    \
    "31m\r\b\x7f\xe2\x80\xae"
static const char *const HOSTILE[] = {
    "=HYPERLINK(\"http://evil\",\"x\")" ESCAPES,
    "@SUM(1)",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "\t=1",
    "\r=1",
    " =1",
    "a;=1",
    "a\"\n=1,b",
    "\xef\xbc\x9d"
    "1",
    "<img src=x onerror=alert(1)>|`x`|",
    "![x](http://evil/x.png) &lt;b&gt; **bold** ~~gone~~",
    "# heading\n- item",
};
enum { HOSTILE_COUNT = sizeof HOSTILE / sizeof *HOSTILE };

static void add_hostile_cell(results *run, int which, results_status status) {
    const char *evil = HOSTILE[which];
    results_cell *cell = results_add_cell(run);
    static const char *const known[] = {PARAM_MODEL, PARAM_PASS, PARAM_MODE,    PARAM_MATH,
                                        PARAM_PART,  PARAM_ITEM, PARAM_VALUE,   PARAM_NOTE,
                                        PARAM_IMPL,  PARAM_TILE, PARAM_PEAK_AT, PARAM_FITS_WITH,
                                        PARAM_WAY};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        cell_set_text(cell, known[i], evil);
    cell_set_text(cell, evil, evil);
    cell_set_status(cell, status, evil);
    cell_set_metric(cell, evil, evil, 1);
    cell_add_sample(cell, SERIES_STEP, "ns", 1000000);
    cell_add_sample(cell, evil, evil, 1);
    const results_column columns[] = {{COLUMN_TIME, "ns"}, {evil, evil}};
    const results_value values[] = {results_integer(1000), results_integer(2)};
    const char *keys[] = {evil};
    breakdown_add_row(cell_add_breakdown(cell, evil, keys, 1, columns, 2), keys, values);
}

static results *hostile_run(const char *verb) {
    static const char *const argv[] = {"--detail"};
    results *run = results_create(verb, 1, argv);
    results_set_environment_text(run, ENV_CPU, HOSTILE[0]);
    results_set_environment_text(run, ENV_VERDICT, HOSTILE[12]);
    for (int i = 0; i < HOSTILE_COUNT; i++) {
        add_hostile_cell(run, i, RESULTS_OK);
        add_hostile_cell(run, i, RESULTS_FAILED);
    }
    return run;
}

static void render_at(const char *verb, table_format format, int columns, text *out) {
    results *run = hostile_run(verb);
    view_render(run, (view_options){.format = format, .has_plots = true, .columns = columns}, out);
    results_destroy(run);
    assert_true(out->length > 0);
}

static void render(const char *verb, table_format format, text *out) {
    render_at(verb, format, 0, out);
}

/* `controls` are those that the format itself has. */
static void expect_harmless(const char *shown, const char *controls) {
    for (const char *p = shown; *p;) {
        code_point found = printable_first(p);
        if (!found.is_harmless && !strchr(controls, *p))
            fail_msg("byte 0x%02x in: %.60s", (unsigned char)*p, p);
        p += found.bytes;
    }
}

static void for_every_view(void (*check)(const char *verb)) {
    const registered_view *view = REGISTERED_VIEWS;
    for (; view->verb; view++)
        check(view->verb);
    check("another");
}

static void check_terminal(const char *verb) {
    text out = {0};
    render(verb, TABLE_TERMINAL, &out);
    expect_harmless(text_string(&out), "\n");
    text_release(&out);
    render_at(verb, TABLE_TERMINAL, 80, &out);
    expect_harmless(text_string(&out), "\n");
    for (const char *line = text_string(&out); *line; line += strcspn(line, "\n") + 1)
        assert_true(printable_width_of(line, strcspn(line, "\n")) <= 80);
    text_release(&out);
}

static void a_terminal_gets_no_control_characters(void **state) {
    (void)state;
    for_every_view(check_terminal);
}

/* Whether a spreadsheet would take it for a formula. */
static void expect_no_formula(const char *field) {
    char *end;
    double ignored = strtod(field, &end);
    (void)ignored;
    bool is_number = end != field && !*end;
    const char *begin = field + strspn(field, " \t\r\n");
    if (!is_number && (strchr("=+-@", *begin) != NULL) && *begin)
        fail_msg("a formula: %s", field);
    assert_int_not_equal(strncmp(begin, "\xef\xbc\x9d", 3), 0);
}

/* Fields by RFC 4180, or, as other locales split, at semicolons and tabs. */
static void check_fields(const char *csv, const char *separators) {
    text field = {0};
    bool is_quoted = false, was_quoted = false;
    text_append(&field, "");
    for (const char *p = csv; *p; p++) {
        if (is_quoted && *p == '"' && p[1] == '"') {
            text_append(&field, "\"");
            p++;
        } else if (*p == '"') {
            if (!is_quoted)
                assert_true(field.length == 0 && !was_quoted); /* quotes begin a field */
            was_quoted = is_quoted;
            is_quoted = !is_quoted;
        } else if (!is_quoted && (strchr(separators, *p) || strchr("\r\n", *p))) {
            expect_no_formula(text_string(&field));
            field.length = 0;
            field.data[0] = '\0';
            was_quoted = false;
        } else {
            assert_false(was_quoted); /* and end it */
            text_append_bytes(&field, p, 1);
        }
    }
    assert_false(is_quoted);
    text_release(&field);
}

static void check_csv(const char *verb) {
    text out = {0};
    render(verb, TABLE_CSV, &out);
    expect_harmless(text_string(&out), "\r\n\t");
    /* Carriage returns end rows and stand nowhere else. */
    for (const char *p = text_string(&out); (p = strchr(p, '\r')); p++)
        assert_int_equal(p[1], '\n');
    check_fields(text_string(&out), ",");
    text_release(&out);
}

static void csv_has_no_formulas_and_no_control_characters(void **state) {
    (void)state;
    for_every_view(check_csv);
}

static void csv_keeps_numbers_and_marks_formulas(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"-1.5e+3", "-1.5e+3"},
        {"+7", "+7"},
        {"-.5", "-.5"},
        {"-", "'-"},
        {"-inf", "'-inf"},
        {"+0x10", "'+0x10"},
        {"-1 2", "'-1 2"},
        {"-1e", "'-1e"},
        {"=1", "'=1"},
        {" =1", "' =1"},
        {"@a", "'@a"},
        {"\t1", "\"'\t1\""},
        {"a;=1", "\"a;=1\""},
        {"a=1", "a=1"},
        {"'=1", "'=1"},
        {"=\"a\"", "\"'=\"\"a\"\"\""},
        {"x\ry", "x\\ry"},
        {"\xef\xbc\xa0"
         "a",
         "'\xef\xbc\xa0"
         "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        report_table *table = table_create(NULL);
        table_add_column(table, "x", cases[i][0], TABLE_LEFT);
        table_add_row(table);
        table_add_text(table, cases[i][0]);
        text out = {0}, wanted = {0};
        table_render(table, TABLE_CSV, false, &out);
        text_format(&wanted, "%s\r\n%s\r\n", cases[i][1], cases[i][1]);
        assert_string_equal(text_string(&out), text_string(&wanted));
        text_release(&out);
        text_release(&wanted);
        table_destroy(table);
    }
}

static int count_open(const char *line, size_t length, char c) {
    int count = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\\')
            i++;
        else
            count += line[i] == c;
    }
    return count;
}

/* Every row of a table has as many columns as its header, and nothing has a meaning of its own. */
static void check_markdown(const char *verb) {
    text out = {0};
    render(verb, TABLE_MARKDOWN, &out);
    expect_harmless(text_string(&out), "\n");
    int columns = 0;
    for (const char *line = text_string(&out); *line;) {
        size_t length = strcspn(line, "\n");
        int bars = count_open(line, length, '|');
        if (bars && columns)
            assert_int_equal(bars, columns);
        columns = bars;
        assert_int_equal(count_open(line, length, '<'), 0);
        assert_int_equal(count_open(line, length, '['), 0);
        assert_int_equal(count_open(line, length, '`'), 0);
        assert_int_equal(count_open(line, length, '&'), 0);
        assert_int_equal(count_open(line, length, '~'), 0);
        assert_false(*line == '#' || *line == '-');
        line += length + (line[length] == '\n');
    }
    text_release(&out);
}

static void markdown_has_no_tags_links_or_further_columns(void **state) {
    (void)state;
    for_every_view(check_markdown);
}

static void check_json(const char *verb) {
    text out = {0};
    render(verb, TABLE_JSON, &out);
    expect_harmless(text_string(&out), "\n");
    json_t *root = json_loads(text_string(&out), 0, NULL);
    assert_non_null(root);
    json_decref(root);
    text_release(&out);
}

static void json_escapes_and_stays_json(void **state) {
    (void)state;
    for_every_view(check_json);
    results *run = hostile_run("bench");
    json_t *wanted = results_to_json(run);
    text out = {0};
    results_append_json(run, &out);
    json_t *found = json_loads(text_string(&out), 0, NULL);
    assert_true(json_equal(wanted, found)); /* every character is still there */
    json_decref(wanted);
    json_decref(found);
    text_release(&out);
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_no_control_characters),
        cmocka_unit_test(csv_has_no_formulas_and_no_control_characters),
        cmocka_unit_test(csv_keeps_numbers_and_marks_formulas),
        cmocka_unit_test(markdown_has_no_tags_links_or_further_columns),
        cmocka_unit_test(json_escapes_and_stays_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
