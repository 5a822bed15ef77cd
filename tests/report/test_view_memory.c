/* test_view_memory.c - what is drawn and said of a step's memory, also of files that are not dyno's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view.h"

static void expect_shown(const results *run, const char *part) {
    for (int format = 0; format < TABLE_FORMAT_COUNT; format++)
        for (int columns = 0; columns <= 80; columns += 40) {
            text out = {0};
            view_render(run, (view_options){.format = (table_format)format, .columns = columns},
                        &out);
            assert_true(out.length > 0);
            if (format == TABLE_TERMINAL && !columns && !strstr(text_string(&out), part))
                fail_msg("no '%s' in\n%s", part, text_string(&out));
            text_release(&out);
        }
}

static results *run_of(const char *parts, results_cell **cell) {
    const char *argv[] = {"memory"};
    results *run = results_create("memory", 1, argv);
    *cell = results_add_cell(run);
    cell_set_text(*cell, PARAM_PART, parts);
    cell_set_text(*cell, PARAM_MODEL, "tiny");
    cell_set_status(*cell, RESULTS_OK, "");
    return run;
}

#define ALL_PARTS "grid,timeline,peak,allocations,saved,blocks,advice"

/* ---- the plot ---- */

static void areas_are_stacked_and_the_peak_is_pointed_at(void **state) {
    (void)state;
    double low[] = {1, 1, 1, 1}, high[] = {0, 1, 3, 0};
    plot_area areas[] = {{"weights", 'W', low}, {"saved", 'S', high}};
    text out = {0};
    plot_areas(&out, areas, 2, 4, ".ffb", 40, 4, "MiB");
    assert_string_equal(text_string(&out),
                        "         4.0 |  S \n"
                        "         3.0 |  S \n"
                        "             | SS \n"
                        "         0.0 |WWWW\n"
                        "             +----\n"
                        "              .ffb\n"
                        "                ^ the peak\n"
                        "              S saved (3.0 at most), W weights (1.0 at\n"
                        "              most); MiB\n");
    text_release(&out);
}

/* More launches than columns: the spike of one launch is still there. */
static void a_spike_of_one_launch_is_drawn(void **state) {
    (void)state;
    enum { LAUNCHES = 1000 };
    double values[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++)
        values[i] = i == 777 ? 100 : 1;
    plot_area area = {"saved", 'S', values};
    text out = {0};
    plot_areas(&out, &area, 1, LAUNCHES, NULL, 10, 4, "MiB");
    assert_non_null(strstr(text_string(&out), "       100.0 |       S  \n"));
    text_release(&out);
}

static void numbers_that_are_none_are_not_drawn(void **state) {
    (void)state;
    double values[] = {NAN, -5, INFINITY};
    plot_area area = {"saved", 'S', values};
    text out = {0};
    plot_areas(&out, &area, 1, 3, NULL, 10, 2, "MiB");
    assert_null(strchr(text_string(&out), 'S'));
    plot_areas(&out, &area, 1, 0, NULL, 10, 2, "MiB");
    text_release(&out);
}

/* ---- a run ---- */

static void add_moment(results_breakdown *b, const char *phase, int64_t launch, int64_t weights,
                       int64_t saved) {
    const char *keys[] = {phase, "layers.0", "matmul"};
    results_value values[] = {results_integer(launch), results_integer(weights),
                              results_integer(saved)};
    breakdown_add_row(b, keys, values);
}

static void a_timeline_is_drawn_and_told_by_phase(void **state) {
    (void)state;
    results_cell *cell;
    results *run = run_of(ALL_PARTS, &cell);
    static const char *const keys[] = {KEY_PHASE, KEY_SCOPE, KEY_OP};
    static const results_column columns[] = {
        {COLUMN_LAUNCH, ""}, {"parameter", "B"}, {"saved", "B"}};
    results_breakdown *b = cell_add_breakdown(cell, BREAKDOWN_TIMELINE, keys, 3, columns, 3);
    add_moment(b, "", -1, 1 << 20, 0);
    add_moment(b, "forward", 0, 1 << 20, 1 << 20);
    add_moment(b, "backward", 1, 1 << 20, 3 << 20);
    add_moment(b, "sideways", 2, 1 << 20, 0); /* a file's own word */
    expect_shown(run, "              .fb.\n");
    expect_shown(run, "  ^ the peak");
    expect_shown(run, "0 to 0");
    text csv = {0};
    view_render(run, (view_options){.format = TABLE_CSV}, &csv);
    assert_non_null(strstr(text_string(&csv),
                           "tiny,,,,,,,,,,,,OK,,1,backward,layers.0,matmul,1048576,,,3145728"));
    text_release(&csv);
    results_destroy(run);
}

/* One table in CSV, with nothing before it, for programs that read it. */
static void a_part_alone_is_one_table(void **state) {
    (void)state;
    results_cell *cell;
    results *run = run_of("timeline", &cell);
    static const char *const keys[] = {KEY_PHASE, KEY_SCOPE, KEY_OP};
    static const results_column columns[] = {{COLUMN_LAUNCH, ""}};
    const char *row[] = {"forward", "", ""};
    results_value launch = results_integer(0);
    breakdown_add_row(cell_add_breakdown(cell, BREAKDOWN_TIMELINE, keys, 3, columns, 1), row,
                      &launch);
    text csv = {0};
    view_render(run, (view_options){.format = TABLE_CSV}, &csv);
    assert_int_equal(
        strncmp(text_string(&csv), "model,context,batch,accumulate,ranks,parallel,pass,", 51), 0);
    assert_null(strstr(text_string(&csv), "\r\n\r\n"));
    text_release(&csv);
    results_destroy(run);
}

static void the_grid_of_a_file_has_every_setting(void **state) {
    (void)state;
    results_cell *cell;
    results *run = run_of("grid", &cell);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", 1 << 20);
    cell_set_text(cell, PARAM_MATH, "bf16");
    text csv = {0};
    view_render(run, (view_options){.format = TABLE_CSV}, &csv);
    const char *columns = "model,context,batch,accumulate,ranks,parallel,pass,mode,math,attention,"
                          "recompute,device,weights MiB";
    assert_int_equal(strncmp(text_string(&csv), columns, strlen(columns)), 0);
    assert_non_null(strstr(text_string(&csv), "tiny,,,,,,,,bf16,"));
    text_release(&csv);
    results_destroy(run);
}

enum { OF_EARLIER = 4, OF_NOW };

static void add_block(results_breakdown *b, const char *name, int64_t saved) {
    results_value values[] = {results_integer(1 << 20), results_integer(2 << 20),
                              results_integer(3 << 20), results_integer(saved), results_integer(0)};
    breakdown_add_row(b, &name, values);
}

static results_breakdown *add_blocks(results_cell *cell, int column_count) {
    const char *key = KEY_BLOCK;
    static const results_column columns[] = {{"parameter", "B"},
                                             {"gradient", "B"},
                                             {"optimizer-state", "B"},
                                             {"saved", "B"},
                                             {COLUMN_GRADIENT_SUMS, "B"}};
    results_breakdown *b =
        cell_add_breakdown(cell, BREAKDOWN_BY_BLOCK, &key, 1, columns, column_count);
    for (int i = 0; i < 6; i++) {
        char name[] = {(char)('0' + i), '\0'};
        add_block(b, name, (int64_t)(i % 2 + 1) << 20);
    }
    add_block(b, "-", 0);
    return b;
}

static void blocks_that_are_alike_are_one_row(void **state) {
    (void)state;
    for (int columns = OF_EARLIER; columns <= OF_NOW; columns++) {
        results_cell *cell;
        results *run = run_of("blocks", &cell);
        add_blocks(cell, columns);
        expect_shown(run, "3 of 0 to 4, each");
        expect_shown(run, "3 of 1 to 5, each");
        expect_shown(run, "no block");
        results_destroy(run);
    }
}

static bool shows(const results *run, table_format format, const char *part) {
    text out = {0};
    view_render(run, (view_options){.format = format}, &out);
    bool found = strstr(text_string(&out), part) != NULL;
    text_release(&out);
    return found;
}

static void sums_of_gradients_are_a_column_where_there_are_some(void **state) {
    (void)state;
    results_cell *cell;
    results *run = run_of("blocks", &cell);
    results_breakdown *b = add_blocks(cell, OF_NOW);
    assert_false(shows(run, TABLE_TERMINAL, "sums of gradients"));
    assert_true(shows(run, TABLE_CSV, "sums of gradients B"));
    b->rows[3].values[4] = results_integer(7 << 20);
    assert_true(shows(run, TABLE_TERMINAL, "sums of gradients MiB"));
    results_destroy(run);
}

/* A cell that was not planned is in every file, and is told to people that see no grid. */
static void a_cell_that_has_no_plan_is_no_gap(void **state) {
    (void)state;
    static const char *const parts[] = {"timeline", "peak",   "allocations",
                                        "saved",    "blocks", "advice"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        results_cell *cell;
        results *run = run_of(parts[i], &cell);
        cell_set_status(cell, RESULTS_SKIP, "heads of 7 numbers");
        assert_true(shows(run, TABLE_CSV, "tiny,,,,,,,,,,,,SKIP,heads of 7 numbers"));
        assert_true(shows(run, TABLE_TERMINAL, "SKIP heads of 7 numbers"));
        results_destroy(run);
    }
}

/* Nothing measured is told of a cell that did not finish. */
static void a_cell_without_memory_has_a_plan_and_no_measurement(void **state) {
    (void)state;
    results_cell *cell;
    results *run = run_of("grid", &cell);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", (int64_t)64 << 20);
    cell_set_metric(cell, METRIC_TENSOR_BYTES, "B", (int64_t)7777 << 20);
    cell_set_metric(cell, METRIC_RESERVED_BYTES, "B", (int64_t)7777 << 20);
    cell_set_metric(cell, METRIC_NEEDED_BYTES, "B", (int64_t)64 << 20);
    cell_set_metric(cell, METRIC_AVAILABLE_BYTES, "B", (int64_t)32 << 20);
    cell_set_status(cell, RESULTS_OOM, "");
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "needs 64.00 MiB, there is 32.00 MiB"));
    assert_null(strstr(text_string(&out), "7777"));
    text_release(&out);
    results_destroy(run);
}

/* ---- files of others ---- */

static void runs_without_anything_are_shown(void **state) {
    (void)state;
    const char *argv[] = {"memory"};
    results *run = results_create("memory", 1, argv);
    expect_shown(run, "");
    results_add_cell(run);
    results_add_cell(run);
    expect_shown(run, "model");
    results_destroy(run);
    results_cell *cell;
    run = run_of(ALL_PARTS, &cell);
    expect_shown(run, "tiny");
    results_destroy(run);
}

static void breakdowns_of_another_form_are_borne(void **state) {
    (void)state;
    static const char *const names[] = {BREAKDOWN_TIMELINE,    BREAKDOWN_PEAK_VALUES,
                                        BREAKDOWN_ALLOCATIONS, BREAKDOWN_SAVED_BY_OP,
                                        BREAKDOWN_BY_BLOCK,    BREAKDOWN_ADVICE};
    static const char *const keys[] = {"a", "b", "c", "d"};
    static const results_column columns[] = {{"x", ""}, {"y", ""}, {"z", ""}, {"u", ""}, {"v", ""}};
    for (int key_count = 1; key_count <= 4; key_count++)
        for (int column_count = 1; column_count <= 5; column_count++) {
            results_cell *cell;
            results *run = run_of(ALL_PARTS, &cell);
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                results_breakdown *b =
                    cell_add_breakdown(cell, names[i], keys, key_count, columns, column_count);
                results_value values[] = {results_real(1e300), results_integer(INT64_MIN),
                                          results_real(-1e300), results_integer(INT64_MAX),
                                          results_real(0)};
                breakdown_add_row(b, keys, values);
            }
            cell_set_metric_real(cell, METRIC_SAVED_BYTES, "B", 1e300);
            cell_set_text(cell, PARAM_CONTEXT, "many");
            expect_shown(run, "tiny");
            results_destroy(run);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(areas_are_stacked_and_the_peak_is_pointed_at),
        cmocka_unit_test(a_spike_of_one_launch_is_drawn),
        cmocka_unit_test(numbers_that_are_none_are_not_drawn),
        cmocka_unit_test(a_timeline_is_drawn_and_told_by_phase),
        cmocka_unit_test(a_part_alone_is_one_table),
        cmocka_unit_test(the_grid_of_a_file_has_every_setting),
        cmocka_unit_test(blocks_that_are_alike_are_one_row),
        cmocka_unit_test(sums_of_gradients_are_a_column_where_there_are_some),
        cmocka_unit_test(a_cell_that_has_no_plan_is_no_gap),
        cmocka_unit_test(a_cell_without_memory_has_a_plan_and_no_measurement),
        cmocka_unit_test(runs_without_anything_are_shown),
        cmocka_unit_test(breakdowns_of_another_form_are_borne),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
