/* rng.c - splitmix64 as a counter-based generator; normals by inverting the distribution, so
 * that one draw makes one number and truncation needs no rejection. */
#include "base/rng.h"

#include <math.h>

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

/* Acklam's rational approximation of the inverse normal distribution, relative error 1.2e-9. */
static double inverse_normal(double p) {
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
        double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                   ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
        return p < low ? x : -x;
    }
    double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

double rng_truncated_normal(rng_stream stream, uint64_t index) {
    const double tail = 0.0013498980316300933; /* P(x < -3) */
    return inverse_normal(tail + rng_uniform(stream, index) * (1 - 2 * tail));
}
