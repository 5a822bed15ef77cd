/* test_width.c - what a terminal of a given width shows of every view: no line is wider, what matters
 * most is there, and what is not there is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/printable.h"
#include "base/wrap.h"
#include "measure/keys.h"
#include "report/table_layout.h"
#include "report/view.h"

static const int WIDTHS[] = {40, 80, 100, 200};
enum { WIDTH_COUNT = sizeof WIDTHS / sizeof *WIDTHS };

/* ---- recorded results of every verb ---- */

static void add_breakdown(results_cell *cell) {
    const results_column columns[] = {
        {COLUMN_TIME, "ns"}, {COLUMN_COUNT, ""}, {COLUMN_FLOPS, "FLOP"}, {COLUMN_BYTES, "B"}};
    static const char *const kernels[] = {"matmul_onednn", "dyno_b8c33973aabef7f526ea08ced414a590",
                                          "(between launches)"};
    const char *key = "kernel";
    results_breakdown *b = cell_add_breakdown(cell, "by_kernel", &key, 1, columns, 4);
    for (int i = 0; i < 3; i++) {
        const results_value values[] = {results_integer(9000000 - i), results_integer(24),
                                        results_integer(1000000000), results_integer(123456789)};
        breakdown_add_row(b, &kernels[i], values);
    }
}

static void add_bench_cell(results *run, const char *mode, const char *pass) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_MODEL, "small");
    cell_set_integer(cell, PARAM_CONTEXT, 128);
    cell_set_integer(cell, PARAM_BATCH, 4);
    cell_set_integer(cell, PARAM_WARMUP, 1);
    cell_set_integer(cell, PARAM_STEPS, 2);
    cell_set_text(cell, PARAM_PASS, pass);
    cell_set_text(cell, PARAM_MODE, mode);
    cell_set_text(cell, PARAM_MATH, "fp32");
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_add_sample(cell, SERIES_WARMUP, "ns", 1050000000);
    for (int i = 0; i < 2; i++) {
        cell_add_sample(cell, SERIES_STEP, "ns", 1250000000 + i);
        cell_add_sample(cell, SERIES_FORWARD, "ns", 450000000 + i);
    }
    cell_set_metric(cell, METRIC_FLOPS, "FLOP", 1000000000);
    cell_set_metric(cell, METRIC_TOKENS, "token", 512);
    cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 3 << 20);
    add_breakdown(cell);
}

static results *bench_run(void) {
    results *run = results_create(RUN_BENCH, 0, NULL);
    run->is_complete = true;
    results_set_environment_text(run, ENV_CPU, "Some CPU with a name of some length");
    results_set_environment_real(run, ENV_PEAK_GFLOPS, 200);
    add_bench_cell(run, "eager", "forward+backward");
    add_bench_cell(run, "compiled", "step");
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_MODEL, "small");
    cell_set_text(cell, PARAM_MODE, "compiled");
    cell_set_status(cell, RESULTS_OOM,
                    "the backward of layers.3.attn.softmax does not fit; use "
                    "--recompute every:2 or a smaller batch");
    return run;
}

static results *attention_run(void) {
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    run->is_complete = true;
    static const char *const impls[] = {"naive", "flash"}, *const passes[] = {"forward", "both"};
    for (int i = 0; i < 2 * 2 * 3; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_text(cell, PARAM_IMPL, impls[i % 2]);
        cell_set_text(cell, PARAM_MODE, "compiled");
        cell_set_text(cell, PARAM_MATH, "bf16");
        cell_set_text(cell, PARAM_PASS, i / 2 % 2 ? "forward+backward" : passes[0]);
        cell_set_integer(cell, PARAM_SEQ, 4096 << i / 4);
        cell_set_integer(cell, PARAM_HEAD_DIM, 64);
        cell_set_integer(cell, PARAM_BATCH, 8);
        cell_set_integer(cell, PARAM_HEADS, 1);
        cell_set_status(cell, RESULTS_OK, NULL);
        cell_add_sample(cell, SERIES_STEP, "ns", (int64_t)1234567 << 2 * (i / 4));
        if (i / 2 % 2)
            cell_add_sample(cell, SERIES_BACKWARD, "ns", (int64_t)834567 << 2 * (i / 4));
        cell_set_metric(cell, METRIC_LAUNCHES, "", 18 + i % 2);
        cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 3 << 20);
    }
    return run;
}

static results *plan_run(int cells, const char *flag) {
    results *run = results_create(RUN_PLAN, 1, &flag);
    run->is_complete = true;
    for (int i = 0; i < cells; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_text(cell, PARAM_MODEL, i % 2 ? "2.7B" : "small");
        cell_set_integer(cell, PARAM_CONTEXT, 128);
        cell_set_integer(cell, PARAM_BATCH, 4);
        cell_set_text(cell, PARAM_DEVICE, "cpu");
        cell_set_text(cell, PARAM_MODE, "eager");
        cell_set_text(cell, PARAM_MATH, "fp32");
        cell_set_text(cell, PARAM_RECOMPUTE, "none");
        cell_set_text(cell, PARAM_PASS, "step");
        cell_set_text(cell, PARAM_FITS, "no");
        cell_set_text(cell, PARAM_FITS_WITH,
                      "nothing here: weights and their state alone need more (1.40 MiB)");
        cell_set_text(cell, PARAM_PEAK_AT, "layers.1.attn.softmax divide_gradient (backward)");
        cell_set_metric(cell, METRIC_PARAMETERS, "", 128625408 + i);
        cell_set_metric(cell, METRIC_MEMORY_BYTES, "B", 1 << 20);
        cell_set_metric(cell, METRIC_FLOPS, "FLOP", 412345678901);
        cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 1234567890 + i);
        cell_set_metric(cell, METRIC_RESERVED_BYTES, "B", 1334567890 + i);
        cell_set_metric(cell, METRIC_LAUNCHES, "", 258 + i);
        cell_set_status(cell, RESULTS_OK, NULL);
    }
    return run;
}

static results *one_plan(void) { return plan_run(1, "--detail"); }
static results *many_plans(void) { return plan_run(4, "--detail"); }
static results *plan_map(void) { return plan_run(4, "--map"); }

static results *doctor_run(void) {
    results *run = results_create(RUN_DOCTOR, 0, NULL);
    for (int i = 0; i < 2; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_text(cell, PARAM_PART, "instructions");
        cell_set_text(cell, PARAM_ITEM, "AVX-512 (F, BW, VL, DQ, CD)");
        cell_set_text(cell, PARAM_VALUE, i ? "usable" : "none visible");
        cell_set_text(cell, PARAM_NOTE,
                      i ? "/usr/lib/x86_64-linux-gnu/some/library/of/that/name.so.13"
                        : "this is a longer explanation of why it is so, and of what to do about "
                          "it if it should be another way");
    }
    results_set_environment_text(run, ENV_VERDICT, "dyno runs here: on the CPU");
    return run;
}

static results *precision_run(void) {
    results *run = results_create(RUN_PRECISION, 0, NULL);
    for (int i = 0; i < 3; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_text(cell, PARAM_PART, "accumulation");
        cell_set_text(cell, PARAM_WAY, "a total in 16 bits, rounded after each term");
        cell_set_text(cell, PARAM_TERM_TYPE, "bf16");
        cell_set_text(cell, PARAM_TOTAL_TYPE, "f32");
        cell_set_integer(cell, PARAM_TERMS, 1000);
        cell_set_metric(cell, METRIC_SUM, "", 10 + i);
    }
    return run;
}

static results *other_run(void) {
    results *run = results_create("future", 0, NULL);
    for (int i = 0; i < 3; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_integer(cell, "ranks", i);
        cell_set_status(cell, RESULTS_OK, NULL);
        for (int j = 0; j < 30; j++) {
            char name[32];
            snprintf(name, sizeof name, "metric_number_%d", j);
            cell_set_metric(cell, name, "GB/s", i * 1000000 + j);
        }
    }
    return run;
}

static const struct {
    const char *name;
    results *(*create)(void);
    const char *first; /* the header of the column of the first table that always stays */
} RUNS[] = {{"bench", bench_run, "median ms"},
            {"attention", attention_run, "end-to-end ms"},
            {"plan of one", one_plan, "reserved MiB"},
            {"plan of many", many_plans, "reserved MiB"},
            {"map", plan_map, "model"},
            {"doctor", doctor_run, "part"},
            {"precision", precision_run, "way"},
            {"other", other_run, "ranks"}};
enum { RUN_COUNT = sizeof RUNS / sizeof *RUNS };

/* ---- what holds for all of them ---- */

static void expect_no_wider(const char *shown, int columns, const char *what) {
    for (const char *line = shown; *line;) {
        size_t length = strcspn(line, "\n");
        if (printable_width_of(line, length) > columns)
            fail_msg("%s at %d columns: %.*s", what, columns, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static void no_line_is_wider_than_the_terminal(void **state) {
    (void)state;
    for (int i = 0; i < RUN_COUNT; i++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            results *run = RUNS[i].create();
            text out = {0};
            view_render(
                run,
                (view_options){.format = TABLE_TERMINAL, .has_plots = true, .columns = WIDTHS[w]},
                &out);
            expect_no_wider(text_string(&out), WIDTHS[w], RUNS[i].name);
            text_release(&out);
            results_destroy(run);
        }
}

/* As a word among others, "ms" not being "max ms". */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *p = list; (p = strstr(p, name)); p++)
        if ((p == list || p[-1] == ' ') && (!p[length] || p[length] == ','))
            return true;
    return false;
}

static bool is_in_heading(const char *heading, const table_column *column) {
    const char *label = column->is_setting ? column->key : column->header;
    const char *found = strstr(heading, label);
    return found && found[strlen(label)] == ' ';
}

static bool has_content(const report_table *table, int column) {
    for (int i = 0; i < table->row_count; i++) {
        const table_cell *cell = &table->rows[i].cells[column];
        if (cell->kind != CELL_EMPTY && !(cell->kind == CELL_TEXT && !cell->text[0]))
            return true;
    }
    return false;
}

/* Every column that says something is shown, in the heading, or left out by name. */
static void check_columns(const report_table *table, int columns) {
    table_layout layout = table_layout_create(table, columns);
    const char *heading = text_string(&layout.heading), *left_out = text_string(&layout.left_out);
    for (int j = 0, at = 0; j < table->column_count; j++) {
        bool is_shown = at < layout.count && layout.columns[at] == j;
        at += is_shown;
        bool is_told = is_shown || is_in_heading(heading, &table->columns[j]) ||
                       is_listed(left_out, table->columns[j].header);
        if (!is_told && has_content(table, j))
            fail_msg("%s is nowhere at %d columns", table->columns[j].header, columns);
        if (is_shown)
            assert_false(is_listed(left_out, table->columns[j].header));
    }
    table_layout_release(&layout);
}

static void what_is_not_shown_is_named(void **state) {
    (void)state;
    for (int i = 0; i < RUN_COUNT; i++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            results *run = RUNS[i].create();
            report_document *document = view_create_document(run, false);
            for (int64_t b = 0; b < document->count; b++)
                if (document->blocks[b].kind == BLOCK_TABLE)
                    check_columns(document->blocks[b].table, WIDTHS[w]);
            document_destroy(document);
            results_destroy(run);
        }
}

static void the_most_important_column_stays(void **state) {
    (void)state;
    for (int i = 0; i < RUN_COUNT; i++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            results *run = RUNS[i].create();
            report_document *document = view_create_document(run, false);
            const report_table *table = document->blocks[0].table;
            table_layout layout = table_layout_create(table, WIDTHS[w]);
            bool is_there = false;
            for (int j = 0; j < layout.count; j++)
                is_there = is_there ||
                           strcmp(table->columns[layout.columns[j]].header, RUNS[i].first) == 0;
            if (!is_there)
                fail_msg("%s at %d columns has no %s", RUNS[i].name, WIDTHS[w], RUNS[i].first);
            table_layout_release(&layout);
            document_destroy(document);
            results_destroy(run);
        }
}

static void without_a_width_everything_is_shown(void **state) {
    (void)state;
    results *run = bench_run();
    report_table *table = view_create_bench_table(run, false);
    table_layout layout = table_layout_create(table, 0);
    assert_int_equal(layout.count, table->column_count);
    assert_int_equal(layout.heading.length + layout.left_out.length, 0);
    table_layout_release(&layout);
    table_destroy(table);
    results_destroy(run);
}

/* ---- one table, exactly ---- */

static report_table *small_table(void) {
    static const char *const importance[] = {"c", "b", TABLE_OTHERS, "d", NULL};
    report_table *table = table_create("a title");
    table_add_setting(table, "model", "the model", TABLE_LEFT);
    table_add_setting(table, "mode", "mode", TABLE_LEFT);
    table_add_column(table, "b", "bbbbbbbbbb", TABLE_RIGHT);
    table_add_column(table, "c", "cccccccccc", TABLE_RIGHT);
    table_add_column(table, "d", "dddddddddd", TABLE_RIGHT);
    table_add_column(table, "new", "new number", TABLE_RIGHT);
    table_add_column(table, "same", "same ms", TABLE_RIGHT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    table_set_importance(table, importance);
    for (int i = 0; i < 2; i++) {
        table_add_row(table);
        table_add_text(table, "small");
        table_add_text(table, i ? "compiled" : "eager");
        for (int j = 0; j < 4; j++)
            table_add_integer(table, i + j);
        table_add_integer(table, 7);
        table_add_text(table, "");
    }
    table_add_note(table, "a note that is longer than forty columns are, and is wrapped");
    return table;
}

static void expect_at(int columns, const char *wanted) {
    report_table *table = small_table();
    text out = {0};
    table_render_with(table, TABLE_TERMINAL, (render_options){.columns = columns}, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
    table_destroy(table);
}

static void the_least_important_columns_go_first(void **state) {
    (void)state;
    expect_at(80, "a title\n"
                  "model small\n"
                  "mode      bbbbbbbbbb  cccccccccc  dddddddddd  new number  same ms\n"
                  "eager              0           1           2           3        7\n"
                  "compiled           1           2           3           4        7\n"
                  "a note that is longer than forty columns are, and is wrapped\n");
    /* The header of two words is wrapped, and what is the same in every row moves. */
    expect_at(54, "a title\n"
                  "model small, same ms 7\n"
                  "                                                 new\n"
                  "mode      bbbbbbbbbb  cccccccccc  dddddddddd  number\n"
                  "eager              0           1           2       3\n"
                  "compiled           1           2           3       4\n"
                  "a note that is longer than forty columns are, and is\n"
                  "  wrapped\n");
    /* The last of the list goes first, then what is not in it; the mode tells the rows apart. */
    expect_at(44, "a title\n"
                  "model small, same ms 7\n"
                  "mode      bbbbbbbbbb  cccccccccc  new number\n"
                  "eager              0           1           3\n"
                  "compiled           1           2           4\n"
                  "left out to fit 44 columns: dddddddddd;\n"
                  "  --wide shows all\n"
                  "a note that is longer than forty columns\n"
                  "  are, and is wrapped\n");
    /* Narrower than forty columns nothing gets. */
    expect_at(10, "a title\n"
                  "model small, same ms 7\n"
                  "                                     new\n"
                  "mode      bbbbbbbbbb  cccccccccc  number\n"
                  "eager              0           1       3\n"
                  "compiled           1           2       4\n"
                  "left out to fit 40 columns: dddddddddd;\n"
                  "  --wide shows all\n"
                  "a note that is longer than forty columns\n"
                  "  are, and is wrapped\n");
}

static void texts_are_wrapped_inside_their_column(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_column(table, "n", "n", TABLE_RIGHT);
    table_add_column(table, "why", "why", TABLE_LEFT);
    table_add_row(table);
    table_add_integer(table, 1);
    table_add_text(table, "a text that takes more room than there is in forty columns");
    table_add_rule(table);
    table_add_row(table);
    table_add_integer(table, 20);
    table_add_text(table, "short");
    text out = {0};
    table_render_with(table, TABLE_TERMINAL, (render_options){.columns = 40, .is_bold = true},
                      &out);
    assert_string_equal(text_string(&out), "\033[1m n  why\033[0m\n"
                                           " 1  a text that takes more room than\n"
                                           "    there is in forty columns\n"
                                           "----------------------------------------\n"
                                           "20  short\n");
    text_release(&out);
    table_destroy(table);
}

/* All columns of a single row are constant; only its settings are told above it. */
static void a_single_row_stays_a_table(void **state) {
    (void)state;
    report_table *table = table_create(NULL);
    table_add_setting(table, "model", "model", TABLE_LEFT);
    table_add_column(table, "ms", "median ms", TABLE_RIGHT);
    table_add_row(table);
    table_add_text(table, "small");
    table_add_integer(table, 12);
    text out = {0};
    table_render_with(table, TABLE_TERMINAL, (render_options){.columns = 80}, &out);
    assert_string_equal(text_string(&out), "model small\nmedian ms\n       12\n");
    text_release(&out);
    table_destroy(table);
}

static void bars_and_curves_fit_the_terminal(void **state) {
    (void)state;
    const plot_bar bars[] = {{"a_label_that_is_far_longer_than_the_line_it_should_be_in", 1e300},
                             {"short", -1e300},
                             {"other", 123456}};
    double values[2000];
    for (int i = 0; i < 2000; i++)
        values[i] = 1e12 * i;
    for (int w = 0; w < WIDTH_COUNT; w++) {
        text out = {0};
        plot_bars(&out, bars, 3, 40, WIDTHS[w], "ms");
        plot_line(&out, values, 2000, 10, WIDTHS[w] - PLOT_LINE_MARGIN, 5, "ms per step");
        expect_no_wider(text_string(&out), WIDTHS[w], "plots");
        text_release(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(what_is_not_shown_is_named),
        cmocka_unit_test(the_most_important_column_stays),
        cmocka_unit_test(without_a_width_everything_is_shown),
        cmocka_unit_test(the_least_important_columns_go_first),
        cmocka_unit_test(texts_are_wrapped_inside_their_column),
        cmocka_unit_test(a_single_row_stays_a_table),
        cmocka_unit_test(bars_and_curves_fit_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
