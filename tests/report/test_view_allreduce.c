/* What the view of `dyno allreduce` derives from the samples of all ranks. */
#include <stdio.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/results.h"
#include "report/view.h"
#include "support/expect.h"

static results_cell *add_cell(results *run, const char *which, const char *transport, int ranks,
                              int64_t bytes) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_OP, which);
    cell_set_text(cell, PARAM_TYPE, "fp32");
    cell_set_text(cell, PARAM_TRANSPORT, transport);
    cell_set_text(cell, PARAM_OPERANDS, "shared");
    cell_set_integer(cell, PARAM_RANKS, ranks);
    cell_set_integer(cell, PARAM_BYTES, bytes);
    cell_set_integer(cell, PARAM_WARMUP, 1);
    cell_set_metric(cell, METRIC_COUNT, "", bytes / 4);
    return cell;
}

/* Each rank's times in ms; the slowest rank differs between repetitions. */
static void add_times(results_cell *cell, int ranks, double scale) {
    for (int r = 0; r < ranks; r++) {
        char name[32];
        snprintf(name, sizeof name, SERIES_RANK_PREFIX "%d", r);
        for (int i = 0; i < 3; i++)
            cell_add_sample(cell, name, "ns",
                            (int64_t)(1e6 * scale * (i == r % 3 ? 2 : 1 + 0.1 * i)));
        snprintf(name, sizeof name, SERIES_WARMUP_RANK_PREFIX "%d", r);
        cell_add_sample(cell, name, "ns", (int64_t)(9e6 * scale));
    }
    cell_set_metric(cell, METRIC_WRONG, "", 0);
    cell_set_integer(cell, PARAM_REPS, 3);
    cell_set_status(cell, RESULTS_OK, NULL);
}

static void expect_shown(const results *run, table_format format, const char *const *parts) {
    text out = {0};
    view_render(run, (view_options){.format = format}, &out);
    for (; *parts; parts++)
        if (!strstr(text_string(&out), *parts))
            fail_msg("'%s' is not in\n%s", *parts, text_string(&out));
    text_release(&out);
}

static void the_slowest_rank_makes_the_time_and_the_formulas_the_bandwidths(void **state) {
    (void)state;
    results *run = results_create(RUN_ALLREDUCE, 0, NULL);
    /* Ranks 0, 1 and 2 are slowest in turn: every repetition takes 2 ms. */
    add_times(add_cell(run, "all-reduce", "shared", 3, 6000000), 3, 1);
    add_times(add_cell(run, "reduce-scatter", "shared", 3, 6000000), 3, 1);
    add_times(add_cell(run, "broadcast", "shared", 3, 6000000), 3, 1);
    /* 6 MB in 2 ms are 3 GB/s; x 4/3, x 2/3, x 1. */
    expect_shown(run, TABLE_TERMINAL,
                 (const char *const[]){"2.000   2.000   2.000        3.00        4.00       0",
                                       "2.000   2.000   2.000        3.00        2.00       0",
                                       "2.000   2.000   2.000        3.00        3.00       0",
                                       "busbw = algbw x 2(n-1)/n for all-reduce", NULL});
    results_destroy(run);
}

static void growth_is_fitted_over_bytes_and_over_ranks(void **state) {
    (void)state;
    results *run = results_create(RUN_ALLREDUCE, 0, NULL);
    add_times(add_cell(run, "all-reduce", "shared", 2, 1000000), 2, 1);
    add_times(add_cell(run, "all-reduce", "shared", 2, 10000000), 2, 10);
    add_times(add_cell(run, "all-reduce", "shared", 4, 1000000), 4, 4);
    expect_shown(run, TABLE_TERMINAL,
                 (const char *const[]){
                     "time grows as bytes^k",
                     "shared, operands shared, all-reduce fp32, 2 ranks       2  1.00",
                     "time grows as ranks^k",
                     "shared, operands shared, all-reduce fp32, 1000000 bytes       2  2.00",
                     NULL});
    results_destroy(run);
}

static void nothing_is_derived_from_a_cell_that_did_not_finish(void **state) {
    (void)state;
    results *run = results_create(RUN_ALLREDUCE, 0, NULL);
    results_cell *stopped = add_cell(run, "all-reduce", "shared", 2, 1000000);
    cell_add_sample(stopped, SERIES_RANK_PREFIX "0", "ns", 1000000);
    results_cell *skipped = add_cell(run, "all-reduce", "nccl", 2, 1000000);
    cell_set_status(skipped, RESULTS_SKIP, "there is no GPU");
    /* It says OK, and one rank has fewer samples. */
    results_cell *uneven = add_cell(run, "all-reduce", "mpi", 2, 1000000);
    add_times(uneven, 2, 1);
    cell_add_sample(uneven, SERIES_RANK_PREFIX "0", "ns", 1000000);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_CSV}, &out);
    assert_non_null(strstr(text_string(&out), "there is no GPU"));
    assert_null(strstr(text_string(&out), ",OK,"));
    assert_null(strstr(text_string(&out), "time grows"));
    text_release(&out);
    results_destroy(run);
}

static void a_hostile_record_is_shown_without_harm(void **state) {
    (void)state;
    results *run = results_create(RUN_ALLREDUCE, 0, NULL);
    results_cell *cell = results_add_cell(run); /* no parameters at all */
    cell_set_status(cell, RESULTS_OK, NULL);
    cell = add_cell(run, "all-reduce", "shared", 1 << 30, -5);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell = results_add_cell(run);
    cell_set_text(cell, PARAM_RANKS, "many");
    cell_set_text(cell, PARAM_BYTES, "\x1b[31m");
    cell_set_status(cell, RESULTS_OK, NULL);
    for (int format = 0; format < TABLE_FORMAT_COUNT; format++) {
        text out = {0};
        view_render(run, (view_options){.format = (table_format)format}, &out);
        assert_null(strchr(text_string(&out), '\x1b'));
        text_release(&out);
    }
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_rank_makes_the_time_and_the_formulas_the_bandwidths),
        cmocka_unit_test(growth_is_fitted_over_bytes_and_over_ranks),
        cmocka_unit_test(nothing_is_derived_from_a_cell_that_did_not_finish),
        cmocka_unit_test(a_hostile_record_is_shown_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
