/* test_bootstrap.c - intervals hold what they promise, on noise whose truth is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "measure/bootstrap.h"

static void students_t_is_that_of_the_tables(void **state) {
    (void)state;
    static const struct {
        double confidence, freedom, t;
    } known[] = {{0.95, 1, 12.706}, {0.95, 2, 4.303},  {0.95, 4, 2.776},   {0.95, 9, 2.262},
                 {0.95, 19, 2.093}, {0.99, 19, 2.861}, {0.95, 1e6, 1.960}, {0.999, 30, 3.646}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double t = bootstrap_student_t(known[i].confidence, known[i].freedom);
        assert_true(fabs(t / known[i].t - 1) < 0.01);
    }
}

static void equal_samples_have_the_ratio_one_exactly(void **state) {
    (void)state;
    const double a[] = {5, 5, 5, 5, 5, 5};
    bootstrap_ratio r = bootstrap_paired(a, a, 6, 0.95, 1);
    assert_true(r.ratio == 1 && r.low == 1 && r.high == 1);
    r = bootstrap_independent(a, 6, a, 6, 0.95, 1);
    assert_true(r.ratio == 1 && r.low == 1 && r.high == 1);
}

static void the_same_seed_gives_the_same_interval(void **state) {
    (void)state;
    const double a[] = {5, 6, 7, 5, 9}, b[] = {6, 6, 8, 5, 9};
    bootstrap_ratio one = bootstrap_paired(a, b, 5, 0.95, 7),
                    two = bootstrap_paired(a, b, 5, 0.95, 7);
    assert_true(one.low == two.low && one.high == two.high);
}

static void what_slows_a_whole_round_cancels_in_pairs(void **state) {
    (void)state;
    const double a[] = {10, 20, 11, 40, 12, 10}, b[] = {11, 22, 12.1, 44, 13.2, 11};
    bootstrap_ratio r = bootstrap_paired(a, b, 6, 0.95, 1);
    assert_true(fabs(r.ratio - 1.1) < 1e-9 && r.low > 1.0999 && r.high < 1.1001);
    r = bootstrap_independent(a, 6, b, 6, 0.95, 1);
    assert_true(r.low < 1 && r.high > 1.2);
}

static void a_spike_moves_the_estimate_little(void **state) {
    (void)state;
    double a[20], b[20];
    for (int i = 0; i < 20; i++)
        a[i] = b[i] = 10;
    b[3] = 10000;
    b[4] = 500;
    assert_true(bootstrap_paired(a, b, 20, 0.95, 1).ratio == 1);
}

static void too_little_or_bad_samples_say_nothing(void **state) {
    (void)state;
    const double one[] = {5}, bad[] = {1, 0, 2}, odd[] = {1, NAN, 2}, good[] = {1, 2, 3};
    bootstrap_ratio r = bootstrap_paired(one, one, 1, 0.95, 1);
    assert_true(r.ratio == 1 && isnan(r.low) && isnan(r.high));
    assert_true(isnan(bootstrap_paired(one, one, 0, 0.95, 1).ratio));
    assert_true(isnan(bootstrap_paired(good, bad, 3, 0.95, 1).ratio));
    assert_true(isnan(bootstrap_independent(odd, 3, good, 3, 0.95, 1).ratio));
}

/* Of 400 sets of 10 samples with 5 % noise: an interval of 95 % may miss the truth in 20, and has
 * missed when it misses in more than 40. One that never missed would be wider than it says. */
static void intervals_hold_the_truth_as_often_as_they_say(void **state) {
    (void)state;
    enum { TRIES = 400, COUNT = 10 };
    int misses = 0;
    for (int i = 0; i < TRIES; i++) {
        rng_stream random = rng_stream_init(3, (uint64_t)i);
        double a[COUNT], b[COUNT];
        for (int j = 0; j < COUNT; j++) {
            a[j] = exp(0.05 * rng_truncated_normal(random, (uint64_t)j));
            b[j] = 1.07 * exp(0.05 * rng_truncated_normal(random, (uint64_t)(j + COUNT)));
        }
        bootstrap_ratio r = bootstrap_independent(a, COUNT, b, COUNT, 0.95, (uint64_t)i);
        misses += !(r.low <= 1.07 && r.high >= 1.07);
    }
    assert_in_range(misses, 1, TRIES / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(students_t_is_that_of_the_tables),
        cmocka_unit_test(equal_samples_have_the_ratio_one_exactly),
        cmocka_unit_test(the_same_seed_gives_the_same_interval),
        cmocka_unit_test(what_slows_a_whole_round_cancels_in_pairs),
        cmocka_unit_test(a_spike_moves_the_estimate_little),
        cmocka_unit_test(too_little_or_bad_samples_say_nothing),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
