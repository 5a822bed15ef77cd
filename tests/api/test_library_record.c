/* test_library_record.c - the record that an experiment of the library keeps, and what it replaces. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dyno.h"
#include "support/scratch.h"

/* Stops when this much was told of progress; 0: never. */
typedef struct listener {
    int reports, stop_at;
    char note[1024];
} listener;

static void on_progress(void *caller, double done, double total, const char *label) {
    (void)done, (void)total, (void)label;
    ((listener *)caller)->reports++;
}

static void on_note(void *caller, const char *note) {
    listener *l = caller;
    snprintf(l->note, sizeof l->note, "%s", note);
}

static bool should_stop(void *caller) {
    const listener *l = caller;
    return l->stop_at && l->reports >= l->stop_at;
}

/* A bench of two cells into the directory, perhaps with another setting. */
static dyno_status run(const scratch *made, listener *l, const char *setting, dyno_results **out) {
    char directory[300];
    snprintf(directory, sizeof directory, "out=%s", made->path);
    const char *settings[] = {"d-model=32", "d-ff=64",      "layers=1", "heads=2",
                              "vocab=50",   "device=cpu",   "steps=2",  "context=8,16",
                              "warmup=0",   "pass=forward", directory,  setting};
    dyno_experiment_options o = {.size = sizeof o,
                                 .name = "bench",
                                 .settings = settings,
                                 .setting_count = setting ? 12 : 11,
                                 .caller = l,
                                 .on_progress = on_progress,
                                 .on_note = on_note,
                                 .should_stop = should_stop};
    return dyno_experiment_run(&o, out);
}

static void expect_json(const char *path, const char *part) {
    dyno_results *there;
    char *json;
    if (dyno_results_read(path, &there) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    assert_int_equal(dyno_results_json(there, &json), DYNO_OK);
    assert_non_null(strstr(json, part));
    dyno_text_free(json);
    dyno_results_destroy(there);
}

static void a_complete_record_is_replaced_only_by_force(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path beside = scratch_join(&made, "run.incomplete.json");
    listener whole = {0}, stopped = {.stop_at = 1 + 2 + 1}, forced = stopped;
    dyno_results *results;
    assert_int_equal(run(&made, &whole, NULL, &results), DYNO_OK);
    dyno_results_destroy(results);
    expect_json(made.path, "\"complete\": true");

    assert_int_equal(run(&made, &stopped, NULL, &results), DYNO_INTERRUPTED);
    assert_non_null(strstr(stopped.note, beside.text));
    expect_json(made.path, "\"complete\": true");
    expect_json(beside.text, "\"complete\": false");
    assert_int_equal(dyno_results_write(results, made.path), DYNO_INVALID);
    expect_json(made.path, "\"complete\": true");
    dyno_results_destroy(results);

    assert_int_equal(run(&made, &forced, "force", &results), DYNO_INTERRUPTED);
    dyno_results_destroy(results);
    expect_json(made.path, "\"complete\": false");
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_record_is_replaced_only_by_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
