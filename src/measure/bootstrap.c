#include "measure/bootstrap.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"

enum { RESAMPLES = 1000 };

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `values`. The quarters that are cut off may end within a value, which then counts in part, so
 * that the estimate does not jump with the number of samples. */
static double mean_of_middle_half(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, compare_reals);
    double cut = (double)count / 4, sum = 0, weight = 0;
    for (int64_t i = 0; i < count; i++) {
        double from = fmax((double)i, cut), to = fmin((double)i + 1, (double)count - cut);
        if (to > from) {
            sum += values[i] * (to - from);
            weight += to - from;
        }
    }
    return sum / weight;
}

static bool take_logarithms(const double *values, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) {
        if (!(values[i] > 0) || !isfinite(values[i]))
            return false;
        out[i] = log(values[i]);
    }
    return count > 0;
}

typedef struct estimate {
    double value, variance;
} estimate;

/* With one sample the variance is NAN. */
static estimate estimate_of(const double *logarithms, int64_t count, uint64_t seed) {
    double *drawn = memory_allocate((size_t)count, sizeof *drawn);
    memcpy(drawn, logarithms, (size_t)count * sizeof *drawn);
    estimate found = {.value = mean_of_middle_half(drawn, count), .variance = (double)NAN};
    double sum = 0, squares = 0;
    for (int i = 0; i < RESAMPLES && count > 1; i++) {
        rng_stream random = rng_stream_init(seed, (uint64_t)i);
        for (int64_t j = 0; j < count; j++)
            drawn[j] = logarithms[rng_bits(random, (uint64_t)j) % (uint64_t)count];
        double off = mean_of_middle_half(drawn, count) - found.value;
        sum += off;
        squares += off * off;
    }
    /* A resample varies less than a fresh set of samples would, by (count - 1) / count. */
    if (count > 1)
        found.variance = (squares - sum * sum / RESAMPLES) / (RESAMPLES - 1) * (double)count /
                         (double)(count - 1);
    free(drawn);
    return found;
}

/* Newton on the complementary error function, from a start that is good to two digits. */
static double normal_quantile(double confidence) {
    double tail = (1 - confidence) / 2;
    double t = sqrt(-2 * log(tail));
    double z = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t);
    for (int i = 0; i < 4; i++) {
        double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));
        z += (erfc(z / sqrt(2.0)) / 2 - tail) / density;
    }
    return z;
}

/* Two degrees and one have closed forms; from three on the expansion around the normal distribution
 * is good to 2 %. */
double bootstrap_student_t(double confidence, double freedom) {
    double z = normal_quantile(confidence), z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    if (freedom < 1.5)
        return tan(acos(-1.0) * confidence / 2);
    if (freedom < 2.5)
        return confidence * sqrt(2 / (1 - confidence * confidence));
    return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom * freedom * freedom);
}

static bootstrap_ratio interval_of(double logarithm, double variance, double freedom,
                                   double confidence) {
    double half = bootstrap_student_t(confidence, freedom) * sqrt(variance);
    return (bootstrap_ratio){exp(logarithm), exp(logarithm - half), exp(logarithm + half)};
}

static const bootstrap_ratio UNKNOWN = {(double)NAN, (double)NAN, (double)NAN};

bootstrap_ratio bootstrap_paired(const double *a, const double *b, int64_t count, double confidence,
                                 uint64_t seed) {
    if (count <= 0)
        return UNKNOWN;
    double *logs = memory_allocate((size_t)count * 2, sizeof *logs), *of_b = logs + count;
    bootstrap_ratio found = UNKNOWN;
    if (take_logarithms(a, count, logs) && take_logarithms(b, count, of_b)) {
        for (int64_t i = 0; i < count; i++)
            logs[i] = of_b[i] - logs[i];
        estimate e = estimate_of(logs, count, seed);
        found = interval_of(e.value, e.variance, (double)(count - 1), confidence);
    }
    free(logs);
    return found;
}

bootstrap_ratio bootstrap_independent(const double *a, int64_t a_count, const double *b,
                                      int64_t b_count, double confidence, uint64_t seed) {
    if (a_count <= 0 || b_count <= 0)
        return UNKNOWN;
    double *logs = memory_allocate((size_t)(a_count + b_count), sizeof *logs),
           *of_b = logs + a_count;
    bootstrap_ratio found = UNKNOWN;
    if (take_logarithms(a, a_count, logs) && take_logarithms(b, b_count, of_b)) {
        estimate of_a = estimate_of(logs, a_count, seed),
                 its = estimate_of(of_b, b_count, seed + 1);
        /* As many degrees of freedom as the smaller side has: on the safe side. */
        double freedom = (double)(a_count < b_count ? a_count : b_count) - 1;
        found =
            interval_of(its.value - of_a.value, of_a.variance + its.variance, freedom, confidence);
    }
    free(logs);
    return found;
}
