/* test_view_scale.c - what the view of `dyno scale` derives, and that it lives with records that lack things. */
#include "support/expect.h"

#include <string.h>

#include "measure/keys.h"
#include "measure/results.h"
#include "report/view.h"

static results_cell *add_step(results *run, const char *way, int ranks, double step_ms) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_PART, PART_STEP);
    cell_set_text(cell, PARAM_MODEL, "small");
    cell_set_text(cell, PARAM_PARALLEL, way);
    cell_set_integer(cell, PARAM_RANKS, ranks);
    cell_set_text(cell, PARAM_TIMES, "rates");
    cell_set_metric(cell, METRIC_TOKENS, "", 500);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", 3 << 20);
    cell_set_metric_real(cell, METRIC_COMPUTE_NS, "ns", 5e6);
    cell_set_metric_real(cell, METRIC_STEP_NS, "ns", step_ms * 1e6);
    cell_set_status(cell, RESULTS_OK, NULL);
    return cell;
}

static void render(const results *run, table_format format, text *out) {
    view_render(run, (view_options){.format = format, .has_plots = true}, out);
}

static void expect_shown(const results *run, table_format format, const char *part) {
    text out = {0};
    render(run, format, &out);
    if (!strstr(text_string(&out), part))
        fail_msg("'%s' is not in\n%s", part, text_string(&out));
    text_release(&out);
}

static void shares_rates_and_growth_are_derived(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    add_step(run, "fsdp", 2, 10);
    add_step(run, "fsdp", 4, 20);
    add_step(run, "fsdp", 8, 40);
    expect_shown(run, TABLE_TERMINAL, "50.0     50000"); /* 5 of 10 ms, 500 tokens in 10 ms */
    expect_shown(run, TABLE_TERMINAL, "as ranks^1.00");
    expect_shown(run, TABLE_TERMINAL, "8 ranks  ########");
    results_destroy(run);
}

static void memory_that_does_not_fit_is_said(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    cell_set_metric(add_step(run, "tp", 2, 10), METRIC_MEMORY_BYTES, "B", 2 << 20);
    expect_shown(run, TABLE_CSV, "on paper; does not fit");
    results_destroy(run);
}

static void nothing_is_derived_from_cells_that_lack_it(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    results_add_cell(run);
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_PART, PART_LIMIT);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell = add_step(run, "zero1", 2, 0);
    cell_set_text(cell, PARAM_RANKS, "many");
    cell = results_add_cell(run);
    cell_set_integer(cell, PARAM_PART, 3);
    static const table_format formats[] = {TABLE_TERMINAL, TABLE_MARKDOWN, TABLE_CSV, TABLE_JSON};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        text out = {0};
        render(run, formats[i], &out);
        assert_true(out.length > 0);
        assert_null(strstr(text_string(&out), "nan,"));
        text_release(&out);
    }
    results_destroy(run);
}

static void a_run_without_cells_has_a_view(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    text out = {0};
    render(run, TABLE_TERMINAL, &out);
    text_release(&out);
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_rates_and_growth_are_derived),
        cmocka_unit_test(memory_that_does_not_fit_is_said),
        cmocka_unit_test(nothing_is_derived_from_cells_that_lack_it),
        cmocka_unit_test(a_run_without_cells_has_a_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
