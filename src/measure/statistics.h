/* statistics.h - what a set of samples says. Derived when shown, never stored. */
#ifndef MEASURE_STATISTICS_H
#define MEASURE_STATISTICS_H

#include <stdint.h>

#include "measure/results.h"

/* With no samples every number but count and total is NAN; with one, std is. A sample that is
 * NAN makes all of them NAN. */
typedef struct statistics {
    int64_t count;
    double total, mean;
    double std; /* of the sample: divided by count - 1 */
    double median, min, max;
} statistics;

statistics statistics_of_integers(const int64_t *values, int64_t count);
statistics statistics_of_reals(const double *values, int64_t count);
/* NULL counts as no samples. */
statistics statistics_of_series(const results_series *series);

/* k of the y = c x^k that fits best: least squares on the logarithms. NAN unless there are two
 * different x; points that are not positive and finite are left out. */
double statistics_growth_exponent(const double *x, const double *y, int64_t count);

/* The same, and how far it can be trusted: through two sizes every such curve goes exactly. */
typedef struct statistics_growth {
    double exponent;
    int64_t sizes; /* different x */
    double worst;  /* largest |y / fit - 1| */
} statistics_growth;
statistics_growth statistics_growth_of(const double *x, const double *y, int64_t count);

#endif
