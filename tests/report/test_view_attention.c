/* test_view_attention.c - the table of `dyno attention`, from records made by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "measure/statistics.h"
#include "report/view.h"

static results_cell *add_cell(results *run, const char *mode, int64_t seq, const char *pass,
                              int64_t step_ms, int64_t backward_ms) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, "impl", "naive");
    cell_set_text(cell, "mode", mode);
    cell_set_integer(cell, "seq", seq);
    cell_set_integer(cell, "head_dim", 64);
    cell_set_text(cell, "pass", pass);
    cell_set_integer(cell, "reps", 3);
    cell_set_integer(cell, "batch", 1000);
    cell_set_integer(cell, "heads", 10000);
    cell_add_sample(cell, "warmup", "ns", 1000000000); /* must not show */
    for (int i = -1; i <= 1; i++) {
        cell_add_sample(cell, "step", "ns", (step_ms + i) * 1000000);
        if (backward_ms)
            cell_add_sample(cell, "backward", "ns", (backward_ms + i) * 1000000);
    }
    cell_set_status(cell, RESULTS_OK, "");
    return cell;
}

/* Time is the square of the length; compiled is twice as fast forward, and its last backward does
 * not fit. */
static results *example(void) {
    results *run = results_create("attention", 0, NULL);
    run->is_complete = true;
    for (int64_t seq = 10; seq <= 40; seq *= 2) {
        add_cell(run, "eager", seq, "forward", seq * seq, 0);
        add_cell(run, "eager", seq, "forward+backward", 4 * seq * seq, 2 * seq * seq);
        add_cell(run, "compiled", seq, "forward", seq * seq / 2, 0);
        results_cell *whole =
            add_cell(run, "compiled", seq, "forward+backward", seq * seq, seq * seq / 2);
        if (seq < 40)
            continue;
        cell_set_status(whole, RESULTS_OOM, "at softmax: 8 x 40 x 40 x 4 B");
        cell_set_metric(whole, "needed_bytes", "B", 4096);
        cell_set_metric(whole, "available_bytes", "B", 1024);
    }
    return run;
}

/* What files have, or people see, as the objects of a JSON array. */
static json_t *rows_for(const results *run, bool is_full) {
    report_table *table = view_create_attention_table(run, is_full);
    text out = {0};
    table_render(table, TABLE_JSON, false, &out);
    json_t *rows = json_loads(text_string(&out), 0, NULL);
    assert_non_null(rows);
    text_release(&out);
    table_destroy(table);
    return rows;
}

static json_t *rows_of(const results *run) { return rows_for(run, false); }

static double number(const json_t *rows, size_t row, const char *key) {
    const json_t *value = json_object_get(json_array_get(rows, row), key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *string(const json_t *rows, size_t row, const char *key) {
    return json_string_value(json_object_get(json_array_get(rows, row), key));
}

static void expect_near(double got, double wanted) { assert_true(fabs(got - wanted) < 1e-9); }

static void expect_shown(const results *run, const char *wanted) {
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    if (!strstr(text_string(&out), wanted))
        fail_msg("'%s' is not in\n%s", wanted, text_string(&out));
    text_release(&out);
}

static void a_point_is_one_row_with_every_time_measured(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run);
    assert_int_equal(json_array_size(rows), 6);
    assert_string_equal(string(rows, 0, "status"), "OK");
    expect_near(number(rows, 0, "forward_ms"), 100);
    expect_near(number(rows, 0, "backward_ms"), 200);
    expect_near(number(rows, 0, "end_to_end_ms"), 400); /* and not 300 */
    /* 4 x 1000 x 10000 x 10^2 x 64 = 0.256 TFLOP forward in 0.1 s, 2.5 and 3.5 times that */
    expect_near(number(rows, 0, "forward_tflops"), 2.56);
    expect_near(number(rows, 0, "backward_tflops"), 3.2);
    expect_near(number(rows, 0, "end_to_end_tflops"), 2.24);
    expect_near(number(rows, 1, "forward_speedup"), 2);
    expect_near(number(rows, 1, "backward_speedup"), 4);
    expect_near(number(rows, 1, "end_to_end_speedup"), 4);
    json_decref(rows);
    results_destroy(run);
}

/* Forward and backward have a best tile each, of those at the same sizes; the rate of causal
 * attention counts half the scores. */
static void the_fastest_tile_is_marked(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    run->is_complete = true;
    static const char *const tiles[] = {"64x64", "32x64"};
    static const char *const used[][2] = {{"64x64", "64x64/16x16"}, {"32x64", "32x64/16x16"}};
    for (int64_t seq = 10; seq <= 20; seq *= 2)
        for (int i = 0; i < 2; i++) {
            results_cell *forward = add_cell(run, "compiled", seq, "forward", 10 + 5 * i, 0);
            results_cell *whole =
                add_cell(run, "compiled", seq, "forward+backward", 50, 20 - 5 * i);
            results_cell *both[] = {forward, whole};
            for (int c = 0; c < 2; c++) {
                cell_set_text(both[c], "causal", "yes");
                cell_set_text(both[c], "tile", tiles[i]);
                cell_set_text(both[c], "tiles_used", used[i][c]);
            }
        }
    json_t *rows = rows_of(run);
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(string(rows, i, "tile"), tiles[i % 2]);
        assert_string_equal(string(rows, i, "best"),
                            i % 2 ? "backward, end-to-end" : "forward, end-to-end");
    }
    expect_near(number(rows, 0, "forward_tflops"), 12.8);
    json_decref(rows);
    results_destroy(run);
}

/* A row of the tile: the forward alone, unless only the backward has it, and both passes, unless only
 * the forward has it and `used` is NULL. */
static void add_tile_row(results *run, const char *tile, const char *used, bool has_forward) {
    for (int i = has_forward ? 0 : 1; i < (used ? 2 : 1); i++) {
        results_cell *cell = add_cell(run, "compiled", 10, i ? "forward+backward" : "forward",
                                      i ? 30 : 10, i ? 15 : 0);
        cell_set_text(cell, "tile", tile);
        cell_set_text(cell, "tiles_used", i ? used : tile);
        cell_set_metric(cell, "model_flops", "FLOP", 20000000000);
        cell_set_metric(cell, "flops", "FLOP", 20000000000);
    }
}

/* The sweep over all tiles gives a tile to one pass and leaves the other its own: a row once had the
 * end-to-end time of two tiles as that of one. */
static void end_to_end_of_two_tiles_is_no_tiles(void **state) {
    (void)state;
    static const char *const told[] = {"end_to_end_ms", "end_to_end_tflops", "mfu_percent",
                                       "hfu_percent"};
    results *run = results_create("attention", 0, NULL);
    run->is_complete = true;
    results_set_environment_real(run, "peak_gflops", 10000);
    add_tile_row(run, "64x64", "64x64/64x64", true);
    add_tile_row(run, "128x64", "64x64/128x64", true);
    add_tile_row(run, "32x64", "64x64/32x64", false);
    add_tile_row(run, "192x128", NULL, true);
    static const char *const best[] = {"forward, backward", "forward, backward", "backward",
                                       "forward"};
    json_t *rows = rows_of(run);
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < sizeof told / sizeof *told; j++)
            assert_int_equal(isnan(number(rows, i, told[j])) != 0, i > 0);
        assert_string_equal(string(rows, i, "best"), best[i]);
    }
    expect_near(number(rows, 1, "backward_ms"), 15);
    json_decref(rows);
    expect_shown(run, "each with the other one's own tile");
    results_destroy(run);
}

static void tiles_that_were_asked_for_have_an_end_to_end(void **state) {
    (void)state;
    static const char *const tiles[][2] = {{"64x64", "64x64/64x64"},
                                           {"128x64/32x64", "128x64/32x64"},
                                           {"auto/32x64", "64x64/32x64"},
                                           {"auto", "128x128/64x64"},
                                           {"attention_mma:64x64", "64x64/64x64"}};
    results *run = results_create("attention", 0, NULL);
    run->is_complete = true;
    for (int i = 0; i < 5; i++)
        add_tile_row(run, tiles[i][0], tiles[i][1], true);
    json_t *rows = rows_of(run);
    for (size_t i = 0; i < 5; i++) {
        expect_near(number(rows, i, "end_to_end_ms"), 30);
        assert_string_equal(string(rows, i, "best"), "forward, backward, end-to-end");
    }
    json_decref(rows);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_null(strstr(text_string(&out), "no end-to-end"));
    text_release(&out);
    results_destroy(run);
}

static void nothing_is_derived_from_a_backward_that_did_not_fit(void **state) {
    (void)state;
    results *run = example();
    json_t *rows = rows_of(run);
    assert_string_equal(string(rows, 5, "status"), "forward OK, backward OOM");
    expect_near(number(rows, 5, "forward_ms"), 800);
    assert_true(isnan(number(rows, 5, "backward_ms")));
    assert_true(isnan(number(rows, 5, "end_to_end_ms")));
    assert_true(isnan(number(rows, 5, "end_to_end_speedup")));
    assert_true(isnan(number(rows, 5, "peak_mib")));
    assert_string_equal(string(rows, 5, "note"),
                        "forward+backward: needs 4.00 KiB, there is 1.00 KiB; "
                        "at softmax: 8 x 40 x 40 x 4 B");
    json_decref(rows);
    results_destroy(run);
}

static void fewer_samples_than_repetitions_are_incomplete(void **state) {
    (void)state;
    results *run = example();
    cell_set_integer(run->cells[0], "reps", 4);
    json_t *rows = rows_of(run);
    assert_string_equal(string(rows, 0, "status"), "forward INCOMPLETE, backward OK");
    assert_true(isnan(number(rows, 0, "forward_ms")));
    assert_true(isnan(number(rows, 1, "forward_speedup"))); /* nothing to hold it against */
    json_decref(rows);
    results_destroy(run);
}

static void growth_is_fitted_over_the_rows_that_are_ok(void **state) {
    (void)state;
    results *run = example();
    expect_shown(run, "naive eager, head size 64     2.00 over 3, 2.00 from 20 to 40  2.00 over 3, "
                      "2.00 from 20 to 40  2.00 over 3, 2.00 from 20 to 40\n");
    expect_shown(run, "naive compiled, head size 64  2.00 over 3, 2.00 from 20 to 40  2.00 from 10 "
                      "to 20               2.00 from 10 to 20\n");
    results_destroy(run);
}

/* 3 ms however short, then the square: the fit is of both, the end of the square alone. The order
 * of the lengths does not matter, and files have both numbers beside each row of the curve. */
static void growth_at_the_end_is_between_the_two_longest(void **state) {
    (void)state;
    static const int64_t lengths[] = {80, 10, 40, 20}, ms[] = {48, 3, 12, 3};
    results *run = results_create("attention", 0, NULL);
    run->is_complete = true;
    for (int i = 0; i < 4; i++)
        add_cell(run, "eager", lengths[i], "forward", ms[i], 0);
    expect_shown(run, "naive eager, head size 64  1.40 over 4, 2.00 from 40 to 80\n");
    json_t *rows = rows_for(run, true);
    for (size_t i = 0; i < 4; i++) {
        expect_near(number(rows, i, "forward_growth"), 1.4);
        expect_near(number(rows, i, "forward_growth_at_end"), 2);
        assert_true(isnan(number(rows, i, "backward_growth_at_end")));
    }
    json_decref(rows);
    results_destroy(run);
}

static void time_that_does_not_grow_has_no_sign(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    add_cell(run, "eager", 10, "forward", 100000, 0);
    add_cell(run, "eager", 20, "forward", 99999, 0);
    expect_shown(run, " 0.00 from 10 to 20\n");
    results_destroy(run);
}

static void one_length_has_no_growth(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    add_cell(run, "eager", 10, "forward", 5, 0);
    add_cell(run, "eager", 10, "forward", 5, 0);
    report_table *table = view_create_growth_table(run);
    assert_int_equal(table_row_count(table), 0);
    table_destroy(table);
    text out = {0};
    view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
    assert_null(strstr(text_string(&out), "grows"));
    text_release(&out);
    results_destroy(run);
}

static results_cell *add_way(results *run, const char *impl, const char *mode, const char *math,
                             int64_t ms) {
    results_cell *cell = add_cell(run, mode, 10, "forward", ms, 0);
    cell_set_text(cell, "impl", impl);
    cell_set_text(cell, "math", math);
    if (strcmp(impl, "flash") == 0)
        cell_set_text(cell, "tile", "auto");
    return cell;
}

static void a_row_is_held_against_the_first_impl_in_its_own_mode_and_precision(void **state) {
    (void)state;
    static const char *const impls[] = {"naive", "flash"}, *const modes[] = {"eager", "compiled"},
                             *const maths[] = {"fp32", "bf16"};
    static const int64_t ms[] = {80, 40, 50, 20, 10, 10, 10, 10};
    static const double speedups[] = {1, 1, 1, 1, 8, 4, 5, 2};
    results *run = results_create("attention", 0, NULL);
    for (int i = 0; i < 8; i++)
        add_way(run, impls[i / 4], modes[i / 2 % 2], maths[i % 2], ms[i]);
    json_t *rows = rows_of(run);
    for (size_t i = 0; i < 8; i++)
        expect_near(number(rows, i, "forward_speedup"), speedups[i]);
    expect_shown(run, "speed-up: against naive in the same mode, precision and sizes\n");
    json_decref(rows);
    results_destroy(run);
}

/* Of one impl, modes are compared, each tile with itself. */
static void a_row_of_one_impl_is_held_against_the_first_mode(void **state) {
    (void)state;
    static const char *const modes[] = {"eager", "compiled"}, *const tiles[] = {"32x32", "64x64"};
    static const int64_t ms[] = {80, 40, 20, 20};
    static const double speedups[] = {1, 1, 4, 2};
    results *run = results_create("attention", 0, NULL);
    for (int i = 0; i < 4; i++)
        cell_set_text(add_way(run, "flash", modes[i / 2], "fp32", ms[i]), "tile", tiles[i % 2]);
    json_t *rows = rows_of(run);
    for (size_t i = 0; i < 4; i++)
        expect_near(number(rows, i, "forward_speedup"), speedups[i]);
    expect_shown(run, "speed-up: against eager in the same precision and sizes\n");
    json_decref(rows);
    results_destroy(run);
}

static void what_was_not_asked_for_has_no_column_but_in_files(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    add_cell(run, "eager", 10, "forward", 5, 0);
    for (int i = 0; i < 2; i++) {
        json_t *rows = rows_for(run, i == 1);
        const json_t *row = json_array_get(rows, 0);
        assert_non_null(json_object_get(row, "forward_ms"));
        assert_int_equal(json_object_get(row, "backward_ms") != NULL, i);
        assert_int_equal(json_object_get(row, "end_to_end_tflops") != NULL, i);
        assert_int_equal(json_object_get(row, "before_backward_mib") != NULL, i);
        json_decref(rows);
    }
    results_destroy(run);
}

static void shares_of_a_peak_need_one(void **state) {
    (void)state;
    results *run = example();
    cell_set_metric(run->cells[1], "model_flops", "FLOP", 20000000000); /* in 0.4 s */
    json_t *rows = rows_of(run);
    assert_null(json_object_get(json_array_get(rows, 0), "mfu_percent"));
    json_decref(rows);
    rows = rows_for(run, true);
    assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "mfu_percent")));
    json_decref(rows);
    results_set_environment_real(run, "peak_gflops", 200);
    rows = rows_of(run);
    expect_near(number(rows, 0, "mfu_percent"), 25);
    json_decref(rows);
    results_destroy(run);
}

/* A rate of flash in fp32 stood above the peak of fp32, and nothing said why. */
static void flash_in_fp32_on_a_gpu_is_said_to_multiply_on_tensor_cores(void **state) {
    (void)state;
    static const char *const ways[][4] = {{"flash", "fp32", "cuda:0", "said"},
                                          {"flash", "fp32", "cpu", NULL},
                                          {"flash", "bf16", "cuda:0", NULL},
                                          {"naive", "fp32", "cuda:0", NULL}};
    for (int i = 0; i < 4; i++) {
        results *run = results_create("attention", 0, NULL);
        cell_set_text(add_way(run, ways[i][0], "compiled", ways[i][1], 5), "device", ways[i][2]);
        text out = {0};
        view_render(run, (view_options){.format = TABLE_TERMINAL}, &out);
        const char *note = strstr(text_string(&out), "three tf32 products each");
        assert_int_equal(note != NULL, ways[i][3] != NULL);
        text_release(&out);
        results_destroy(run);
    }
}

static void short_times_have_three_digits(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *shown;
    } cases[] = {{8321, " 0.00832 "},
                 {83214, " 0.0832 "},
                 {832147, " 0.832 "},
                 {8321476, " 8.321 "},
                 {832, " 0.000832 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        results *run = results_create("attention", 0, NULL);
        results_cell *cell = results_add_cell(run);
        cell_set_text(cell, "pass", "forward");
        cell_add_sample(cell, "step", "ns", cases[i].ns);
        cell_set_status(cell, RESULTS_OK, "");
        expect_shown(run, cases[i].shown);
        results_destroy(run);
    }
}

static void what_both_passes_say_is_said_once(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    for (int i = 0; i < 2; i++)
        cell_set_status(add_cell(run, "eager", 10, i ? "forward+backward" : "forward", 5, i),
                        RESULTS_FAILED, "no kernel");
    json_t *rows = rows_of(run);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(string(rows, 0, "note"), "no kernel");
    json_decref(rows);
    results_destroy(run);
}

static void a_run_without_cells_is_an_empty_table(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    json_t *rows = rows_of(run);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    results_destroy(run);
}

static void an_exponent_needs_two_lengths(void **state) {
    (void)state;
    const double x[] = {2, 4, 8, 16}, y[] = {3, 24, 192, (double)NAN}, same[] = {5, 5, 5, 5};
    expect_near(statistics_growth_exponent(x, y, 4), 3);
    assert_true(isnan(statistics_growth_exponent(x, y, 1)));
    assert_true(isnan(statistics_growth_exponent(x, y, 0)));
    assert_true(isnan(statistics_growth_exponent(same, x, 4)));
}

/* Through two sizes every curve goes; through more, one says how far off the worst is. */
static void a_fit_says_how_many_sizes_it_has_and_how_well_it_fits(void **state) {
    (void)state;
    const double x[] = {1, 2, 4, 2, -1}, y[] = {1, 2, 4, 2, 9};
    statistics_growth two = statistics_growth_of(x, y, 2), all = statistics_growth_of(x, y, 5);
    assert_int_equal(two.sizes, 2);
    assert_int_equal(all.sizes, 3);
    expect_near(all.exponent, 1);
    assert_true(all.worst < 1e-9);
    const double bent[] = {1, 4, 4}; /* the fit is 2^(1/3) x: 1.26, 2.52, 5.04 */
    statistics_growth off = statistics_growth_of(x, bent, 3);
    expect_near(off.exponent, 1);
    assert_true(off.worst > 0.587 && off.worst < 0.588);
    assert_true(isnan(statistics_growth_of(x, y, 1).worst));
}

static void two_lengths_are_called_a_slope(void **state) {
    (void)state;
    results *run = results_create("attention", 0, NULL);
    add_cell(run, "eager", 10, "forward", 1, 0);
    add_cell(run, "eager", 20, "forward", 4, 0);
    expect_shown(run, "time grows as seq^k: k is the slope between two lengths\n");
    add_cell(run, "eager", 40, "forward", 16, 0);
    expect_shown(run, "k over all lengths (least squares on the logarithms)");
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_is_one_row_with_every_time_measured),
        cmocka_unit_test(the_fastest_tile_is_marked),
        cmocka_unit_test(end_to_end_of_two_tiles_is_no_tiles),
        cmocka_unit_test(tiles_that_were_asked_for_have_an_end_to_end),
        cmocka_unit_test(nothing_is_derived_from_a_backward_that_did_not_fit),
        cmocka_unit_test(fewer_samples_than_repetitions_are_incomplete),
        cmocka_unit_test(growth_is_fitted_over_the_rows_that_are_ok),
        cmocka_unit_test(growth_at_the_end_is_between_the_two_longest),
        cmocka_unit_test(time_that_does_not_grow_has_no_sign),
        cmocka_unit_test(one_length_has_no_growth),
        cmocka_unit_test(a_row_is_held_against_the_first_impl_in_its_own_mode_and_precision),
        cmocka_unit_test(a_row_of_one_impl_is_held_against_the_first_mode),
        cmocka_unit_test(what_was_not_asked_for_has_no_column_but_in_files),
        cmocka_unit_test(shares_of_a_peak_need_one),
        cmocka_unit_test(flash_in_fp32_on_a_gpu_is_said_to_multiply_on_tensor_cores),
        cmocka_unit_test(short_times_have_three_digits),
        cmocka_unit_test(what_both_passes_say_is_said_once),
        cmocka_unit_test(a_run_without_cells_is_an_empty_table),
        cmocka_unit_test(an_exponent_needs_two_lengths),
        cmocka_unit_test(a_fit_says_how_many_sizes_it_has_and_how_well_it_fits),
        cmocka_unit_test(two_lengths_are_called_a_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
