/* test_stop.c - what takes long asks whether it shall go on, and only where somebody set the
 * question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/stop.h"
#include "base/threads.h"
#include "model/parameters.h"
#include "train/step_plan.h"

/* Says yes from the ask of this number on. */
typedef struct caller {
    int asks, yes_at;
} caller;

static bool should_stop(void *context) {
    caller *c = context;
    return ++c->asks >= c->yes_at;
}

static void without_a_question_nothing_stops(void **state) {
    (void)state;
    assert_false(stop_is_asked());
    assert_false(stop_is_requested());
    assert_int_equal(stop_check("testing"), DYNO_OK);
    stop_question open = {0};
    stop_question *before = stop_ask(&open);
    assert_null(before);
    assert_false(stop_is_asked());
    assert_false(stop_is_requested());
    assert_ptr_equal(stop_ask(before), &open);
}

static void a_yes_counts_from_then_on(void **state) {
    (void)state;
    caller c = {.yes_at = 2};
    stop_question question = {.should_stop = should_stop, .context = &c};
    stop_ask(&question);
    assert_false(stop_is_requested());
    assert_false(stop_is_requested()); /* too soon to ask again */
    assert_int_equal(c.asks, 1);
    while (!stop_is_requested()) {
    }
    assert_int_equal(c.asks, 2);
    c.yes_at = 1000;
    assert_true(stop_is_requested());
    assert_int_equal(stop_check("testing"), DYNO_INTERRUPTED);
    assert_string_equal(dyno_error_message(), "interrupted while testing");
    assert_int_equal(c.asks, 2);
    stop_ask(NULL);
    assert_false(stop_is_requested());
}

static void take_a_while(void *context, int64_t begin, int64_t end) {
    atomic_fetch_add((atomic_llong *)context, end - begin);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void tasks_that_have_not_begun_are_left_out(void **state) {
    (void)state;
    static const int counts[] = {1, 3};
    for (int i = 0; i < 2; i++) {
        caller c = {.yes_at = 2};
        stop_question question = {.should_stop = should_stop, .context = &c};
        atomic_llong done = 0;
        threads_set_count(counts[i]);
        stop_ask(&question);
        threads_for_each(100000, take_a_while, &done);
        stop_ask(NULL);
        assert_true(done > 0 && done < 100000);
        done = 0;
        threads_for_each(10, take_a_while, &done); /* nobody is asked */
        assert_int_equal(done, 10);
    }
    threads_set_count(0);
}

static void drawing_a_large_parameter_ends_early(void **state) {
    (void)state;
    enum { ELEMENTS = 1 << 26 };
    model_parameter p = {.kind = PARAMETER_EMBEDDING};
    strcpy(p.name, "large");
    p.shape = shape_make(2, (int64_t[]){ELEMENTS / 1024, 1024});
    float *data = calloc(ELEMENTS, sizeof *data);
    assert_non_null(data);
    caller c = {.yes_at = 2};
    stop_question question = {.should_stop = should_stop, .context = &c};
    stop_ask(&question);
    model_parameter_init(&p, 1, data);
    stop_ask(NULL);
    assert_true(data[0] < 0 || data[0] > 0);
    assert_true(!(data[ELEMENTS - 1] < 0) && !(data[ELEMENTS - 1] > 0));
    free(data);
}

static void planning_is_interrupted(void **state) {
    (void)state;
    step_options options = {.batch = 1,
                            .context = 8,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = STEP_COMPILED,
                                         .optimizer = step_default_optimizer()}};
    assert_int_equal(model_config_from_preset("small", &options.config), DYNO_OK);
    caller c = {.yes_at = 1};
    stop_question question = {.should_stop = should_stop, .context = &c};
    plan *p;
    stop_ask(&question);
    assert_int_equal(step_plan_create(&options, &p), DYNO_INTERRUPTED);
    stop_ask(NULL);
    assert_null(p);
    assert_string_equal(dyno_error_message(), "interrupted while planning");
    assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
    plan_destroy(p);
}

static void threads_within_the_limits_are_allowed(void **state) {
    (void)state;
    assert_int_equal(threads_check(0), DYNO_OK);
    assert_int_equal(threads_check(threads_available()), DYNO_OK);
    assert_int_equal(threads_check(threads_available() + 8), DYNO_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_question_nothing_stops),
        cmocka_unit_test(a_yes_counts_from_then_on),
        cmocka_unit_test(tasks_that_have_not_begun_are_left_out),
        cmocka_unit_test(drawing_a_large_parameter_ends_early),
        cmocka_unit_test(planning_is_interrupted),
        cmocka_unit_test(threads_within_the_limits_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
