/* rng.c - splitmix64 as a counter-based generator; normals by inverting the distribution, so
 * that one draw makes one number and truncation needs no rejection. */
#include "base/rng.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

rng_stream rng_stream_init(uint64_t seed, uint64_t stream) {
    rng_stream base = {seed * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du};
    return (rng_stream){rng_bits(base, stream)};
}

uint64_t rng_hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

/* By fused multiply-adds that are written down, so that every machine draws the same numbers. */
INLINE double polynomial(const double *coefficient, int count, double x) {
    double y = coefficient[0];
    for (int i = 1; i < count; i++)
        y = fma(y, x, coefficient[i]);
    return y;
}

/* Acklam's rational approximation of the inverse normal distribution, relative error 1.2e-9. */
INLINE double inverse_normal(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    const double low = 0.02425;
    if (p < low || p > 1 - low) {
        double q = sqrt(-2 * log(p < low ? p : 1 - p));
        double x = polynomial(c, 6, q) / fma(polynomial(d, 4, q), q, 1);
        return p < low ? x : -x;
    }
    double q = p - 0.5, r = q * q;
    return polynomial(a, 6, r) * q / fma(polynomial(b, 5, r), r, 1);
}

INLINE double truncated_normal(double uniform) {
    const double tail = 0.0013498980316300933; /* P(x < -3) */
    return inverse_normal(fma(uniform, 1 - 2 * tail, tail));
}

#if defined(__x86_64__)
/* The same bits, many times faster than the library's function. */
__attribute__((target("fma"))) static double truncated_normal_by_fma(double uniform) {
    return truncated_normal(uniform);
}
#endif

double rng_truncated_normal(rng_stream stream, uint64_t index) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma"))
        return truncated_normal_by_fma(rng_uniform(stream, index));
#endif
    return truncated_normal(rng_uniform(stream, index));
}
