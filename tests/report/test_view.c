#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "measure/results_json.h"
#include "report/run_set.h"
#include "report/view.h"

static results_cell *add_cell(results *run, const char *model, int64_t context, const char *pass) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, "model", model);
    cell_set_integer(cell, "context", context);
    cell_set_integer(cell, "batch", 4);
    cell_set_integer(cell, "warmup", 1);
    cell_set_text(cell, "pass", pass);
    cell_set_text(cell, "math", "fp32");
    cell_set_text(cell, "device", "cpu");
    cell_set_integer(cell, "steps", 3);
    return cell;
}

static void add_steps(results_cell *cell, const char *name, int64_t ms) {
    for (int i = 0; i < 3; i++)
        cell_add_sample(cell, name, "ns", (ms - 1 + i) * 1000000);
}

/* One cell of each kind. */
static results *example_without_peak(void) {
    results *run = results_create("bench", 0, NULL);
    run->is_complete = true;
    results_set_environment_text(run, "cpu", "Some CPU");
    results_cell *cell = add_cell(run, "small", 128, "forward+backward");
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_add_sample(cell, "warmup", "ns", 50000000);
    add_steps(cell, "step", 10);
    add_steps(cell, "backward", 5);
    cell_set_metric(cell, "flops", "FLOP", 1000000000);
    cell_set_metric(cell, "backward_flops", "FLOP", 250000000);
    cell_set_metric(cell, "model_flops", "FLOP", 800000000);
    cell_set_metric(cell, "model_forward_flops", "FLOP", 300000000);
    cell_set_metric(cell, "model_backward_flops", "FLOP", 200000000);
    cell_set_metric(cell, "tokens", "token", 512);
    cell_set_metric(cell, "peak_bytes", "B", 3 << 20);
    cell_set_metric(cell, "predicted_bytes", "B", 2 << 20);
    cell_set_metric(cell, "saved_bytes", "B", 1 << 20);
    cell_set_metric(cell, "launches", "", 42);
    cell_set_metric(cell, "first_step_ns", "ns", 70000000);
    cell = add_cell(run, "xl", 2048, "forward");
    cell_set_status(cell, RESULTS_OOM, "at layers.3");
    cell_set_metric(cell, "needed_bytes", "B", INT64_C(12) << 30);
    cell_set_metric(cell, "available_bytes", "B", INT64_C(3) << 30);
    add_steps(cell, "step", 10); /* must not show */
    return run;
}

static results *example(void) {
    results *run = example_without_peak();
    results_set_environment_real(run, "peak_gflops", 200);
    return run;
}

static json_t *rows_of(const results *run, bool is_full) {
    report_table *table = view_create_bench_table(run, is_full);
    text out = {0};
    table_render(table, TABLE_JSON, false, &out);
    json_t *rows = json_loads(text_string(&out), 0, NULL);
    assert_non_null(rows);
    text_release(&out);
    table_destroy(table);
    return rows;
}

static double number(const json_t *rows, size_t row, const char *key) {
    const json_t *value = json_object_get(json_array_get(rows, row), key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *string(const json_t *rows, size_t row, const char *key) {
    return json_string_value(json_object_get(json_array_get(rows, row), key));
}

static void statistics_and_rates_come_from_the_samples(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run, false);
    assert_int_equal(json_array_size(rows), 3);
    assert_string_equal(string(rows, 0, "status"), "OK");
    assert_true(fabs(number(rows, 0, "warmup_ms") - 50) < 1e-9);
    assert_true(fabs(number(rows, 0, "first_step_ms") - 70) < 1e-9);
    assert_true(fabs(number(rows, 0, "total_ms") - 30) < 1e-9);
    assert_true(fabs(number(rows, 0, "std_percent") - 10) < 1e-9);
    assert_true(fabs(number(rows, 0, "predicted_mib") - 2) < 1e-9);
    assert_true(fabs(number(rows, 0, "saved_mib") - 1) < 1e-9);
    assert_true(number(rows, 0, "launches") == 42);
    /* Nothing to compare with, and nothing was traced: no columns. */
    static const char *const absent[] = {"speedup", "recompute_extra_ms", "cast_ms"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(json_object_get(json_array_get(rows, 0), absent[i]));
    assert_true(fabs(number(rows, 0, "mean_ms") - 10) < 1e-9);
    assert_true(fabs(number(rows, 0, "std_ms") - 1) < 1e-9);
    assert_true(fabs(number(rows, 0, "median_ms") - 10) < 1e-9);
    assert_true(fabs(number(rows, 0, "min_ms") - 9) < 1e-9);
    assert_true(fabs(number(rows, 0, "max_ms") - 11) < 1e-9);
    assert_true(fabs(number(rows, 0, "tokens_per_s") - 51200) < 1e-6);
    assert_true(fabs(number(rows, 0, "gflops") - 100) < 1e-9);
    assert_true(fabs(number(rows, 0, "hfu_percent") - 50) < 1e-9);
    assert_true(fabs(number(rows, 0, "mfu_percent") - 40) < 1e-9);
    assert_true(fabs(number(rows, 0, "peak_mib") - 3) < 1e-9);
    json_decref(rows);
    results_destroy(run);
}

static void the_backward_alone_is_a_row_of_its_own(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run, false);
    assert_string_equal(string(rows, 1, "pass"), "backward");
    assert_true(fabs(number(rows, 1, "median_ms") - 5) < 1e-9);
    assert_true(fabs(number(rows, 1, "gflops") - 50) < 1e-9);
    assert_true(fabs(number(rows, 1, "mfu_percent") - 20) < 1e-9);
    assert_true(fabs(number(rows, 1, "hfu_percent") - 25) < 1e-9);
    assert_true(isnan(number(rows, 1, "tokens_per_s")));
    json_decref(rows);
    results_destroy(run);
}

static void a_backward_that_did_not_complete_has_no_row(void **state) {
    (void)state;
    results *run = example();
    results_cell *cell = add_cell(run, "large", 128, "forward+backward");
    cell_set_status(cell, RESULTS_OK, NULL);
    add_steps(cell, "step", 10);
    cell_add_sample(cell, "backward", "ns", 5000000); /* one of three */
    json_t *rows = rows_of(run, false);
    assert_int_equal(json_array_size(rows), 4);
    json_decref(rows);
    results_destroy(run);
}

static void the_phases_of_a_step_are_rows(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = add_cell(run, "small", 128, "step");
    cell_set_status(cell, RESULTS_OK, NULL);
    add_steps(cell, "step", 10);
    add_steps(cell, "forward", 3);
    add_steps(cell, "backward", 5);
    add_steps(cell, "optimizer", 2);
    json_t *rows = rows_of(run, false);
    assert_int_equal(json_array_size(rows), 4);
    assert_string_equal(string(rows, 1, "pass"), "step: forward");
    assert_string_equal(string(rows, 2, "pass"), "step: backward");
    assert_string_equal(string(rows, 3, "pass"), "step: optimizer");
    json_decref(rows);
    cell = add_cell(run, "small", 128, "forward");
    cell_set_status(cell, RESULTS_OK, NULL);
    add_steps(cell, "step", 10);
    add_steps(cell, "forward", 10); /* the pass itself: no second row */
    rows = rows_of(run, false);
    assert_int_equal(json_array_size(rows), 5);
    json_decref(rows);
    results_destroy(run);
}

static void nothing_is_derived_from_a_cell_that_is_not_ok(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run, false);
    static const char *const derived[] = {
        "total_ms",    "std_percent", "warmup_ms", "mean_ms",      "std_ms",
        "median_ms",   "min_ms",      "max_ms",    "tokens_per_s", "gflops",
        "hfu_percent", "mfu_percent", "peak_mib"};
    assert_string_equal(string(rows, 2, "status"), "OOM");
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
        assert_true(isnan(number(rows, 2, derived[i])));
    assert_string_equal(string(rows, 2, "note"), "needs 12.00 GiB, there is 3.00 GiB; at layers.3");
    json_decref(rows);
    results_destroy(run);
}

typedef struct way {
    const char *mode, *recompute;
    int64_t context, ms;
    results_status status;
} way;

/* Against the first way at the same context, which need not be that of the run's first cell. */
static void rows_are_compared_with_the_first_way_and_with_no_recompute(void **state) {
    (void)state;
    static const way ways[] = {
        {"skipped", "none", 128, 0, RESULTS_SKIP}, {"eager", "none", 128, 40, RESULTS_OK},
        {"eager", "full", 128, 50, RESULTS_OK},    {"eager", "none", 256, 100, RESULTS_OK},
        {"eager", "full", 256, 90, RESULTS_OK},    {"compiled", "none", 128, 20, RESULTS_OK},
        {"compiled", "full", 128, 25, RESULTS_OK}, {"compiled", "none", 256, 0, RESULTS_OOM},
        {"compiled", "full", 256, 60, RESULTS_OK}};
    enum { COUNT = sizeof ways / sizeof *ways };
    static const double nothing = (double)NAN;
    const double speedups[COUNT] = {nothing, 1, 0.8, 1, 10.0 / 9, 2, 1.6, nothing, 5.0 / 3};
    const double extra_ms[COUNT] = {nothing, nothing, 10,      nothing, -10,
                                    nothing, 5,       nothing, nothing};
    const double extra[COUNT] = {nothing, nothing, 25, nothing, -10, nothing, 25, nothing, nothing};
    results *run = results_create("bench", 0, NULL);
    for (int i = 0; i < COUNT; i++) {
        results_cell *cell = add_cell(run, "small", ways[i].context, "forward");
        cell_set_text(cell, "mode", ways[i].mode);
        cell_set_text(cell, "recompute", ways[i].recompute);
        cell_set_status(cell, ways[i].status, "why");
        cell_set_metric_real(cell, "cast_ns", "ns", 1e6 * i);
        if (ways[i].ms)
            add_steps(cell, "step", ways[i].ms);
    }
    json_t *rows = rows_of(run, false);
    assert_int_equal(json_array_size(rows), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const double wanted[] = {speedups[i], extra_ms[i], extra[i],
                                 ways[i].status == RESULTS_OK ? (double)i : nothing};
        static const char *const keys[] = {"speedup", "recompute_extra_ms",
                                           "recompute_extra_percent", "cast_ms"};
        for (int j = 0; j < 4; j++) {
            double found = number(rows, i, keys[j]);
            if (isnan(found) != isnan(wanted[j]) || fabs(found - wanted[j]) > 1e-9)
                fail_msg("row %d: %s is %g, not %g", (int)i, keys[j], found, wanted[j]);
        }
    }
    json_decref(rows);
    results_destroy(run);
}

/* The cells of a process share what was compiled, tuned and cached before them. */
static void a_first_step_is_not_said_to_have_all_that_happens_once(void **state) {
    (void)state;
    results *run = example();
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out),
                           "first step: with what happens once and had not happened before, in "
                           "this process or its caches; total: the timed steps"));
    text_release(&out);
    results_destroy(run);
}

static void too_few_samples_make_a_cell_incomplete(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = add_cell(run, "small", 128, "forward");
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_add_sample(cell, "step", "ns", 1000);
    cell = add_cell(run, "small", 256, "forward");
    cell_set_status(cell, RESULTS_OK, NULL);
    json_t *rows = rows_of(run, false);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(string(rows, i, "status"), "INCOMPLETE");
        assert_true(isnan(number(rows, i, "mean_ms")));
    }
    json_decref(rows);
    results_destroy(run);
}

static void people_see_parameters_that_vary_and_csv_all(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run, false), *full = rows_of(run, true);
    assert_null(json_object_get(json_array_get(rows, 0), "device"));
    assert_string_equal(string(full, 0, "device"), "cpu");
    assert_string_equal(string(rows, 0, "math"), "fp32"); /* in every row, whatever varies */
    json_decref(rows);
    json_decref(full);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "device cpu"));
    text_release(&out);
    results_cell *cell = add_cell(run, "small", 128, "forward");
    cell_set_text(cell, "math", "tf32");
    cell_set_text(cell, "device", "cuda:0");
    rows = rows_of(run, false);
    assert_string_equal(string(rows, 3, "math"), "tf32");
    assert_string_equal(string(rows, 3, "device"), "cuda:0");
    json_decref(rows);
    results_destroy(run);
}

static void rows_in_bf16_are_held_against_products_of_bf16(void **state) {
    (void)state;
    results *run = example();
    cell_set_text(run->cells[0], "math", "bf16");
    json_t *rows = rows_of(run, false);
    assert_true(fabs(number(rows, 0, "hfu_percent") - 50) < 1e-9); /* of the only one there is */
    json_decref(rows);
    results_set_environment_real(run, "peak_bf16_gflops", 800);
    results_set_environment_text(run, "peak_bf16_by", "AMX tiles");
    rows = rows_of(run, false);
    assert_true(fabs(number(rows, 0, "hfu_percent") - 12.5) < 1e-9);
    json_decref(rows);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "peak of rows in bf16 = 800.0 GFLOP/s, measured here "
                                              "with AMX tiles"));
    text_release(&out);
    results_destroy(run);
}

static void merged_rows_are_held_against_the_peak_of_their_own_run(void **state) {
    (void)state;
    results *fp32 = example(), *bf16 = example_without_peak();
    cell_set_text(bf16->cells[0], "math", "bf16");
    results_set_environment_real(bf16, "peak_gflops", 250);
    results_set_environment_real(bf16, "peak_bf16_gflops", 400);
    results_set_environment_text(bf16, "peak_bf16_by", "dot products");
    run_set set = {.runs = (results *[]){fp32, bf16}, .names = (char *[]){"a", "b"}, .count = 2};
    results *run;
    assert_int_equal(run_set_merge(&set, "study", &run), DYNO_OK);
    json_t *rows = rows_of(run, false);
    int64_t second = 0; /* the row of the other run's first cell */
    while (strcmp(string(rows, (size_t)second, "math"), "bf16") != 0)
        second++;
    assert_true(fabs(number(rows, 0, "hfu_percent") - 50) < 1e-9);
    assert_true(fabs(number(rows, (size_t)second, "hfu_percent") - 25) < 1e-9);
    json_decref(rows);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "peak = 200.0 to 250.0 GFLOP/s, each part's own"));
    assert_non_null(strstr(text_string(&out), "peak of rows in bf16 = 400.0 GFLOP/s, measured here "
                                              "with dot products"));
    text_release(&out);
    results_destroy(run);
    results_destroy(fp32);
    results_destroy(bf16);
}

static void without_a_peak_there_are_no_shares_of_it(void **state) {
    (void)state;
    results *run = example_without_peak();
    static const char *const shares[] = {"mfu_percent", "hfu_percent"};
    json_t *rows = rows_of(run, false), *full = rows_of(run, true);
    for (int i = 0; i < 2; i++) {
        assert_null(json_object_get(json_array_get(rows, 0), shares[i]));
        assert_true(json_is_null(json_object_get(json_array_get(full, 0), shares[i])));
    }
    assert_true(fabs(number(rows, 0, "gflops") - 100) < 1e-9); /* needs none */
    json_decref(rows);
    json_decref(full);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "no MFU and no HFU: no peak was measured"));
    assert_null(strstr(text_string(&out), "MFU %"));
    text_release(&out);
    results_destroy(run);
}

/* Every row of a GPU has its own peak, that of products in its math. */
static void a_gpu_has_columns_and_notes_of_its_own(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_set_environment_text(run, "cpu", "Some CPU");
    results_set_environment_text(run, "gpu", "Some GPU");
    results_cell *cell = add_cell(run, "small", 128, "step");
    cell_set_text(cell, "device", "cuda:0");
    cell_set_metric_real(cell, "flops", "FLOP", 5e9);
    cell_set_metric_real(cell, "peak_gflops", "GFLOP/s", 10);
    cell_set_metric(cell, "device_used_bytes", "B", 3 << 20);
    cell_set_metric(cell, "traced_step_ns", "ns", 1100000000);
    cell_set_metric(cell, "in_launches_ns", "ns", 900000000);
    cell_add_sample(cell, "step", "ns", 1000000000);
    cell_set_integer(cell, "steps", 1);
    cell_set_status(cell, RESULTS_OK, NULL);
    const results_column columns[] = {{"time", "ns"}};
    const char *key = "class";
    results_value time = results_integer(1100000000);
    breakdown_add_row(cell_add_breakdown(cell, "by_class", &key, 1, columns, 1),
                      (const char *const[]){"matmul"}, &time);
    json_t *rows = rows_of(run, false);
    assert_true(number(rows, 0, "hfu_percent") == 50);
    assert_true(number(rows, 0, "device_used_mib") == 3);
    json_decref(rows);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "bench on Some GPU"));
    assert_non_null(strstr(text_string(&out), "rate of large products in the row's math"));
    assert_non_null(strstr(text_string(&out), "launches take 900.000 ms one by one, the untraced "
                                              "step 1000.000 ms: +10.0 %"));
    text_release(&out);
    results_destroy(run);
}

/* Two classes side by side for 100 of 900 ms: time adds up to the step, rates are those of what
 * ran. */
static void a_gpus_own_records_say_how_busy_it_was(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = add_cell(run, "small", 128, "step");
    cell_set_text(cell, "device", "cuda:0");
    cell_set_metric(cell, "traced_step_ns", "ns", 1020000000);
    cell_set_metric(cell, "device_span_ns", "ns", 1000000000);
    cell_set_metric(cell, "device_busy_ns", "ns", 900000000);
    cell_set_metric(cell, "between_steps_ns", "ns", 12500);
    cell_add_sample(cell, "step", "ns", 1000000000);
    cell_set_integer(cell, "steps", 1);
    cell_set_status(cell, RESULTS_OK, NULL);
    const results_column columns[] = {{"time", "ns"}, {"bytes", "B"}, {"running", "ns"}};
    const char *key = "class";
    results_breakdown *table = cell_add_breakdown(cell, "by_class", &key, 1, columns, 3);
    static const struct {
        const char *key;
        double time, bytes, running;
    } lines[] = {{"matmul", 650e6, 1e9, 700e6},
                 {"optimizer", 250e6, 3e9, 300e6},
                 {"(between)", 100e6, 0, 0}};
    for (int i = 0; i < 3; i++)
        breakdown_add_row(table, &lines[i].key,
                          (const results_value[]){results_real(lines[i].time),
                                                  results_real(lines[i].bytes),
                                                  results_real(lines[i].running)});
    json_t *rows = rows_of(run, false);
    assert_true(fabs(number(rows, 0, "device_busy_percent") - 90) < 1e-9);
    assert_true(fabs(number(rows, 0, "device_idle_percent") - 10) < 1e-9);
    json_decref(rows);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "running ms"));
    assert_non_null(strstr(text_string(&out), "GPU busy %"));
    assert_non_null(strstr(text_string(&out), "  10.0\n")); /* GB/s of the optimizer */
    assert_non_null(strstr(text_string(&out), "busy 900.000 of 1000.000 ms, idle 10.00 %"));
    assert_non_null(
        strstr(text_string(&out), "12.5 us from a step's last launch to the next step's first"));
    assert_null(strstr(text_string(&out), "one by one"));
    text_release(&out);
    results_destroy(run);
}

static void an_interrupted_run_says_how_far_it_came(void **state) {
    (void)state;
    results *run = example();
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_null(strstr(text_string(&out), "incomplete"));
    assert_non_null(strstr(text_string(&out), "HFU % = "));
    assert_non_null(strstr(text_string(&out), "MFU % = "));
    text_release(&out);
    run->is_complete = false;
    run->planned_cells = 12;
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_non_null(strstr(text_string(&out), "incomplete: interrupted after 2 of 12 cells\n"));
    text_release(&out);
    results_destroy(run);
}

static results_breakdown *add_breakdown(results_cell *cell) {
    const char *keys[] = {"class"};
    const results_column columns[] = {
        {"time", "ns"}, {"count", "1"}, {"flops", "FLOP"}, {"bytes", "B"}, {"median", "ns"}};
    return cell_add_breakdown(cell, "by_class", keys, 1, columns, 5);
}

static void add_row(results_breakdown *breakdown, const char *key, int64_t time) {
    breakdown_add_row(breakdown, &key,
                      (results_value[]){results_integer(time), results_integer(2),
                                        results_integer(time * 10), results_integer(time * 3),
                                        results_integer(time / 2)});
}

static void printed_percentages_sum_to_100(void **state) {
    (void)state;
    results *run = example();
    results_breakdown *breakdown = add_breakdown(run->cells[0]);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++)
        add_row(breakdown, names[i], 1000000); /* 16.666... each: six times 16.7 is 100.2 */
    report_table *table = view_create_breakdown_table(run->cells[0], breakdown, false);
    text out = {0};
    table_render(table, TABLE_JSON, false, &out);
    json_t *rows = json_loads(text_string(&out), 0, NULL);
    assert_non_null(rows);
    assert_int_equal(json_array_size(rows), 7);
    double sum = 0;
    for (size_t i = 0; i < 6; i++)
        sum += number(rows, i, "percent");
    assert_true(fabs(sum - 100) < 1e-9);
    assert_string_equal(string(rows, 6, "class"), "total");
    assert_true(number(rows, 6, "percent") == 100 && number(rows, 6, "count") == 12);
    assert_true(fabs(number(rows, 6, "time_ms") - 6) < 1e-12);
    assert_true(fabs(number(rows, 0, "gflops") - 10) < 1e-9);
    assert_true(fabs(number(rows, 6, "gflops") - 10) < 1e-9);
    assert_true(fabs(number(rows, 6, "gb_per_s") - 3) < 1e-9);
    assert_true(isnan(number(rows, 6, "median"))); /* medians do not add up */
    json_decref(rows);
    text_release(&out);
    table_destroy(table);
    results_destroy(run);
}

static void hostile_breakdowns_are_shown_without_harm(void **state) {
    (void)state;
    static const double times[][2] = {{0, 0}, {-1, 2}, {NAN, 1}, {INFINITY, 1}, {1e308, 1e308}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        results *run = example();
        const char *keys[] = {"class"};
        const results_column columns[] = {{"time", "ns"}, {"count", ""}};
        results_breakdown *breakdown =
            cell_add_breakdown(run->cells[0], "by_class", keys, 1, columns, 2);
        for (int j = 0; j < 2; j++)
            breakdown_add_row(breakdown, (const char *[]){"\033[2J"},
                              (results_value[]){results_real(times[i][j]), results_real(1e300)});
        cell_add_breakdown(run->cells[0], "empty", NULL, 0, NULL, 0);
        text out = {0};
        view_render(run, (view_options){.format = TABLE_TERMINAL, .has_plots = true}, &out);
        assert_null(strchr(text_string(&out), '\033'));
        text_release(&out);
        results_destroy(run);
    }
}

static void breakdowns_of_unfinished_cells_are_not_shown(void **state) {
    (void)state;
    results *run = example();
    add_row(add_breakdown(run->cells[1]), "matmul", 1000);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL, .has_plots = true}, &out);
    assert_null(strstr(text_string(&out), "by_class"));
    text_release(&out);
    results_destroy(run);
}

static void json_is_the_run_itself(void **state) {
    (void)state;
    results *run = example(), *back;
    text out = {0};
    view_render(run, (view_options){.format = TABLE_JSON}, &out);
    json_t *root = json_loads(text_string(&out), 0, NULL);
    assert_non_null(root);
    assert_int_equal(results_from_json(root, "it", &back), DYNO_OK);
    assert_int_equal(back->cell_count, 2);
    results_destroy(back);
    json_decref(root);
    text_release(&out);
    results_destroy(run);
}

static void an_unknown_verb_gets_the_general_view(void **state) {
    (void)state;
    results *run = results_create("future", 0, NULL);
    results_cell *cell = results_add_cell(run);
    cell_set_integer(cell, "ranks", 4);
    cell_set_status(cell, RESULTS_OK, NULL);
    cell_add_sample(cell, "reduce", "ns", 2000000);
    cell_add_sample_real(cell, "error", "ulp", 0.5);
    cell_set_metric(cell, "wrong", "values", 0);
    cell = results_add_cell(run);
    cell_add_sample(cell, "reduce", "ns", 7000000);
    text out = {0};
    report_table *table = view_create_general_table(run);
    table_render(table, TABLE_CSV, false, &out);
    assert_string_equal(text_string(&out),
                        "ranks,status,reduce median ms,error median ulp,wrong values,note\r\n"
                        "4,OK,2,0.5,0,\r\n"
                        ",INCOMPLETE,,,,\r\n");
    table_destroy(table);
    text_release(&out);
    results_destroy(run);
}

static void empty_runs_of_any_verb_render_in_every_format(void **state) {
    (void)state;
    static const char *const verbs[] = {"bench", "other"};
    for (int i = 0; i < 2; i++)
        for (table_format format = TABLE_TERMINAL; format <= TABLE_JSON; format++) {
            results *run = results_create(verbs[i], 0, NULL);
            text out = {0};
            view_render(run, (view_options){.format = format, .has_plots = true}, &out);
            assert_true(out.length > 0);
            text_release(&out);
            results_add_cell(run); /* and with a cell about which nothing is known */
            cell_set_status(run->cells[0], RESULTS_OK, NULL);
            view_render(run, (view_options){.format = format, .has_plots = true}, &out);
            text_release(&out);
            results_destroy(run);
        }
}

static void samples_in_an_unknown_unit_give_no_times(void **state) {
    (void)state;
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = add_cell(run, "small", 128, "forward");
    cell_set_status(cell, RESULTS_OK, NULL);
    for (int i = 0; i < 3; i++)
        cell_add_sample(cell, "step", "parsec", 5);
    json_t *rows = rows_of(run, false);
    assert_true(isnan(number(rows, 0, "mean_ms")));
    json_decref(rows);
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_and_rates_come_from_the_samples),
        cmocka_unit_test(the_backward_alone_is_a_row_of_its_own),
        cmocka_unit_test(a_backward_that_did_not_complete_has_no_row),
        cmocka_unit_test(the_phases_of_a_step_are_rows),
        cmocka_unit_test(nothing_is_derived_from_a_cell_that_is_not_ok),
        cmocka_unit_test(rows_are_compared_with_the_first_way_and_with_no_recompute),
        cmocka_unit_test(a_first_step_is_not_said_to_have_all_that_happens_once),
        cmocka_unit_test(too_few_samples_make_a_cell_incomplete),
        cmocka_unit_test(people_see_parameters_that_vary_and_csv_all),
        cmocka_unit_test(rows_in_bf16_are_held_against_products_of_bf16),
        cmocka_unit_test(merged_rows_are_held_against_the_peak_of_their_own_run),
        cmocka_unit_test(without_a_peak_there_are_no_shares_of_it),
        cmocka_unit_test(a_gpu_has_columns_and_notes_of_its_own),
        cmocka_unit_test(a_gpus_own_records_say_how_busy_it_was),
        cmocka_unit_test(an_interrupted_run_says_how_far_it_came),
        cmocka_unit_test(printed_percentages_sum_to_100),
        cmocka_unit_test(hostile_breakdowns_are_shown_without_harm),
        cmocka_unit_test(breakdowns_of_unfinished_cells_are_not_shown),
        cmocka_unit_test(json_is_the_run_itself),
        cmocka_unit_test(an_unknown_verb_gets_the_general_view),
        cmocka_unit_test(empty_runs_of_any_verb_render_in_every_format),
        cmocka_unit_test(samples_in_an_unknown_unit_give_no_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
