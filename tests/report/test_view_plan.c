/* test_view_plan.c - plan's tables of runs that hold less, or other, than a plan records. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "report/view.h"

static const table_format formats[] = {TABLE_TERMINAL, TABLE_MARKDOWN, TABLE_CSV, TABLE_JSON};

static void expect_shown(const results *run, const char *part) {
    for (int i = 0; i < 4; i++) {
        text out = {0};
        view_render(run, (view_options){.format = formats[i]}, &out);
        assert_true(out.length > 0);
        if (formats[i] == TABLE_TERMINAL)
            assert_non_null(strstr(text_string(&out), part));
        text_release(&out);
    }
}

static results *run_of(const char *flag) {
    const char *argv[] = {"plan", flag};
    return results_create("plan", 2, argv);
}

static void a_run_without_cells_is_shown(void **state) {
    (void)state;
    results *run = run_of("--map");
    expect_shown(run, "");
    results_destroy(run);
}

static void a_cell_without_anything_is_shown(void **state) {
    (void)state;
    static const char *const flags[] = {"--map", "--detail", "--memory"};
    for (int i = 0; i < 3; i++) {
        results *run = run_of(flags[i]);
        results_add_cell(run);
        results_add_cell(run);
        expect_shown(run, "model");
        results_destroy(run);
    }
}

static void numbers_and_breakdowns_of_another_form_are_borne(void **state) {
    (void)state;
    results *run = run_of("--detail");
    results_cell *cell = results_add_cell(run);
    cell_set_real(cell, "context", 1e300);
    cell_set_text(cell, "batch", "many");
    cell_set_text(cell, "fits", "perhaps");
    cell_set_metric_real(cell, "parameters", "", -1e300);
    cell_set_metric_real(cell, "memory_bytes", "B", 1e200);
    static const results_column columns[] = {{"a", ""}};
    const char *key = "scope";
    results_value value = results_integer(1);
    breakdown_add_row(cell_add_breakdown(cell, "by_scope", &key, 1, columns, 1), &key, &value);
    breakdown_add_row(cell_add_breakdown(cell, "peak_values", &key, 1, columns, 1), &key, &value);
    expect_shown(run, "perhaps");
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_without_cells_is_shown),
        cmocka_unit_test(a_cell_without_anything_is_shown),
        cmocka_unit_test(numbers_and_breakdowns_of_another_form_are_borne),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
