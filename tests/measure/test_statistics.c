#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measure/statistics.h"

static void known_samples_give_known_statistics(void **state) {
    (void)state;
    const int64_t values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    statistics s = statistics_of_integers(values, 8);
    assert_int_equal(s.count, 8);
    assert_true(s.total == 40 && s.mean == 5 && s.median == 4.5 && s.min == 2 && s.max == 9);
    assert_true(fabs(s.std - sqrt(32.0 / 7)) < 1e-15);
}

static void the_median_of_an_odd_count_is_a_sample(void **state) {
    (void)state;
    const double values[] = {9, 1, 3};
    assert_true(statistics_of_reals(values, 3).median == 3);
    assert_true(values[0] == 9); /* and the samples keep their order */
}

static void one_sample_has_no_standard_deviation(void **state) {
    (void)state;
    const int64_t value = 7;
    statistics s = statistics_of_integers(&value, 1);
    assert_true(s.mean == 7 && s.median == 7 && s.min == 7 && s.max == 7);
    assert_true(isnan(s.std));
}

static void no_samples_say_nothing(void **state) {
    (void)state;
    statistics s = statistics_of_reals(NULL, 0);
    assert_int_equal(s.count, 0);
    assert_true(s.total == 0);
    assert_true(isnan(s.mean) && isnan(s.std) && isnan(s.median) && isnan(s.min) && isnan(s.max));
    assert_int_equal(statistics_of_series(NULL).count, 0);
}

static void a_sample_that_is_no_number_spoils_them_all(void **state) {
    (void)state;
    const double values[] = {1, NAN, 3};
    statistics s = statistics_of_reals(values, 3);
    assert_true(isnan(s.mean) && isnan(s.median) && isnan(s.min) && isnan(s.max));
}

static void a_small_spread_on_a_large_offset_is_exact(void **state) {
    (void)state;
    const int64_t day = 86400000000000, values[] = {day, day + 1, day + 2};
    statistics s = statistics_of_integers(values, 3);
    assert_true(s.std == 1);
    assert_true(s.mean == (double)(day + 1));
}

static void series_of_either_kind_are_read(void **state) {
    (void)state;
    int64_t integers[] = {1, 2, 6};
    double reals[] = {0.5, 1.5};
    results_series series = {.kind = RESULTS_INTEGER, .count = 3, .integers = integers};
    assert_true(statistics_of_series(&series).mean == 3);
    series = (results_series){.kind = RESULTS_REAL, .count = 2, .reals = reals};
    assert_true(statistics_of_series(&series).mean == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_samples_give_known_statistics),
        cmocka_unit_test(the_median_of_an_odd_count_is_a_sample),
        cmocka_unit_test(one_sample_has_no_standard_deviation),
        cmocka_unit_test(no_samples_say_nothing),
        cmocka_unit_test(a_sample_that_is_no_number_spoils_them_all),
        cmocka_unit_test(a_small_spread_on_a_large_offset_is_exact),
        cmocka_unit_test(series_of_either_kind_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
