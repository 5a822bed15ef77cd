/* test_refusals.c - cells that cannot be run as asked are rows that say why, under their own names,
 * and the rest of the grid is measured. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "experiments/experiment.h"
#include "support/command.h"
#include "support/own_cache.h"

#define SMALL "d-model=32", "d-ff=64", "layers=2", "heads=2", "vocab=50", "device=cpu", "context=8"
#define FLAGS "--d-model 32 --d-ff 64 --layers 2 --heads 2 --vocab 50 --device cpu --context 8 "

static dyno_status run(const char *name, experiment_output *out, int count,
                       const char *const *settings) {
    const experiment *e = experiment_find(name);
    experiment_context nobody = {0};
    flags *given;
    *out = (experiment_output){0};
    RETURN_IF_FAILED(flags_parse_settings(e->settings, count, settings, &given));
    dyno_status status = experiment_run(e, given, &nobody, out);
    flags_destroy(given);
    return status;
}
#define RUN(name, out, ...)                                                                        \
    run(name, out, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)),                    \
        (const char *const[]){__VA_ARGS__})

static bool has_text(const results_cell *cell, const char *key, const char *wanted) {
    const results_value *value = cell_find_parameter(cell, key);
    return value && value->kind == RESULTS_TEXT && strcmp(value->text, wanted) == 0;
}

/* Every cell is one of the named ones: OK, or SKIP with this in its reason. */
typedef struct wanted_cell {
    const char *mode, *math, *attention, *recompute, *pass;
    const char *reason; /* NULL: OK */
} wanted_cell;

static void expect_cells(const results *run, const wanted_cell *wanted, int count) {
    assert_int_equal(run->cell_count, count);
    for (int i = 0; i < count; i++) {
        const results_cell *cell = run->cells[i];
        const wanted_cell *w = &wanted[i];
        if (!has_text(cell, "mode", w->mode) || !has_text(cell, "math", w->math) ||
            !has_text(cell, "attention", w->attention) ||
            !has_text(cell, "recompute", w->recompute) || !has_text(cell, "pass", w->pass))
            fail_msg("cell %d is another", i);
        assert_int_equal(cell->status, w->reason ? RESULTS_SKIP : RESULTS_OK);
        if (w->reason && !strstr(cell->reason, w->reason))
            fail_msg("cell %d: '%s' lacks '%s'", i, cell->reason, w->reason);
        assert_true(w->reason || !cell->reason[0]);
        assert_int_equal(cell_find_metric(cell, "flops") != NULL, !w->reason);
    }
}

static void a_way_that_there_is_not_is_a_row_that_says_why(void **state) {
    (void)state;
    static const wanted_cell wanted[] = {
        {"eager", "fp32", "flash", "none", "step", "small ops, which are naive attention"},
        {"eager", "fp32", "naive", "none", "step", NULL},
        {"eager", "tf32", "flash", "none", "step", "use --mode compiled or --attention naive"},
        {"eager", "tf32", "naive", "none", "step", "precision tf32 is of GPUs"},
        {"compiled", "fp32", "flash", "none", "step", NULL},
        {"compiled", "fp32", "naive", "none", "step", NULL},
        {"compiled", "tf32", "flash", "none", "step", "precision tf32 is of GPUs"},
        {"compiled", "tf32", "naive", "none", "step", "precision tf32 is of GPUs"},
    };
    static const char *const verbs[] = {"plan", "bench"};
    for (int i = 0; i < 2; i++) {
        experiment_output out;
        const char *settings[] = {SMALL,
                                  "mode=eager,compiled",
                                  "precision=fp32,tf32",
                                  "attention=flash,naive",
                                  "pass=step",
                                  "steps=1",
                                  "warmup=0"};
        int count = (int)(sizeof settings / sizeof *settings) - (i == 0 ? 2 : 0);
        assert_int_equal(run(verbs[i], &out, count, settings), DYNO_OK);
        expect_cells(out.run, wanted, 8);
        assert_true(out.run->is_complete);
        experiment_output_release(&out);
    }
}

static void a_recompute_level_that_recomputes_nothing_is_not_a_row_of_its_own(void **state) {
    (void)state;
    static const wanted_cell wanted[] = {
        {"eager", "fp32", "naive", "none", "forward", NULL},
        {"eager", "fp32", "naive", "none", "step", NULL},
        {"eager", "fp32", "naive", "every:1000", "forward", "segments of 1000 blocks"},
        {"eager", "fp32", "naive", "every:1000", "step", "give every:K with K up to 1"},
        {"eager", "fp32", "naive", "every:2", "forward", "the last segment"},
        {"eager", "fp32", "naive", "every:2", "step", "the model has 2, and the last segment"},
        {"eager", "fp32", "naive", "every:1", "forward", "only a backward computes anything"},
        {"eager", "fp32", "naive", "every:1", "step", NULL},
        {"eager", "fp32", "naive", "mlp:3", "forward", "but the model has 2 blocks"},
        {"eager", "fp32", "naive", "mlp:3", "step", "but the model has 2 blocks"},
    };
    experiment_output out;
    assert_int_equal(RUN("bench", &out, SMALL, "recompute=none,every:1000,every:2,every:1,mlp:3",
                         "pass=forward,step", "steps=1"),
                     DYNO_OK);
    expect_cells(out.run, wanted, 10);
    experiment_output_release(&out);
    assert_int_equal(
        RUN("plan", &out, "layers=1", "device=cpu", "context=8", "recompute=none,full,nested"),
        DYNO_OK);
    assert_int_equal(out.run->cells[0]->status, RESULTS_OK);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(out.run->cells[i]->status, RESULTS_SKIP);
        assert_non_null(strstr(out.run->cells[i]->reason, "a model with 1 block"));
    }
    experiment_output_release(&out);
}

static void gradients_and_head_sizes_that_there_are_not_are_told(void **state) {
    (void)state;
    experiment_output out;
    assert_int_equal(
        RUN("plan", &out, SMALL, "precision=bf16", "mode=eager,compiled", "gradients=low"),
        DYNO_OK);
    assert_int_equal(out.run->cells[0]->status, RESULTS_SKIP);
    assert_non_null(strstr(out.run->cells[0]->reason, "has gradients in fp32"));
    assert_int_equal(out.run->cells[1]->status, RESULTS_OK);
    experiment_output_release(&out);
    /* What was not asked for is not refused, and the row says what it is. */
    assert_int_equal(RUN("plan", &out, SMALL, "precision=bf16", "mode=compiled", "head-dim=258"),
                     DYNO_OK);
    assert_true(has_text(out.run->cells[0], "attention", "naive"));
    experiment_output_release(&out);
    assert_int_equal(RUN("plan", &out, SMALL, "mode=compiled", "head-dim=258", "attention=flash"),
                     DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "the head size is 258, the kernels stop at 256"));
    experiment_output_release(&out);
}

static void a_model_whose_sizes_do_not_go_together_is_a_row(void **state) {
    (void)state;
    experiment_output out;
    assert_int_equal(RUN("plan", &out, "model=small,medium", "layers=2", "heads=24", "device=cpu"),
                     DYNO_OK);
    assert_int_equal(out.run->cells[0]->status, RESULTS_OK);
    assert_int_equal(out.run->cells[1]->status, RESULTS_SKIP);
    assert_non_null(strstr(out.run->cells[1]->reason, "heads is 24, it must divide d_model"));
    experiment_output_release(&out);
}

static void a_grid_of_refused_cells_fails_with_the_first_reason(void **state) {
    (void)state;
    experiment_output out;
    assert_int_equal(RUN("bench", &out, SMALL, "attention=flash", "pass=step"), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "attention flash in mode eager"));
    assert_null(out.run);
    assert_int_equal(RUN("bench", &out, SMALL, "precision=tf32"), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "none of the 3 cells can be run as asked; the "
                                                 "first: precision tf32 is of GPUs"));
    assert_int_equal(RUN("attention", &out, "impl=flash", "mode=eager", "seq=16", "device=cpu",
                         "tiles=31x37,33x64", "reps=1"),
                     DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "none of the 4 cells can be run as asked"));
}

static void one_bad_tile_among_good_ones_is_a_row(void **state) {
    (void)state;
    experiment_output out;
    assert_int_equal(RUN("attention", &out, "impl=flash", "mode=eager", "seq=16", "device=cpu",
                         "tiles=auto,33x64", "reps=1", "pass=forward"),
                     DYNO_OK);
    assert_int_equal(out.run->cell_count, 2);
    assert_int_equal(out.run->cells[0]->status, RESULTS_OK);
    assert_int_equal(out.run->cells[1]->status, RESULTS_SKIP);
    assert_non_null(strstr(out.run->cells[1]->reason, "no variant 33x64"));
    experiment_output_release(&out);
}

/* In every format, and the exit code is that of a grid that was measured. */
static void the_rows_are_in_every_format(void **state) {
    (void)state;
    static const char *const formats[] = {"table", "md", "csv", "json"};
    for (int i = 0; i < 4; i++) {
        dyno_expect(0, "SKIP",
                    "bench " FLAGS "--precision fp32,tf32 --pass step --steps 1 --format %s",
                    formats[i]);
        dyno_expect(0, "tf32 is of GPUs", "plan " FLAGS "--precision fp32,tf32 --format %s",
                    formats[i]);
    }
    dyno_expect(0, "SKIP: precision tf32", "plan " FLAGS "--precision fp32,tf32 --map");
    dyno_expect(2, "attention flash in mode eager", "plan " FLAGS "--attention flash");
    dyno_expect(2, "every:K with K up to 1", "plan " FLAGS "--recompute every:1000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_way_that_there_is_not_is_a_row_that_says_why),
        cmocka_unit_test(a_recompute_level_that_recomputes_nothing_is_not_a_row_of_its_own),
        cmocka_unit_test(gradients_and_head_sizes_that_there_are_not_are_told),
        cmocka_unit_test(a_model_whose_sizes_do_not_go_together_is_a_row),
        cmocka_unit_test(a_grid_of_refused_cells_fails_with_the_first_reason),
        cmocka_unit_test(one_bad_tile_among_good_ones_is_a_row),
        cmocka_unit_test(the_rows_are_in_every_format),
    };
    return cmocka_run_group_tests(tests, own_cache_set_up, own_cache_tear_down);
}
