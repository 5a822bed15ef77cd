/* test_compare.c - verdicts on noise whose truth is known, and which cells are held against which. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/rng.h"
#include "measure/keys.h"
#include "report/compare.h"

static const compare_options USUAL = {.threshold = 0.02, .confidence = 0.95, .between_runs = 0.02};

static results *start_run(const char *started) {
    results *run = results_create(RUN_BENCH, 0, NULL);
    run->started = started;
    run->is_complete = true;
    results_set_environment_text(run, ENV_CPU, "Some CPU");
    return run;
}

static results_cell *add_cell(results *run, int64_t context, const char *mode) {
    results_cell *cell = results_add_cell(run);
    cell_set_integer(cell, PARAM_CONTEXT, context);
    cell_set_text(cell, PARAM_MODE, mode);
    cell_set_text(cell, PARAM_PASS, "step");
    cell_set_integer(cell, PARAM_STEPS, 10);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 1 << 20);
    cell_set_metric(cell, METRIC_LAUNCHES, "", 100);
    return cell;
}

static void add_steps(results_cell *cell, double ms) {
    for (int i = 0; i < 10; i++)
        cell_add_sample(cell, SERIES_STEP, "ns", (int64_t)(ms * 1e6) + i);
}

static run_set set_of(results **runs, int count) {
    run_set set = {.runs = memory_allocate((size_t)count, sizeof *set.runs),
                   .names = memory_allocate((size_t)count, sizeof *set.names),
                   .count = count,
                   .capacity = count};
    for (int i = 0; i < count; i++) {
        set.runs[i] = runs[i];
        set.names[i] = memory_copy_string("");
    }
    return set;
}

static char *render(const comparison *found, table_format format) {
    text shown = {0};
    report_document *document = comparison_create_document(found, "before", "after", false);
    document_render(document, format, (render_options){0}, &shown);
    document_destroy(document);
    return shown.data;
}

/* ---- statistics ---- */

/* As on a machine that others use: each round is slower or faster than the next by 3 % for both, each
 * process by 1 % of its own, and one step in six is delayed by up to a half. */
static void add_noisy_round(results *run, double ms, uint64_t seed, int round, int side) {
    rng_stream shared = rng_stream_init(seed, (uint64_t)round),
               own = rng_stream_init(seed + 1, (uint64_t)(round * 2 + side));
    double level =
        ms * exp(0.03 * rng_truncated_normal(shared, 0)) * exp(0.01 * rng_truncated_normal(own, 0));
    results_cell *cell = add_cell(run, 128, "eager");
    for (uint64_t i = 0; i < 10; i++) {
        double delay =
            rng_uniform(own, 3 * i + 1) < 1.0 / 6 ? 0.5 * rng_uniform(own, 3 * i + 2) : 0;
        double step = level * (1 + delay) * exp(0.005 * rng_truncated_normal(own, 3 * i + 3));
        cell_add_sample(cell, SERIES_STEP, "ns", (int64_t)(step * 1e6));
    }
}

static compare_verdict verdict_of_noise(double slow_down, int rounds, uint64_t seed) {
    run_set sides[2];
    char(*started)[32] = memory_allocate((size_t)rounds, sizeof *started);
    for (int side = 0; side < 2; side++) {
        results **runs = memory_allocate((size_t)rounds, sizeof *runs);
        for (int i = 0; i < rounds; i++) {
            snprintf(started[i], sizeof started[i], "2026-01-01T00:%02d:00Z", i);
            runs[i] = start_run(started[i]);
            add_noisy_round(runs[i], side ? 10 * slow_down : 10, seed, i, side);
        }
        sides[side] = set_of(runs, rounds);
        free(runs);
    }
    comparison found;
    assert_int_equal(compare_runs(&sides[0], &sides[1], USUAL, &found), DYNO_OK);
    compare_verdict verdict = found.rows[0].of_time;
    assert_true(found.is_paired == (rounds > 1));
    comparison_release(&found);
    run_set_release(&sides[0]);
    run_set_release(&sides[1]);
    free(started);
    return verdict;
}

static int count_verdicts(double slow_down, int rounds, compare_verdict wanted) {
    int count = 0;
    for (uint64_t i = 0; i < 100; i++)
        count += verdict_of_noise(slow_down, rounds, 1000 * i) == wanted;
    return count;
}

static void a_program_is_not_slower_than_itself_in_95_of_100_tries(void **state) {
    (void)state;
    assert_true(count_verdicts(1, 20, COMPARE_WORSE) + count_verdicts(1, 20, COMPARE_BETTER) <= 5);
    assert_true(count_verdicts(1, 5, COMPARE_WORSE) + count_verdicts(1, 5, COMPARE_BETTER) <= 5);
}

static void with_twenty_rounds_most_comparisons_with_itself_are_decided(void **state) {
    (void)state;
    assert_true(count_verdicts(1, 20, COMPARE_SAME) >= 90);
}

static void a_slow_down_of_3_percent_is_seen_in_90_of_100_tries(void **state) {
    (void)state;
    assert_true(count_verdicts(1.03, 20, COMPARE_WORSE) >= 90);
}

static void a_speed_up_of_3_percent_is_seen_as_well(void **state) {
    (void)state;
    assert_true(count_verdicts(1 / 1.03, 20, COMPARE_BETTER) >= 90);
}

static void single_runs_of_one_program_are_not_called_different(void **state) {
    (void)state;
    assert_true(count_verdicts(1, 1, COMPARE_WORSE) + count_verdicts(1, 1, COMPARE_BETTER) <= 5);
}

static void verdicts_follow_from_the_interval(void **state) {
    (void)state;
    assert_int_equal(compare_decide((bootstrap_ratio){1.03, 1.01, 1.05}, 0.02), COMPARE_WORSE);
    assert_int_equal(compare_decide((bootstrap_ratio){1.03, 0.99, 1.07}, 0.02), COMPARE_UNDECIDED);
    assert_int_equal(compare_decide((bootstrap_ratio){1.01, 1.005, 1.015}, 0.02), COMPARE_SAME);
    assert_int_equal(compare_decide((bootstrap_ratio){0.9, 0.85, 0.95}, 0.02), COMPARE_BETTER);
    assert_int_equal(compare_decide((bootstrap_ratio){1, NAN, NAN}, 0.02), COMPARE_UNDECIDED);
    assert_int_equal(compare_decide((bootstrap_ratio){NAN, NAN, NAN}, 0.02), COMPARE_NONE);
}

/* ---- cells ---- */

static void cells_are_matched_by_their_parameters_in_any_order(void **state) {
    (void)state;
    results *a = start_run("1"), *b = start_run("2");
    add_steps(add_cell(a, 128, "eager"), 10);
    add_steps(add_cell(a, 256, "eager"), 20);
    add_steps(add_cell(b, 256, "eager"), 40);
    add_steps(add_cell(b, 128, "eager"), 10);
    run_set one = set_of(&a, 1), two = set_of(&b, 1);
    comparison found;
    assert_int_equal(compare_runs(&one, &two, USUAL, &found), DYNO_OK);
    assert_int_equal(found.count, 2);
    assert_true(fabs(found.rows[0].time.ratio - 1) < 1e-3);
    assert_true(fabs(found.rows[1].time.ratio - 2) < 1e-3);
    assert_int_equal(found.rows[1].of_time, COMPARE_WORSE);
    assert_int_equal(comparison_regressions(&found), 1);
    comparison_release(&found);
    run_set_release(&one);
    run_set_release(&two);
}

static void what_differs_in_all_cells_is_what_is_compared(void **state) {
    (void)state;
    results *a = start_run("1"), *b = start_run("2");
    add_steps(add_cell(a, 128, "eager"), 10);
    add_steps(add_cell(a, 256, "eager"), 20);
    add_steps(add_cell(b, 128, "compiled"), 5);
    add_steps(add_cell(b, 256, "compiled"), 10);
    results_set_environment_text(b, ENV_CPU, "Another CPU");
    results_set_environment_text(b, ENV_DYNO_VERSION, "9");
    run_set one = set_of(&a, 1), two = set_of(&b, 1);
    comparison found;
    assert_int_equal(compare_runs(&one, &two, USUAL, &found), DYNO_OK);
    assert_int_equal(found.rows[0].of_time, COMPARE_BETTER);
    assert_int_equal(comparison_regressions(&found), 0);
    char *shown = render(&found, TABLE_MARKDOWN);
    assert_non_null(strstr(shown, "mode eager in A, compiled in B"));
    const char *common = strstr(shown, "all rows:");
    assert_true(!common ||
                strstr(common, "mode ") > strchr(common, '\n')); /* it holds for A alone */
    assert_non_null(strstr(shown, "machines differ"));
    assert_non_null(strstr(shown, "cpu Some CPU in A, Another CPU in B"));
    assert_non_null(strstr(shown, "versions differ: dyno_version unknown in A, 9 in B"));
    assert_non_null(strstr(shown, "FASTER"));
    free(shown);
    comparison_release(&found);
    run_set_release(&one);
    run_set_release(&two);
}

static void memory_and_cells_that_broke_are_regressions_and_launches_are_told(void **state) {
    (void)state;
    results *a = start_run("1"), *b = start_run("2");
    results_cell *cell = add_cell(a, 128, "eager");
    add_steps(cell, 10);
    add_steps(add_cell(a, 256, "eager"), 10);
    add_steps(add_cell(a, 512, "eager"), 10);
    cell = add_cell(b, 128, "eager");
    add_steps(cell, 10);
    cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 2 << 20);
    cell_set_metric(cell, METRIC_LAUNCHES, "", 101);
    cell = add_cell(b, 256, "eager");
    cell_set_status(cell, RESULTS_OOM, "no room");
    add_steps(add_cell(b, 1024, "eager"), 10);
    run_set one = set_of(&a, 1), two = set_of(&b, 1);
    comparison found;
    assert_int_equal(compare_runs(&one, &two, USUAL, &found), DYNO_OK);
    assert_int_equal(found.count, 4);
    assert_int_equal(found.rows[0].of_memory, COMPARE_WORSE);
    assert_int_equal(found.rows[0].of_launches, COMPARE_WORSE);
    assert_true(found.rows[1].is_broken && found.rows[1].of_time == COMPARE_NONE);
    assert_true(!found.rows[2].b && !found.rows[3].a);
    assert_int_equal(comparison_regressions(&found), 2);
    char *shown = render(&found, TABLE_TERMINAL);
    assert_non_null(strstr(shown, "BROKEN"));
    assert_non_null(strstr(shown, "OK in A, OOM in B: no room"));
    assert_non_null(strstr(shown, "only in A"));
    assert_non_null(strstr(shown, "only in B"));
    assert_non_null(strstr(shown, "MORE"));
    free(shown);
    comparison_release(&found);
    run_set_release(&one);
    run_set_release(&two);
}

static void runs_of_two_verbs_and_runs_without_a_common_cell_are_refused(void **state) {
    (void)state;
    results *a = start_run("1"), *b = results_create(RUN_ATTENTION, 0, NULL), *c = start_run("3");
    add_steps(add_cell(a, 128, "eager"), 10);
    add_steps(add_cell(a, 256, "compiled"), 10);
    add_steps(add_cell(b, 128, "eager"), 10);
    add_steps(add_cell(c, 512, "eager"), 10);
    add_steps(add_cell(c, 1024, "eager"), 10);
    run_set one = set_of(&a, 1), two = set_of(&b, 1), three = set_of(&c, 1);
    comparison found;
    assert_int_equal(compare_runs(&one, &two, USUAL, &found), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "attention"));
    comparison_release(&found);
    assert_int_equal(compare_runs(&one, &three, USUAL, &found), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "no cell in common"));
    comparison_release(&found);
    run_set_release(&one);
    run_set_release(&two);
    run_set_release(&three);
}

static void large_grids_are_matched_quickly(void **state) {
    (void)state;
    enum { CELLS = 5000 };
    results *a = start_run("1"), *b = start_run("2");
    for (int i = 0; i < CELLS; i++) {
        cell_set_text(add_cell(a, i, "eager"), PARAM_MATH, "fp32");
        cell_set_text(add_cell(b, CELLS - 1 - i, "eager"), PARAM_MATH, "fp32");
    }
    run_set one = set_of(&a, 1), two = set_of(&b, 1);
    comparison found;
    assert_int_equal(compare_runs(&one, &two, USUAL, &found), DYNO_OK);
    assert_int_equal(found.count, CELLS);
    assert_ptr_equal(found.rows[7].b, b->cells[CELLS - 8]);
    comparison_release(&found);
    run_set_release(&one);
    run_set_release(&two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_not_slower_than_itself_in_95_of_100_tries),
        cmocka_unit_test(with_twenty_rounds_most_comparisons_with_itself_are_decided),
        cmocka_unit_test(a_slow_down_of_3_percent_is_seen_in_90_of_100_tries),
        cmocka_unit_test(a_speed_up_of_3_percent_is_seen_as_well),
        cmocka_unit_test(single_runs_of_one_program_are_not_called_different),
        cmocka_unit_test(verdicts_follow_from_the_interval),
        cmocka_unit_test(cells_are_matched_by_their_parameters_in_any_order),
        cmocka_unit_test(what_differs_in_all_cells_is_what_is_compared),
        cmocka_unit_test(memory_and_cells_that_broke_are_regressions_and_launches_are_told),
        cmocka_unit_test(runs_of_two_verbs_and_runs_without_a_common_cell_are_refused),
        cmocka_unit_test(large_grids_are_matched_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
