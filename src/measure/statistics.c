/* statistics.c - two passes and a sort.
 *
 * Sums run in long double: on x86 its 64-bit mantissa holds any count of nanoseconds exactly,
 * and the second pass of the variance has nothing to cancel. */
#include "measure/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

statistics statistics_of_reals(const double *values, int64_t count) {
    statistics s = {.count = count > 0 ? count : 0,
                    .mean = NAN,
                    .std = NAN,
                    .median = NAN,
                    .min = NAN,
                    .max = NAN};
    if (count <= 0)
        return s;
    long double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    s.total = (double)sum;
    if (isnan(s.total))
        return s;
    long double mean = sum / (long double)count, squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    s.mean = (double)mean;
    if (count > 1)
        s.std = (double)sqrtl(squares / (long double)(count - 1));
    double *sorted = memory_allocate((size_t)count, sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_reals);
    double upper = sorted[count / 2];
    s.median = count % 2 ? upper : sorted[count / 2 - 1] / 2 + upper / 2;
    s.min = sorted[0];
    s.max = sorted[count - 1];
    free(sorted);
    return s;
}

statistics statistics_of_integers(const int64_t *values, int64_t count) {
    double *reals = memory_allocate(count > 0 ? (size_t)count : 0, sizeof *reals);
    for (int64_t i = 0; i < count; i++)
        reals[i] = (double)values[i];
    statistics s = statistics_of_reals(reals, count);
    free(reals);
    return s;
}

statistics statistics_of_series(const results_series *series) {
    if (!series)
        return statistics_of_reals(NULL, 0);
    return series->kind == RESULTS_INTEGER ? statistics_of_integers(series->integers, series->count)
                                           : statistics_of_reals(series->reals, series->count);
}

static bool has_logarithm(double x) { return x > 0 && isfinite(x); }

static bool is_first(const double *x, int64_t index) {
    for (int64_t i = 0; i < index; i++)
        if (has_logarithm(x[i]) && fabs(x[i] - x[index]) <= 1e-12 * fabs(x[i]))
            return false;
    return true;
}

/* The line through the logarithms passes through their means. */
static double worst_deviation(const double *x, const double *y, int64_t count, double mean_x,
                              double mean_y, double exponent) {
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        if (has_logarithm(x[i]) && has_logarithm(y[i]))
            worst =
                fmax(worst, fabs(exp(log(y[i]) - mean_y - exponent * (log(x[i]) - mean_x)) - 1));
    return worst;
}

statistics_growth statistics_growth_of(const double *x, const double *y, int64_t count) {
    statistics_growth growth = {.exponent = NAN, .worst = NAN};
    double mean_x = 0, mean_y = 0, points = 0;
    for (int64_t i = 0; i < count; i++)
        if (has_logarithm(x[i]) && has_logarithm(y[i])) {
            mean_x += log(x[i]);
            mean_y += log(y[i]);
            points++;
            growth.sizes += is_first(x, i);
        }
    if (points < 2)
        return growth;
    mean_x /= points;
    mean_y /= points;
    double together = 0, alone = 0;
    for (int64_t i = 0; i < count; i++)
        if (has_logarithm(x[i]) && has_logarithm(y[i])) {
            together += (log(x[i]) - mean_x) * (log(y[i]) - mean_y);
            alone += (log(x[i]) - mean_x) * (log(x[i]) - mean_x);
        }
    if (alone > 1e-12) {
        growth.exponent = together / alone;
        growth.worst = worst_deviation(x, y, count, mean_x, mean_y, growth.exponent);
    }
    return growth;
}

double statistics_growth_exponent(const double *x, const double *y, int64_t count) {
    return statistics_growth_of(x, y, count).exponent;
}
