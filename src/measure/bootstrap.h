/* bootstrap.h - how much longer something takes, with an interval, from samples of both.
 *
 * The typical time of a set of samples is the exponential of the mean of the middle half of their
 * logarithms (the interquartile mean): as robust against spikes as the median and less noisy. The
 * interval is the estimate +- t x standard error, in logarithms; the standard error comes from
 * resampling whole samples with replacement, t is Student's for so few samples. The same samples and
 * seed give the same interval. */
#ifndef MEASURE_BOOTSTRAP_H
#define MEASURE_BOOTSTRAP_H

#include <stdint.h>

/* b / a: above 1 b takes longer. All NAN where a side has no samples, or one that is not positive and
 * finite; low and high NAN where there are too few to tell. */
typedef struct bootstrap_ratio {
    double ratio, low, high;
} bootstrap_ratio;

/* a[i] and b[i] were measured together, in round i: what slowed one round down cancels. */
bootstrap_ratio bootstrap_paired(const double *a, const double *b, int64_t count, double confidence,
                                 uint64_t seed);
/* Samples of the two sides have nothing to do with each other. */
bootstrap_ratio bootstrap_independent(const double *a, int64_t a_count, const double *b,
                                      int64_t b_count, double confidence, uint64_t seed);

/* Student's t: of a symmetric interval with this confidence, 0 to 1, and so many degrees of freedom. */
double bootstrap_student_t(double confidence, double freedom);

#endif
