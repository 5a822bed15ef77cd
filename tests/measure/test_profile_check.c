/* test_profile_check.c - a profile of which something cannot be true is refused, and the message says
 * what. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/profile_check.h"
#include "support/expect.h"

/* A profile of one device: a forward of 60 and a backward of 40 ns, side by side for none of it. */
typedef struct wrong {
    double span, forward_span, softmax, unattributed, uneven, unseen, host, share;
} wrong;

static const wrong NOTHING = {100, 60, 20, 0, 0, 0, 110, 40};

static profile_check check_of(results *run, wrong w) {
    static const char *const DEVICE_KEYS[] = {KEY_DEVICE, KEY_PHASE};
    static const results_column TIMES[] = {{COLUMN_SPAN, "ns"},
                                           {COLUMN_BUSY, "ns"},
                                           {COLUMN_RUNNING, "ns"},
                                           {COLUMN_UNATTRIBUTED, "ns"}};
    static const results_column TIME[] = {{COLUMN_TIME, "ns"}};
    results_cell *cell = results_add_cell(run);
    results_breakdown *devices =
        cell_add_breakdown(cell, BREAKDOWN_DEVICES, DEVICE_KEYS, 2, TIMES, 4);
#define ROW(phase, span, busy, lost)                                                               \
    breakdown_add_row(devices, (const char *const[]){"0", phase},                                  \
                      (const results_value[]){results_real(span), results_real(busy),              \
                                              results_real(100), results_real(lost)})
    ROW(ROW_ALL_PHASES, w.span, w.span, w.unattributed);
    ROW("forward", w.forward_span, 60, 0);
    ROW("backward", 40, 40, 0);
#undef ROW
    static const char *const PHASE = KEY_PHASE, *const SCOPE = KEY_SCOPE,
                             *const KERNEL = KEY_KERNEL;
    results_breakdown *phases = cell_add_breakdown(cell, BREAKDOWN_BY_PHASE, &PHASE, 1, TIME, 1);
    breakdown_add_row(phases, (const char *const[]){"forward"},
                      (const results_value[]){results_real(60)});
    breakdown_add_row(phases, (const char *const[]){"backward"},
                      (const results_value[]){results_real(w.share)});
    results_breakdown *scopes = cell_add_breakdown(cell, BREAKDOWN_BY_SCOPE, &SCOPE, 1, TIME, 1);
    breakdown_add_row(scopes, (const char *const[]){"softmax"},
                      (const results_value[]){results_real(w.softmax)});
    breakdown_add_row(scopes, (const char *const[]){"others"},
                      (const results_value[]){results_real(100 - w.softmax)});
    results_breakdown *kernels = cell_add_breakdown(cell, BREAKDOWN_BY_KERNEL, &KERNEL, 1, TIME, 1);
    breakdown_add_row(kernels, (const char *const[]){"all"},
                      (const results_value[]){results_real(100)});
    cell_set_metric_real(cell, METRIC_UNEVEN_GROUPS, "", w.uneven);
    cell_set_metric_real(cell, METRIC_LAUNCHES_UNSEEN, "", w.unseen);
    cell_add_sample_real(cell, SERIES_TRACED, "ns", w.host);
    cell_add_sample_real(cell, SERIES_UNTRACED, "ns", 100);
    return profile_check_cell(cell);
}

static void expect_refused(wrong w, const char *part) {
    results *run = results_create(RUN_PROFILE, 0, NULL);
    profile_check check = check_of(run, w);
    assert_int_equal(profile_check_enforce(&check), DYNO_CORRUPT);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' lacks '%s'", dyno_error_message(), part);
    results_destroy(run);
}

static void a_profile_that_can_be_true_passes(void **state) {
    (void)state;
    results *run = results_create(RUN_PROFILE, 0, NULL);
    profile_check check = check_of(run, NOTHING);
    expect_ok(profile_check_enforce(&check));
    assert_true(fabs(check.coverage - 1) < 1e-12);
    assert_true(fabs(check.overhead - 0.1) < 1e-12);
    assert_true(fabs(check.share_sum - 1) < 1e-12);
    assert_true(fabs(check.largest_part - 1) < 1e-12);
    results_destroy(run);
}

static void less_than_99_percent_attributed_is_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.unattributed = 0.9;
    results *run = results_create(RUN_PROFILE, 0, NULL);
    profile_check check = check_of(run, w);
    expect_ok(profile_check_enforce(&check));
    results_destroy(run);
    w.unattributed = 1.5;
    expect_refused(w, "98.50 % of the device's time is attributed");
}

/* A softmax of 463 ms in a forward of 243: summed over iterations. */
static void a_part_that_is_longer_than_the_whole_is_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.softmax = 190;
    expect_refused(w, "a part of a step takes 1.9000");
    w = NOTHING;
    w.forward_span = 300;
    expect_refused(w, "a part of a step takes 3.0000");
}

static void a_step_of_several_steps_is_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.host = 100.0 / 3;
    expect_refused(w, "takes 3.000 of the step that the host saw");
}

static void shares_that_do_not_sum_to_100_are_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.share = 39;
    expect_refused(w, "add up to 99.0000 %");
}

static void counts_that_are_not_whole_are_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.uneven = 2;
    expect_refused(w, "2 kinds of launches have other counts");
}

static void a_phase_that_did_not_complete_is_refused(void **state) {
    (void)state;
    wrong w = NOTHING;
    w.unseen = 5;
    expect_refused(w, "5 launches of the step left no record");
}

static void a_cell_without_a_profile_is_refused(void **state) {
    (void)state;
    results *run = results_create(RUN_PROFILE, 0, NULL);
    profile_check check = profile_check_cell(results_add_cell(run));
    assert_true(isnan(check.coverage));
    assert_int_equal(profile_check_enforce(&check), DYNO_CORRUPT);
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_that_can_be_true_passes),
        cmocka_unit_test(less_than_99_percent_attributed_is_refused),
        cmocka_unit_test(a_part_that_is_longer_than_the_whole_is_refused),
        cmocka_unit_test(a_step_of_several_steps_is_refused),
        cmocka_unit_test(shares_that_do_not_sum_to_100_are_refused),
        cmocka_unit_test(counts_that_are_not_whole_are_refused),
        cmocka_unit_test(a_phase_that_did_not_complete_is_refused),
        cmocka_unit_test(a_cell_without_a_profile_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
