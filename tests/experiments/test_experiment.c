/* test_experiment.c - experiments as a library caller runs them: settings in, a record out. */
#define _GNU_SOURCE
#include "experiments/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/own_cache.h"

#define SMALL "d-model=32", "d-ff=64", "layers=1", "heads=2", "vocab=50", "device=cpu"

/* What the experiment told its caller. */
typedef struct listener {
    int starts, reports;
    int stop_at_report; /* 0: never */
    dyno_status start_status;
    double done, total;
    char label[96], note[512];
} listener;

static dyno_status on_start(void *caller) {
    listener *l = caller;
    l->starts++;
    return l->start_status == DYNO_OK ? DYNO_OK : dyno_fail(l->start_status, "not today");
}

static void on_progress(void *caller, double done, double total, const char *label) {
    listener *l = caller;
    assert_true(done >= l->done && done <= total);
    l->reports++;
    l->done = done;
    l->total = total;
    snprintf(l->label, sizeof l->label, "%s", label);
}

static void on_note(void *caller, const char *note) {
    listener *l = caller;
    snprintf(l->note, sizeof l->note, "%s", note);
}

static bool should_stop(void *caller) {
    const listener *l = caller;
    return l->stop_at_report && l->reports >= l->stop_at_report;
}

static dyno_status run(const char *name, listener *l, experiment_output *out, int count,
                       const char *const *settings) {
    const experiment *e = experiment_find(name);
    assert_non_null(e);
    experiment_context context = {.caller = l,
                                  .on_start = on_start,
                                  .on_progress = on_progress,
                                  .on_note = on_note,
                                  .should_stop = should_stop};
    flags *given;
    *out = (experiment_output){0};
    RETURN_IF_FAILED(flags_parse_settings(e->settings, count, settings, &given));
    dyno_status status = experiment_run(e, given, &context, out);
    flags_destroy(given);
    return status;
}
#define RUN(name, l, out, ...)                                                                     \
    run(name, l, out, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)),                 \
        (const char *const[]){__VA_ARGS__})

static const char *text_of(const results_cell *cell, const char *key) {
    const results_value *value = cell_find_parameter(cell, key);
    assert_non_null(value);
    return value->text;
}

static void experiments_are_found_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"doctor", "plan",      "memory",
                                        "bench",  "attention", "precision"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(experiment_find(names[i])->settings->name, names[i]);
    assert_null(experiment_find("step"));
    assert_null(experiment_find(""));
}

static void a_bench_gives_a_record_and_tells_how_far_it_is(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("bench", &l, &out, SMALL, "context=8,16", "pass=step", "steps=2"),
                     DYNO_OK);
    assert_true(out.run->is_complete);
    assert_false(out.is_listing);
    assert_int_equal(out.run->cell_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out.run->cells[i]->status, RESULTS_OK);
        assert_int_equal(cell_find_series(out.run->cells[i], "step")->count, 2);
    }
    assert_string_equal(out.run->verb, "bench");
    assert_string_equal(out.run->argv[0], "bench");
    assert_string_equal(out.run->argv[7], "--context=8,16");
    assert_int_equal(l.starts, 1);
    assert_int_equal(l.reports, 1 + 2 * (1 + 2));
    assert_true(l.total > 0 && l.done <= l.total * (1 + 1e-9) && l.done >= l.total * (1 - 1e-9));
    assert_string_equal(
        l.label, "context 16, step, eager fp32: layers 1, d-model 32, d-ff 64, heads 2, vocab 50");
    experiment_output_release(&out);
    assert_null(out.run);
}

static void a_bench_that_is_stopped_keeps_what_it_has(void **state) {
    (void)state;
    listener l = {.stop_at_report = 1 + 3 + 1}; /* the start, a cell, a step of the next */
    experiment_output out;
    assert_int_equal(RUN("bench", &l, &out, SMALL, "context=8,16,24", "pass=step", "steps=2"),
                     DYNO_INTERRUPTED);
    assert_false(out.run->is_complete);
    assert_int_equal(out.run->planned_cells, 3);
    assert_int_equal(out.run->cell_count, 2);
    assert_int_equal(out.run->cells[0]->status, RESULTS_OK);
    assert_int_equal(out.run->cells[1]->status, RESULTS_INCOMPLETE);
    assert_int_equal(results_finished_cells(out.run), 1);
    experiment_output_release(&out);
}

static void attention_that_is_stopped_keeps_what_it_has(void **state) {
    (void)state;
    listener l = {.stop_at_report = 1 + 3 + 1};
    experiment_output out;
    assert_int_equal(RUN("attention", &l, &out, "device=cpu", "seq=16,32", "mode=eager",
                         "pass=forward", "reps=2"),
                     DYNO_INTERRUPTED);
    assert_false(out.run->is_complete);
    assert_int_equal(out.run->cell_count, 2);
    assert_int_equal(out.run->cells[0]->status, RESULTS_OK);
    assert_int_equal(out.run->cells[1]->status, RESULTS_INCOMPLETE);
    experiment_output_release(&out);
}

static void a_preset_stands_for_settings_and_yields_to_them(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("attention", &l, &out, "device=cpu", "preset=leaderboard", "seq=16",
                         "heads=2", "pass=forward", "seconds=0.001"),
                     DYNO_OK);
    assert_int_equal(out.run->cell_count, 1);
    const results_cell *cell = out.run->cells[0];
    assert_string_equal(text_of(cell, "impl"), "flash");
    assert_string_equal(text_of(cell, "math"), "bf16");
    assert_string_equal(text_of(cell, "causal"), "yes");
    assert_int_equal(cell_find_parameter(cell, "heads")->integer, 2);
    assert_int_equal(cell_find_parameter(cell, "seq")->integer, 16);
    assert_int_equal(cell_find_parameter(cell, "head_dim")->integer, 64);
    experiment_output_release(&out);
}

static void tuning_tells_what_it_kept(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("attention", &l, &out, "device=cpu", "tune", "seq=16", "head-dim=16",
                         "pass=forward", "reps=1"),
                     DYNO_OK);
    assert_string_equal(l.note, "1 best tile is in the cache and will be used");
    experiment_output_release(&out);
}

static void a_plan_that_is_stopped_keeps_whole_cells(void **state) {
    (void)state;
    listener l = {.stop_at_report = 3};
    experiment_output out;
    assert_int_equal(RUN("plan", &l, &out, SMALL, "context=1:5"), DYNO_INTERRUPTED);
    assert_string_equal(dyno_error_message(), "interrupted after 2 of 5 cells");
    assert_int_equal(out.run->cell_count, 2);
    assert_int_equal(out.run->planned_cells, 5);
    assert_false(out.run->is_complete);
    experiment_output_release(&out);
}

static void a_plan_lists_what_it_is_asked_for(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("plan", &l, &out, SMALL, "context=4", "dump-after=autodiff"), DYNO_OK);
    assert_true(out.is_listing);
    assert_non_null(strstr(text_string(&out.listing), "@backward"));
    assert_int_equal(out.run->cell_count, 1);
    experiment_output_release(&out);
    assert_int_equal(RUN("plan", &l, &out, SMALL, "context=4,8", "source"), DYNO_INVALID);
    assert_null(out.run);
}

static void precision_takes_a_part_as_it_stands(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("precision", &l, &out, "accumulation", "terms=100", "term=2"), DYNO_OK);
    assert_true(out.run->cell_count > 1);
    for (int64_t i = 0; i < out.run->cell_count; i++)
        assert_string_equal(text_of(out.run->cells[i], "part"), "accumulation");
    assert_int_equal(cell_find_metric(out.run->cells[0], "sum")->value.real, 200);
    experiment_output_release(&out);
    assert_int_equal(RUN("precision", &l, &out, "policy"), DYNO_OK);
    assert_int_equal(out.run->cell_count, 3);
    assert_string_equal(text_of(out.run->cells[2], "math"), "bf16");
    assert_string_equal(text_of(out.run->cells[2], "fc1 output"), "bf16");
    experiment_output_release(&out);
}

static void the_doctor_says_a_verdict_and_one_thing_a_cell(void **state) {
    (void)state;
    listener l = {0};
    experiment_output out;
    assert_int_equal(RUN("doctor", &l, &out, "threads=1"), DYNO_OK);
    assert_string_equal(text_of(out.run->cells[0], "part"), "cpu");
    assert_string_equal(text_of(out.run->cells[0], "item"), "model");
    assert_non_null(strstr(results_find_environment(out.run, "verdict")->text, "dyno runs here"));
    int watched = 0;
    for (int64_t i = 0; i < out.run->cell_count; i++) {
        assert_int_equal(out.run->cells[i]->status, RESULTS_OK);
        watched += cell_find_metric(out.run->cells[i], "watched_ns") != NULL;
    }
    assert_true(watched <= 1); /* none where /proc does not tell */
    experiment_output_release(&out);
}

static void bad_settings_are_refused_before_anything_starts(void **state) {
    (void)state;
    static const struct {
        const char *name, *setting, *message;
    } cases[] = {{"bench", "steps=0", "--steps"},
                 {"bench", "contxt=8", "--context"},
                 {"bench", "model=smal", "did you mean 'small'"},
                 {"bench", "pass=sideways", "sideways"},
                 {"bench", "format=csv", "unknown flag"},
                 {"bench", "out=x", "unknown flag"},
                 {"attention", "tiles=9y9", "--tiles"},
                 {"attention", "seq=", "--seq"},
                 {"plan", "device=abacus", "abacus"},
                 {"plan", "recompute=some", "some"},
                 {"memory", "part=everything", "everything"},
                 {"memory", "memory=much", "much"},
                 {"memory", "target=abacus", "abacus"},
                 {"precision", "polcy", "did you mean 'policy'"},
                 {"doctor", "threads=-1", "--threads"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        listener l = {0};
        experiment_output out;
        if (RUN(cases[i].name, &l, &out, cases[i].setting) != DYNO_INVALID ||
            !strstr(dyno_error_message(), cases[i].message))
            fail_msg("%s %s: '%s'", cases[i].name, cases[i].setting, dyno_error_message());
        assert_null(out.run);
        assert_int_equal(l.starts + l.reports, 0);
    }
}

static void a_caller_that_cannot_start_ends_it(void **state) {
    (void)state;
    static const char *const names[] = {"doctor", "plan",      "memory",
                                        "bench",  "attention", "precision"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        listener l = {.start_status = DYNO_IO};
        experiment_output out;
        assert_int_equal(run(names[i], &l, &out, 0, NULL), DYNO_IO);
        assert_string_equal(dyno_error_message(), "not today");
        assert_null(out.run);
        assert_int_equal(l.starts, 1);
    }
}

static void without_functions_nobody_is_told(void **state) {
    (void)state;
    const experiment *e = experiment_find("plan");
    experiment_context nobody = {0};
    experiment_output out;
    flags *given;
    assert_int_equal(flags_parse_settings(e->settings, 0, NULL, &given), DYNO_OK);
    assert_int_equal(experiment_run(e, given, &nobody, &out), DYNO_OK);
    assert_true(out.run->is_complete);
    experiment_output_release(&out);
    flags_destroy(given);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experiments_are_found_by_name),
        cmocka_unit_test(a_bench_gives_a_record_and_tells_how_far_it_is),
        cmocka_unit_test(a_bench_that_is_stopped_keeps_what_it_has),
        cmocka_unit_test(attention_that_is_stopped_keeps_what_it_has),
        cmocka_unit_test(a_preset_stands_for_settings_and_yields_to_them),
        cmocka_unit_test(tuning_tells_what_it_kept),
        cmocka_unit_test(a_plan_that_is_stopped_keeps_whole_cells),
        cmocka_unit_test(a_plan_lists_what_it_is_asked_for),
        cmocka_unit_test(precision_takes_a_part_as_it_stands),
        cmocka_unit_test(the_doctor_says_a_verdict_and_one_thing_a_cell),
        cmocka_unit_test(bad_settings_are_refused_before_anything_starts),
        cmocka_unit_test(a_caller_that_cannot_start_ends_it),
        cmocka_unit_test(without_functions_nobody_is_told),
    };
    return cmocka_run_group_tests(tests, own_cache_set_up, own_cache_tear_down);
}
