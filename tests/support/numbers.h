/* numbers.h - how far results are apart. */
#ifndef TESTS_SUPPORT_NUMBERS_H
#define TESTS_SUPPORT_NUMBERS_H

#include <stdint.h>

/* ||a - b|| / ||b||; ||a|| when b is zero. */
double relative_error(const double *a, const double *b, int64_t count);

/* |got - exact| in units of the last place that a float near `exact` has. NaN for NaN and an
 * infinity where `exact` rounds to it are 0 apart. */
double ulps_apart(float got, double exact);

#endif
