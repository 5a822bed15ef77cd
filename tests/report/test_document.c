/* test_document.c - a document with every kind of block in every format, and who gets which view. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "measure/results_json.h"
#include "report/view.h"

static report_table *small_table(const char *title, int64_t value) {
    report_table *table = table_create(title);
    table_add_column(table, "x", "x|y", TABLE_RIGHT);
    table_add_row(table);
    table_add_integer(table, value);
    return table;
}

/* A table with a note of its own, a note of the document, both plots, and a second table. */
static report_document *example(const results *run) {
    report_document *document = document_create(run);
    report_table *table = small_table("first", 1);
    table_add_note(table, "of the table");
    document_add_table(document, table);
    document_add_note(document, "of the <document>");
    double *values = document_add_curve(document, "a curve", "ms per step", 2, 1);
    values[0] = 4;
    values[1] = 1;
    document_add_table(document, small_table("second", 2));
    plot_bar *bars = document_add_bars(document, "ms", 1);
    bars[0] = (plot_bar){"matmul", 2};
    return document;
}

static void expect(const report_document *document, table_format format, bool has_plots,
                   const char *wanted) {
    text out = {0};
    document_render(document, format, (render_options){.has_plots = has_plots}, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void a_terminal_gets_blocks_with_blank_lines_between(void **state) {
    (void)state;
    report_document *document = example(NULL);
    expect(document, TABLE_TERMINAL, false,
           "first\n"
           "x|y\n"
           "  1\n"
           "of the table\n"
           "of the <document>\n"
           "\n"
           "second\n"
           "x|y\n"
           "  2\n");
    document_destroy(document);
}

static void a_terminal_draws_plots_when_asked(void **state) {
    (void)state;
    report_document *document = example(NULL);
    text out = {0};
    document_render(document, TABLE_TERMINAL, (render_options){.has_plots = true}, &out);
    const char *curve = strstr(text_string(&out), "of the <document>\n\na curve\n");
    assert_non_null(curve);
    assert_non_null(strstr(curve, "       4.000 |w \n"));
    assert_non_null(strstr(curve, "ms per step; 1 to 2, w is warm-up\n\nsecond\n"));
    assert_non_null(strstr(curve, "  2\n"
                                  "  matmul  ########################################      2.000 "
                                  "ms\n"));
    text_release(&out);
    document_destroy(document);
}

static void markdown_has_tables_and_notes(void **state) {
    (void)state;
    report_document *document = example(NULL);
    expect(document, TABLE_MARKDOWN, true,
           "**first**\n\n"
           "| x\\|y |\n"
           "|---:|\n"
           "| 1 |\n"
           "\nof the table\n"
           "\nof the \\<document>\n"
           "\n**second**\n\n"
           "| x\\|y |\n"
           "|---:|\n"
           "| 2 |\n");
    document_destroy(document);
}

static void csv_has_tables_alone(void **state) {
    (void)state;
    report_document *document = example(NULL);
    expect(document, TABLE_CSV, true, "x|y\r\n1\r\n\r\nx|y\r\n2\r\n");
    document_destroy(document);
}

static void json_is_the_run_where_there_is_one(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    report_document *document = example(run);
    text wanted = {0};
    results_append_json(run, &wanted);
    expect(document, TABLE_JSON, true, text_string(&wanted));
    text_release(&wanted);
    document_destroy(document);
    results_destroy(run);
}

static void json_without_a_run_has_the_tables_by_their_titles(void **state) {
    (void)state;
    report_document *document = example(NULL);
    expect(document, TABLE_JSON, true,
           "{\n\"first\": [\n {\"x\": 1}\n]\n,\n\"second\": [\n {\"x\": 2}\n]\n}\n");
    document_destroy(document);
    document = document_create(NULL);
    document_add_table(document, small_table(NULL, 3));
    expect(document, TABLE_JSON, true, "[\n {\"x\": 3}\n]\n");
    document_destroy(document);
}

static void an_empty_document_renders_in_every_format(void **state) {
    (void)state;
    report_document *document = document_create(NULL);
    expect(document, TABLE_TERMINAL, true, "");
    expect(document, TABLE_MARKDOWN, true, "");
    expect(document, TABLE_CSV, true, "");
    expect(document, TABLE_JSON, true, "{}\n");
    document_destroy(document);
    document_destroy(NULL);
}

/* Nobody reads hundreds of bars; what is left out is said. */
static void a_terminal_draws_forty_bars_at_most(void **state) {
    (void)state;
    report_document *document = document_create(NULL);
    plot_bar *bars = document_add_bars(document, "ms", 42);
    for (int i = 0; i < 42; i++)
        bars[i] = (plot_bar){i < 40 ? "shown" : "left out", i};
    text out = {0};
    document_render(document, TABLE_TERMINAL, (render_options){.has_plots = true}, &out);
    assert_null(strstr(text_string(&out), "left out"));
    assert_non_null(strstr(text_string(&out), " ms\n  and 2 more rows\n"));
    text_release(&out);
    document_destroy(document);
}

/* "table|md|csv|json": every word of it is a format, in the order of the constants. */
static void the_choices_are_the_formats(void **state) {
    (void)state;
    const char *word = TABLE_FORMAT_CHOICES;
    for (int i = 0; i < TABLE_FORMAT_COUNT; i++) {
        char name[16];
        size_t length = strcspn(word, "|");
        assert_true(length > 0 && length < sizeof name);
        memcpy(name, word, length);
        name[length] = '\0';
        table_format format;
        assert_int_equal(table_format_parse(name, &format), DYNO_OK);
        assert_int_equal(format, i);
        word += length + (word[length] == '|');
    }
    assert_string_equal(word, "");
    assert_true(table_format_is_full(TABLE_CSV));
    assert_false(table_format_is_full(TABLE_TERMINAL));
}

static void a_view_appends_its_blocks_without_printing(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(run);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_add_sample(cell, "warmup", "ns", 3000000);
    cell_add_sample(cell, "step", "ns", 2000000);
    const results_column columns[] = {{"time", "ns"}};
    const char *key = "class", *class = "matmul";
    results_value time = results_integer(2000000);
    breakdown_add_row(cell_add_breakdown(cell, "by_class", &key, 1, columns, 1), &class, &time);
    report_document *document = view_create_document(run, false);
    static const block_kind kinds[] = {BLOCK_TABLE, BLOCK_NOTE, BLOCK_CURVE, BLOCK_TABLE,
                                       BLOCK_BARS};
    assert_int_equal(document->count, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(document->blocks[i].kind, kinds[i]);
    const document_curve *curve = &document->blocks[2].curve;
    assert_int_equal(curve->count, 2);
    assert_int_equal(curve->warmup, 1);
    assert_true(curve->values[0] == 3 && curve->values[1] == 2);
    assert_string_equal(document->blocks[4].bars.bars[0].label, "matmul");
    assert_true(document->blocks[4].bars.bars[0].value == 2);
    document_destroy(document);
    results_destroy(run);
}

static void a_verb_without_a_view_gets_the_general_one(void **state) {
    (void)state;
    results *run = results_create("future", 0, NULL);
    results_cell *cell = results_add_cell(run);
    cell_set_integer(cell, "ranks", 4);
    report_document *found = view_create_document(run, false), *general = document_create(run);
    view_general(run, false, general);
    text a = {0}, b = {0};
    document_render(found, TABLE_TERMINAL, (render_options){0}, &a);
    document_render(general, TABLE_TERMINAL, (render_options){0}, &b);
    assert_non_null(strstr(text_string(&a), "ranks"));
    assert_string_equal(text_string(&a), text_string(&b));
    text_release(&a);
    text_release(&b);
    document_destroy(found);
    document_destroy(general);
    results_destroy(run);
}

static void every_registered_view_shows_an_empty_run(void **state) {
    (void)state;
    const registered_view *view = REGISTERED_VIEWS;
    for (; view->verb; view++)
        for (table_format format = 0; format < TABLE_FORMAT_COUNT; format++) {
            results *run = results_create(view->verb, 0, NULL);
            text out = {0};
            view_render(run, (view_options){.format = format, .has_plots = true}, &out);
            assert_true(out.length > 0);
            text_release(&out);
            results_add_cell(run); /* and a cell about which nothing is known */
            view_render(run, (view_options){.format = format, .has_plots = true}, &out);
            assert_true(out.length > 0);
            text_release(&out);
            results_destroy(run);
        }
    assert_true(view->append == view_general);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_blocks_with_blank_lines_between),
        cmocka_unit_test(a_terminal_draws_plots_when_asked),
        cmocka_unit_test(markdown_has_tables_and_notes),
        cmocka_unit_test(csv_has_tables_alone),
        cmocka_unit_test(json_is_the_run_where_there_is_one),
        cmocka_unit_test(json_without_a_run_has_the_tables_by_their_titles),
        cmocka_unit_test(an_empty_document_renders_in_every_format),
        cmocka_unit_test(a_terminal_draws_forty_bars_at_most),
        cmocka_unit_test(the_choices_are_the_formats),
        cmocka_unit_test(a_view_appends_its_blocks_without_printing),
        cmocka_unit_test(a_verb_without_a_view_gets_the_general_one),
        cmocka_unit_test(every_registered_view_shows_an_empty_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
