/* test_finding_attention.c - what is said of runs of attention: how time and memory grow, when flash wins, which
 * tile is the fastest. */
#include "support/expect.h"

#include "measure/keys.h"
#include "support/findings.h"

static results_cell *add_attention(results *run, const char *impl, const char *head_dim, int seq,
                                   double ms) {
    results_cell *cell = findings_add_cell(
        run, (const char *[]){PARAM_IMPL, impl, PARAM_HEAD_DIM, head_dim, NULL}, ms);
    cell_set_integer(cell, PARAM_SEQ, seq);
    return cell;
}

/* ---- growth ---- */

static void two_sizes_have_a_slope_and_no_fit(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_attention(run, "naive", "64", 256, 1);
    expect_finding(run, ""); /* one length does not grow */
    add_attention(run, "naive", "64", 512, 4);
    expect_finding(run, "Time grows as seq^2.00 from 256 to 512, the slope between two sizes.");
    results_destroy(run);
}

static results *run_of_lengths(const int *lengths, const int *ms, int count) {
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < count; i++)
        add_attention(run, "naive", "64", lengths[i], ms[i]);
    return run;
}

/* Overheads at first, then the square. */
static void three_sizes_are_fitted_and_say_how_well(void **state) {
    (void)state;
    results *run = run_of_lengths((const int[]){80, 10, 40, 20}, (const int[]){48, 2, 12, 3}, 4);
    expect_finding(run, "Time grows as seq^1.58, fitted to 4 sizes (the worst is 34 % off), and as "
                        "seq^2.00 from 40 to 80.");
    results_destroy(run);
}

/* 3 ms however short, then the square: the worst is 52 % off. */
static void a_law_that_does_not_fit_is_not_said(void **state) {
    (void)state;
    results *run = run_of_lengths((const int[]){80, 10, 40, 20}, (const int[]){48, 3, 12, 3}, 4);
    expect_finding(run, "Time grows as seq^2.00 from 40 to 80.");
    results_destroy(run);
}

static void memory_grows_too_and_each_implementation_in_its_own_way(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < 2; i++)
        for (int seq = 256; seq <= 512; seq *= 2) {
            results_cell *cell = add_attention(run, i ? "flash" : "naive", "64", seq, 0);
            cell_set_metric(cell, METRIC_PREDICTED_BYTES, "B", i ? seq : seq * seq);
            cell_set_status(cell, RESULTS_OOM, ""); /* its plan is known */
        }
    expect_said(run, "Peak memory grows as seq^2.00 from 256 to 512, the slope between two sizes "
                     "(impl naive). Peak memory grows as seq^1.00 from 256 to 512, the slope "
                     "between two sizes (impl flash).");
    expect_not_said(run, "Time");
    results_destroy(run);
}

static void a_cell_that_did_not_finish_is_in_no_curve(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_attention(run, "naive", "64", 256, 1);
    cell_set_status(add_attention(run, "naive", "64", 512, 4), RESULTS_INCOMPLETE, NULL);
    expect_finding(run, "");
    results_destroy(run);
}

/* ---- flash against naive ---- */

static void flash_wins_from_a_length_on_that_depends_on_the_head(void **state) {
    (void)state;
    /* Of each head: ms of naive and flash at 128, 256, 512. */
    static const double ms[2][3][2] = {{{1, 2}, {2, 3}, {9, 4}}, {{1, 0.5}, {4, 1}, {16, 2}}};
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int head = 0; head < 2; head++)
        for (int i = 0; i < 3; i++)
            for (int flash = 0; flash < 2; flash++)
                add_attention(run, flash ? "flash" : "naive", head ? "64" : "16", 128 << i,
                              ms[head][i][flash]);
    expect_said(run, "Flash attention is faster than naive from 512 on (head_dim 16); at every "
                     "length from 128 to 512 (head_dim 64).");
    results_destroy(run);
}

static void where_naive_does_not_fit_flash_wins(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_attention(run, "naive", "64", 128, 1);
    add_attention(run, "flash", "64", 128, 2);
    cell_set_status(add_attention(run, "naive", "64", 256, 0), RESULTS_OOM, "");
    add_attention(run, "flash", "64", 256, 5);
    expect_said(run, "Flash attention is faster than naive from 256 on, and alone fits at 256.");
    results_destroy(run);
}

/* A win in between does not hold from there on, and it is a win. */
static void flash_that_loses_at_the_end_wins_at_some_lengths(void **state) {
    (void)state;
    static const double flash[] = {2, 1, 9};
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < 3; i++) {
        add_attention(run, "naive", "64", 128 << i, 2 << i);
        add_attention(run, "flash", "64", 128 << i, flash[i]);
    }
    expect_said(run,
                "Flash attention is faster than naive at some lengths, but not at the longest, "
                "512.");
    results_destroy(run);
    run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < 3; i++) {
        add_attention(run, "naive", "64", 128 << i, 2 << i);
        add_attention(run, "flash", "64", 128 << i, 10);
    }
    expect_said(run, "Flash attention is faster than naive at no length up to 512.");
    results_destroy(run);
}

/* A slope from one tile's time to another's would be of neither. */
static void each_tile_has_a_curve_of_its_own(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    static const struct {
        int seq;
        const char *tile;
        double ms;
    } ROWS[] = {{256, "A", 100}, {256, "B", 300}, {512, "A", 300}, {512, "B", 600}};
    for (int i = 0; i < 4; i++)
        cell_set_text(add_attention(run, "flash", "64", ROWS[i].seq, ROWS[i].ms), PARAM_TILE,
                      ROWS[i].tile);
    expect_said(run, "Time grows as seq^1.00 from 256 to 512");
    results_destroy(run);
}

static void one_length_or_one_implementation_has_no_crossover(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_attention(run, "flash", "64", 128, 2);
    add_attention(run, "flash", "64", 256, 2);
    expect_not_said(run, "faster than naive");
    add_attention(run, "naive", "64", 128, 3);
    expect_not_said(run, "faster than naive");
    cell_set_status(add_attention(run, "naive", "64", 256, 3), RESULTS_INCOMPLETE, NULL);
    expect_not_said(run, "faster than naive");
    results_destroy(run);
}

/* ---- tiles ---- */

static void add_tile(results *run, const char *tile, int seq, double forward, double backward) {
    for (int i = 0; i < 2; i++) {
        if (!(i ? backward > 0 : forward > 0))
            continue;
        results_cell *cell = add_attention(run, "flash", "64", seq, i ? 2 * backward : forward);
        cell_set_text(cell, PARAM_TILE, tile);
        cell_set_text(cell, PARAM_PASS, i ? "forward+backward" : "forward");
        if (i)
            cell_add_sample_real(cell, SERIES_BACKWARD, "ms", backward);
    }
}

static void the_fastest_tile_of_each_pass_is_held_against_the_second_best(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_tile(run, "64x64", 512, 0.02, 0.05);
    expect_not_said(run, "tile"); /* one tile is no choice */
    add_tile(run, "192x128", 512, 0.06, 0);
    add_tile(run, "128x64", 512, 0.03, 0.08);
    expect_said(run, "The fastest tile of the forward is 64x64 (0.0200 ms, 50.0 % ahead of "
                     "128x64), of the backward 64x64 (0.0500 ms, 60.0 % ahead of 128x64).");
    add_tile(run, "32x64", 512, 0, 0.04);
    expect_said(run, "of the backward 32x64 (0.0400 ms, 25.0 % ahead of 64x64).");
    expect_not_said(run, "At best");
    results_destroy(run);
}

static void the_fastest_tile_is_that_of_the_largest_sizes_beside_the_kernels_choice(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_tile(run, "64x64", 1024, 2, 0);
    add_tile(run, "128x64", 1024, 3, 0);
    add_tile(run, "auto", 1024, 4, 0);
    add_tile(run, "128x64", 512, 0.5, 0);
    add_tile(run, "auto", 512, 0.75, 0);
    expect_said(run, "The fastest tile of the forward is 64x64 (2.000 ms, 100.0 % ahead of auto), "
                     "with seq 1024.");
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sizes_have_a_slope_and_no_fit),
        cmocka_unit_test(three_sizes_are_fitted_and_say_how_well),
        cmocka_unit_test(a_law_that_does_not_fit_is_not_said),
        cmocka_unit_test(memory_grows_too_and_each_implementation_in_its_own_way),
        cmocka_unit_test(a_cell_that_did_not_finish_is_in_no_curve),
        cmocka_unit_test(flash_wins_from_a_length_on_that_depends_on_the_head),
        cmocka_unit_test(where_naive_does_not_fit_flash_wins),
        cmocka_unit_test(flash_that_loses_at_the_end_wins_at_some_lengths),
        cmocka_unit_test(each_tile_has_a_curve_of_its_own),
        cmocka_unit_test(one_length_or_one_implementation_has_no_crossover),
        cmocka_unit_test(the_fastest_tile_of_each_pass_is_held_against_the_second_best),
        cmocka_unit_test(the_fastest_tile_is_that_of_the_largest_sizes_beside_the_kernels_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
