/* test_finding.c - what the numbers of a run say, as sentences: cells in, words out. */
#include "support/expect.h"

#include <string.h>

#include "measure/keys.h"
#include "measure/results.h"
#include "report/finding.h"
#include "support/findings.h"

/* ---- a run to speak of ---- */

static results_cell *add_bench(results *run, const char *pass, const char *math, double ms) {
    return findings_add_cell(
        run, (const char *[]){PARAM_MODEL, "small", PARAM_PASS, pass, PARAM_MATH, math, NULL}, ms);
}

static void a_run_that_tells_nothing_has_no_finding(void **state) {
    (void)state;
    static const char *const verbs[] = {RUN_BENCH, RUN_ATTENTION, RUN_MEMORY, RUN_ALLREDUCE,
                                        RUN_SCALE, RUN_PROFILE,   "future"};
    for (int i = 0; i < 7; i++) {
        results *run = results_create(verbs[i], 0, NULL);
        expect_finding(run, "");
        results_add_cell(run); /* about which nothing is known */
        expect_finding(run, "");
        results_destroy(run);
    }
}

/* ---- steps ---- */

static void add_phases(results_cell *cell, double forward, double backward) {
    cell_add_sample_real(cell, SERIES_FORWARD, "ms", forward);
    cell_add_sample_real(cell, SERIES_BACKWARD, "ms", backward);
}

static void the_backward_is_compared_with_the_forward(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_bench(run, "forward", "fp32", 1);
    expect_not_said(run, "backward");
    add_phases(add_bench(run, "forward+backward", "fp32", 3), 1, 2);
    expect_said(run, "The backward alone takes 2.00 times as long as the forward (model small, "
                     "pass forward+backward).");
    results_cell *step = add_bench(run, "step", "fp32", 4);
    add_phases(step, 1, 2.5);
    expect_said(run, "The backward alone takes 2.00 (model small, pass forward+backward) to 2.50 "
                     "times as long as the forward (model small, pass step).");
    cell_set_status(step, RESULTS_FAILED, "");
    expect_not_said(run, "2.50");
    results_destroy(run);
}

static void utilization_is_that_of_the_best_row_of_the_table(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    results_cell *cell = add_bench(run, "step", "fp32", 1000);
    cell_set_metric_real(cell, METRIC_MODEL_FLOPS, "FLOP", 25e9);
    expect_not_said(run, "MFU"); /* no peak was measured */
    results_set_environment_real(run, ENV_PEAK_GFLOPS, 100);
    expect_said(
        run,
        "The highest MFU of a whole step is 25.0 % of the measured peak (model small, pass step).");
    add_bench(run, "step", "bf16", 500); /* which is faster is another question */
    expect_not_said(run, "MFU");
    results_destroy(run);
}

static void expect_limits(const results *run, const char *wanted) {
    text out = {0};
    finding_append_limits(run, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

/* Of 100 GFLOP/s. */
static results_cell *add_utilized(results *run, const char *pass, const char *math,
                                  double percent) {
    results_set_environment_real(run, ENV_PEAK_GFLOPS, 100);
    results_cell *cell = add_bench(run, pass, math, 1000);
    cell_set_metric_real(cell, METRIC_MODEL_FLOPS, "FLOP", percent * 1e9);
    return cell;
}

static void more_than_the_peak_is_said_to_be_a_mistake(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_utilized(run, "step", "fp32", 100);
    expect_limits(run, "The highest MFU of a whole step is 100.0 % of the measured peak (model "
                       "small, pass step).");
    results_destroy(run);
    run = results_create(RUN_BENCH, 0, NULL);
    add_utilized(run, "step", "fp32", 110);
    expect_limits(
        run,
        "The highest MFU of a whole step is 110.0 % of the measured peak (model small, pass step). "
        "More than 100 % is not possible: the machine was slower when its peak was "
        "measured.");
    results_destroy(run);
}

static void utilization_is_that_of_whole_steps_where_there_are_some(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    results_cell *forward = add_utilized(run, "forward+backward", "fp32", 60);
    cell_add_sample_real(forward, SERIES_FORWARD, "ms", 100);
    cell_set_metric_real(forward, METRIC_MODEL_FORWARD_FLOPS, "FLOP", 8e9); /* 80 % */
    expect_limits(run, "The highest MFU is 60.0 % of the measured peak (model small, pass "
                       "forward+backward).");
    results_cell *step = add_utilized(run, "step", "fp32", 50);
    cell_add_sample_real(step, SERIES_FORWARD, "ms", 100);
    cell_set_metric_real(step, METRIC_MODEL_FORWARD_FLOPS, "FLOP", 9e9);
    expect_limits(
        run,
        "The highest MFU of a whole step is 50.0 % of the measured peak (model small, pass step).");
    results_destroy(run);
}

static void utilization_is_said_of_each_of_a_few_maths(void **state) {
    (void)state;
    static const char *const maths[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 5; i++) {
        if (i == 2) /* before there are more than one can read */
            expect_limits(
                run,
                "The highest MFU of a whole step is 80.0 % of the measured peak in fp32 (model "
                "small, pass step), 70.0 % in tf32 (model small, pass step).");
        add_utilized(run, "step", maths[i], 70);
        add_utilized(run, "step", maths[i], i ? 60 : 80);
    }
    expect_limits(
        run,
        "The highest MFU of a whole step is 80.0 % of the measured peak (model small, pass step, "
        "math fp32).");
    results_destroy(run);
}

static void utilization_is_not_that_of_times_that_scatter(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    cell_add_sample_real(add_utilized(run, "step", "fp32", 90), SERIES_STEP, "ms", 2000);
    expect_limits(
        run,
        "The highest MFU of a whole step is 60.0 % of the measured peak (model small, pass step).");
    cell_add_sample_real(add_utilized(run, "step", "fp32", 50), SERIES_STEP, "ms", 1000);
    expect_limits(
        run,
        "The highest MFU of a whole step is 50.0 % of the measured peak (model small, pass step).");
    results_destroy(run);
}

static void add_traced(results_cell *cell, double step_ms, double casts_ms) {
    cell_set_metric_real(cell, METRIC_TRACED_STEP_NS, "ns", step_ms * 1e6);
    cell_set_metric_real(cell, METRIC_CAST_NS, "ns", casts_ms * 1e6);
}

static void add_time(results_cell *cell, const char *breakdown, const char *key, double ms) {
    const char *name = "key";
    const results_column columns[] = {{COLUMN_COUNT, ""}, {COLUMN_TIME, "ns"}};
    results_breakdown *b = cell_add_breakdown(cell, breakdown, &name, 1, columns, 2);
    breakdown_add_row(b, &key, (results_value[]){results_integer(1), results_real(ms * 1e6)});
    key = "layers.*.mlp.up";
    breakdown_add_row(b, &key, (results_value[]){results_integer(1), results_real(1e6)});
}

static void casts_and_scores_are_of_the_longest_step_in_each_precision(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 4; i++) {
        results_cell *cell = add_bench(run, i < 2 ? "forward" : "step", i % 2 ? "bf16" : "fp32", 5);
        cell_set_text(cell, PARAM_GRADIENTS, i % 2 ? "bf16" : "fp32"); /* follows from math */
        add_traced(cell, i < 2 ? 4 : 8 - i % 2 * 4, i % 2);
        add_time(cell, BREAKDOWN_BY_SCOPE, "layers.*.attn.scores", i % 2 ? 0.5 : 2);
    }
    expect_said(run, "Casts take 0.000 of 8.000 ms (0.0 %) in fp32, 1.000 of 4.000 ms (25.0 %) in "
                     "bf16 (of a traced step; model small, pass step).");
    expect_said(run,
                " The scores of attention alone take 2.000 of 8.000 ms (25.0 %) in fp32, 0.500 "
                "of 4.000 ms (12.5 %) in bf16 (of a traced step; model small, pass step).");
    results_destroy(run);
}

static void casts_that_are_fused_are_not_told_apart(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    results_cell *fp32 = add_bench(run, "step", "fp32", 5),
                 *bf16 = add_bench(run, "step", "bf16", 5);
    cell_set_text(fp32, PARAM_MODE, "compiled");
    cell_set_text(bf16, PARAM_MODE, "compiled");
    add_traced(fp32, 4, 0);
    expect_said(run, "Casts take 0.000 of 4.000 ms (0.0 %) in fp32"); /* where there are none */
    add_traced(bf16, 2, 0);
    expect_said(run, "Casts in bf16 are fused with other ops in mode compiled and take no launch "
                     "of their own, so that their time cannot be told apart.");
    expect_not_said(run, "Casts take");
    cell_set_metric(bf16, METRIC_CAST_LAUNCHES, "", 3); /* too short for the clock */
    expect_said(run, "0.000 of 2.000 ms (0.0 %) in bf16");
    expect_not_said(run, "fused");
    cell_set_text(bf16, PARAM_MODE, "eager");
    cell_set_metric(bf16, METRIC_CAST_LAUNCHES, "", 0);
    expect_not_said(run, "fused");
    results_destroy(run);
}

static void expect_next(const results *run, const char *wanted) {
    text out = {0};
    finding_append_next(run, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

/* Beside 1 ms of another. */
static void what_takes_most_is_of_the_slowest_step(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_time(add_bench(run, "forward", "fp32", 90), BREAKDOWN_BY_KERNEL, "gemm", 9);
    expect_next(run,
                "Kernel gemm takes the most time, 90 % of a pass (model small, pass forward).");
    add_time(add_bench(run, "forward", "bf16", 20), BREAKDOWN_BY_KERNEL, "gemm", 9);
    expect_next(run, "Kernel gemm takes the most time, 90 % of the slowest pass (model small, pass "
                     "forward, math fp32).");
    add_time(add_bench(run, "step", "tf32", 40), BREAKDOWN_BY_CLASS, "matmul", 4);
    expect_next(run, "Class matmul takes the most time, 80 % of a step (model small, pass step, "
                     "math tf32).");
    add_time(add_bench(run, "step", "fp32", 50), BREAKDOWN_BY_KERNEL, "gemm", 3);
    add_time(add_bench(run, "step", "bf16", 20), BREAKDOWN_BY_KERNEL, "copy", 9);
    expect_next(run, "Kernel gemm takes the most time, 75 % of the slowest step (model small, pass "
                     "step, math fp32).");
    results_destroy(run);
}

static void a_fused_kernel_does_not_tell_its_scores_apart(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    results_cell *cell = add_bench(run, "step", "bf16", 5);
    expect_not_said(run, "ttention"); /* it was not traced */
    expect_not_said(run, "Casts");
    add_traced(cell, 4, 0);
    add_time(cell, BREAKDOWN_BY_CLASS, "attention", 1);
    expect_said(run, "Attention, whose scores one kernel computes with all the rest, takes 1.000 "
                     "of 4.000 ms (25.0 %) in bf16 (of a traced step; model small, pass step).");
    cell_set_status(cell, RESULTS_INCOMPLETE, NULL);
    expect_not_said(run, "Attention, whose");
    expect_not_said(run, "Casts");
    results_destroy(run);
}

/* ---- ways to do the same ---- */

static results_cell *add_mode(results *run, const char *pass, const char *mode,
                              const char *attention, double ms) {
    return findings_add_cell(run,
                             (const char *[]){PARAM_MODEL, "small", PARAM_PASS, pass, PARAM_MODE,
                                              mode, PARAM_ATTENTION, attention, NULL},
                             ms);
}

static void a_faster_mode_names_what_else_differs(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    cell_set_text(add_mode(run, "step", "eager", "naive", 4), PARAM_GRADIENTS, "fp32");
    cell_set_text(add_mode(run, "step", "compiled", "flash", 1), PARAM_GRADIENTS, "bf16");
    expect_said(run, "At best mode compiled (attention flash, gradients bf16) is 4.00 times as "
                     "fast as eager (attention naive, gradients fp32), 4.00 to 4.00 between "
                     "quartiles (model small, pass step).");
    results_destroy(run);
    run = results_create(RUN_BENCH, 0, NULL);
    add_mode(run, "step", "eager", "flash", 4);
    add_mode(run, "step", "compiled", "flash", 2);
    add_mode(run, "forward", "compiled", "naive", 2); /* attention varies, but not between them */
    expect_said(run, "At best mode compiled is 2.00 times as fast as eager, 2.00 to 2.00 between "
                     "quartiles (model small, pass step, attention flash).");
    results_destroy(run);
}

static void a_faster_mode_is_that_of_whole_steps_where_there_are_some(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_mode(run, "forward", "eager", "flash", 9);
    add_mode(run, "forward", "compiled", "flash", 1);
    expect_said(run, "At best mode compiled is 9.00 times as fast as eager");
    add_mode(run, "step", "eager", "flash", 30);
    expect_said(run, "is 9.00 times"); /* one step has nothing to be compared with */
    add_mode(run, "step", "compiled", "flash", 10);
    expect_said(run, "At best mode compiled is 3.00 times as fast as eager");
    results_destroy(run);
}

/* Either time may be 0: the pass was not asked for. */
/* ---- several ranks ---- */

static results_cell *add_ranks(results *run, const char *way, int ranks, double all,
                               double exposed) {
    results_cell *cell = findings_add_cell(
        run, (const char *[]){PARAM_MODEL, "small", PARAM_PASS, "step", PARAM_PARALLEL, way, NULL},
        10);
    cell_set_integer(cell, PARAM_RANKS, ranks);
    if (all > 0) {
        cell_add_sample_real(cell, SERIES_COLLECTIVES, "ms", all);
        cell_add_sample_real(cell, SERIES_EXPOSED, "ms", exposed);
    }
    return cell;
}

static void the_hidden_part_of_communication_is_said_of_every_way(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_ranks(run, "ddp-naive", 2, 4, 4);
    expect_said(run, "Of the communication 0 % is hidden behind computing with ddp-naive (exposed: "
                     "4.00 of 4.00 ms).");
    add_ranks(run, "ddp-overlap", 2, 4, 1);
    add_ranks(run, "ddp-flat", 2, 0, 0); /* has no times of collectives */
    cell_set_status(add_ranks(run, "fsdp", 2, 4, 0), RESULTS_OOM, "");
    expect_said(run, "Of the communication 75 % is hidden behind computing with ddp-overlap "
                     "(exposed: 1.00 of 4.00 ms), the most; 0 % with ddp-naive.");
    results_destroy(run);
}

/* The most ranks are those of one number of tokens, the steps of a table have others. */
static void steps_on_paper_say_how_many_communicate_for_longer(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    static const double compute_ns[] = {5, 5, 9}, collectives_ns[] = {7, 4, 9};
    for (int i = 0; i < 3; i++) {
        results_cell *cell = results_add_cell(run);
        cell_set_integer(cell, PARAM_RANKS, 8 << i);
        cell_set_integer(cell, PARAM_BATCH, 4);
        cell_set_integer(cell, PARAM_CONTEXT, 1024);
        cell_set_metric_real(cell, METRIC_COMPUTE_NS, "ns", compute_ns[i]);
        cell_set_metric_real(cell, METRIC_COLLECTIVES_NS, "ns", collectives_ns[i]);
    }
    expect_said(run, "Of 3 steps of the table (batch 4, context 1024), 1 communicates for longer "
                     "than it computes.");
    results_destroy(run);
}

static void one_rank_communicates_nothing(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_ranks(run, "none", 1, 4, 1);
    expect_not_said(run, "communication");
    results_destroy(run);
}

static void add_memory(results_cell *cell, int64_t weights, int64_t states) {
    static const char *const keys[] = {KEY_STAGE, KEY_KIND};
    const results_column columns[] = {{COLUMN_PREDICTED, "B"}, {COLUMN_MEASURED, "B"}};
    results_breakdown *b = cell_add_breakdown(cell, BREAKDOWN_MEMORY_STAGES, keys, 2, columns, 2);
    breakdown_add_row(b, (const char *[]){"peak", "parameter"},
                      (results_value[]){results_integer(weights), results_integer(weights)});
    breakdown_add_row(b, (const char *[]){"peak", "optimizer-state"},
                      (results_value[]){results_integer(states), results_integer(states)});
    cell_set_metric(cell, METRIC_PARAMETERS, "", 1000000);
    cell_set_metric_real(cell, METRIC_BYTES_SENT, "B", 3e6);
}

static void sharding_says_what_it_saves_of_each_kind_and_what_it_sends(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_memory(add_ranks(run, "ddp-bucket:25", 2, 0, 0), 400, 800);
    expect_not_said(run, "needs"); /* there is nothing to hold against it */
    add_memory(add_ranks(run, "zero1", 2, 0, 0), 400, 400);
    /* zero1: (n-1)/n (4 + 4) bytes of a million parameters are 4 MB. */
    expect_said(run,
                "On 2 ranks zero1 needs, against ddp-bucket:25 at the fullest moment, 400 B less "
                "state (-50.0 %), 400 B less in all (-33.3 %), and the same weights; a rank sends "
                "3.00 MB a step, 75.0 % of the formula's 4.00 MB.");
    results_destroy(run);
}

static void sharding_is_compared_with_the_same_ranks_that_ran(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_memory(add_ranks(run, "ddp-flat", 2, 0, 0), 400, 800);
    results_cell *fsdp = add_ranks(run, "fsdp", 4, 0, 0);
    add_memory(fsdp, 100, 200);
    expect_not_said(run, "needs"); /* of 4 ranks nothing plain was measured */
    cell_set_integer(fsdp, PARAM_RANKS, 2);
    expect_said(run, "On 2 ranks fsdp needs");
    cell_set_status(fsdp, RESULTS_FAILED, "");
    expect_not_said(run, "needs");
    results_destroy(run);
}

static void hostile_numbers_say_nothing_wrong(void **state) {
    (void)state;
    static const double numbers[] = {-1, 0, 1e308, 5e-324};
    static const char *const verbs[] = {RUN_BENCH, RUN_ATTENTION, RUN_MEMORY};
    for (int v = 0; v < 3; v++) {
        results *run = results_create(verbs[v], 0, NULL);
        for (int i = 0; i < 4; i++) {
            results_cell *cell = add_ranks(run, i % 2 ? "zero1" : "ddp", 2, 1, numbers[i]);
            cell_set_real(cell, PARAM_SEQ, numbers[i]);
            cell_set_real(cell, PARAM_CONTEXT, numbers[i]);
            cell_set_text(cell, PARAM_IMPL, i % 2 ? "naive" : "flash");
            cell_set_metric_real(cell, METRIC_PEAK_BYTES, "B", numbers[i]);
            cell_set_metric_real(cell, METRIC_PARAMETERS, "", numbers[i]);
            add_memory(cell, INT64_MAX, -1);
            add_traced(cell, numbers[i], numbers[3 - i]);
        }
        text out = {0};
        finding_append(run, &out);
        assert_null(strstr(text_string(&out), "nan"));
        text_release(&out);
        results_destroy(run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_tells_nothing_has_no_finding),
        cmocka_unit_test(the_backward_is_compared_with_the_forward),
        cmocka_unit_test(utilization_is_that_of_the_best_row_of_the_table),
        cmocka_unit_test(more_than_the_peak_is_said_to_be_a_mistake),
        cmocka_unit_test(utilization_is_that_of_whole_steps_where_there_are_some),
        cmocka_unit_test(utilization_is_said_of_each_of_a_few_maths),
        cmocka_unit_test(utilization_is_not_that_of_times_that_scatter),
        cmocka_unit_test(casts_and_scores_are_of_the_longest_step_in_each_precision),
        cmocka_unit_test(casts_that_are_fused_are_not_told_apart),
        cmocka_unit_test(what_takes_most_is_of_the_slowest_step),
        cmocka_unit_test(a_fused_kernel_does_not_tell_its_scores_apart),
        cmocka_unit_test(a_faster_mode_names_what_else_differs),
        cmocka_unit_test(a_faster_mode_is_that_of_whole_steps_where_there_are_some),
        cmocka_unit_test(the_hidden_part_of_communication_is_said_of_every_way),
        cmocka_unit_test(steps_on_paper_say_how_many_communicate_for_longer),
        cmocka_unit_test(one_rank_communicates_nothing),
        cmocka_unit_test(sharding_says_what_it_saves_of_each_kind_and_what_it_sends),
        cmocka_unit_test(sharding_is_compared_with_the_same_ranks_that_ran),
        cmocka_unit_test(hostile_numbers_say_nothing_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
