/* scalar_math.h - the functions a scalar expression may use: EXP, LOG, SQRT.
 *
 * In float they are written so that a loop over them vectorises: no branches, no tables, no
 * calls. In double they are libm's, which is what the references use. */
#ifndef OPS_SCALAR_MATH_H
#define OPS_SCALAR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint32_t bits_from_float(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* a * b + c, rounded once where the machine can: said outright, because generated kernels are
 * compiled without contraction. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* exp in float, within 1.5 ulp; 0 below -104, infinity above 88.73, NaN stays NaN.
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial (Cephes' coefficients). 2^n is
 * applied in two halves, so that subnormal results come out right. `magic` adds twice the bias of an exponent to n, so
 * that half of its bits, and the rest, end in the bits of the two factors' exponents.
 *
 * Limits of x would be the plain way to keep n within what an exponent holds. But gcc follows what
 * a limit makes constant through the rest, and a loop then chooses between results thrice. So n has
 * its upper limit as an integer, above which r and with it the polynomial grow until the result is
 * infinite; and what is below the lower limit is replaced at the end. */
static inline float exp_f32(float x) {
    const float magic = 0x1.8p23f + 254; /* adding it rounds to an integer, held in the low bits */
    int32_t most = (int32_t)bits_from_float(magic) + 150;
    int32_t rounded = (int32_t)bits_from_float(MULTIPLY_ADD(x, 0x1.715476p0f, magic));
    rounded = rounded < most ? rounded : most;
    float n = float_from_bits((uint32_t)rounded) - magic;
    float r = MULTIPLY_ADD(n, -0x1.62e4p-1f, x);
    r = MULTIPLY_ADD(n, -0x1.7f7d1cp-20f, r);
    float p = 1.9875691500e-4f;
    p = MULTIPLY_ADD(p, r, 1.3981999507e-3f);
    p = MULTIPLY_ADD(p, r, 8.3334519073e-3f);
    p = MULTIPLY_ADD(p, r, 4.1665795894e-2f);
    p = MULTIPLY_ADD(p, r, 1.6666665459e-1f);
    p = MULTIPLY_ADD(p, r, 5.0000001201e-1f);
    float y = MULTIPLY_ADD(p, r * r, r) + 1.0f;
    uint32_t half = (uint32_t)rounded >> 1, rest = (uint32_t)rounded - half;
    y *= float_from_bits(half << 23);
    y *= float_from_bits(rest << 23);
    return x < -104.0f ? 0.0f : y;
}

/* log in float, within 1.5 ulp; -infinity at 0, NaN below it.
 * x = 2^n m with m in [sqrt(1/2), sqrt(2)); log m by a polynomial (Cephes' coefficients). Subnormal
 * numbers are scaled to normal ones, by a mask of all bits or none: see exp_f32. */
static inline float log_f32(float x) {
    uint32_t is_small = (int32_t)bits_from_float(x) < 0x00800000 ? ~0u : 0u;
    float scaled = x * float_from_bits(0x3f800000u + (is_small & 23u << 23)); /* 1 or 2^23 */
    uint32_t shifted = bits_from_float(scaled) - 0x3f3504f3u;                 /* sqrt(1/2) */
    float m = float_from_bits((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float n = (float)(((int32_t)shifted >> 23) - (int32_t)(is_small & 23u));
    float p = 7.0376836292e-2f;
    p = MULTIPLY_ADD(p, m, -1.1514610310e-1f);
    p = MULTIPLY_ADD(p, m, 1.1676998740e-1f);
    p = MULTIPLY_ADD(p, m, -1.2420140846e-1f);
    p = MULTIPLY_ADD(p, m, 1.4249322787e-1f);
    p = MULTIPLY_ADD(p, m, -1.6668057665e-1f);
    p = MULTIPLY_ADD(p, m, 2.0000714765e-1f);
    p = MULTIPLY_ADD(p, m, -2.4999993993e-1f);
    p = MULTIPLY_ADD(p, m, 3.3333331174e-1f);
    float square = m * m;
    float y = p * m * square - 0x1.bd0106p-13f * n - 0.5f * square;
    y = m + y + 0x1.63p-1f * n;
    y = x < INFINITY ? y : x; /* NaN, too */
    y = x < 0.0f ? NAN : y;
    return x == 0.0f ? -INFINITY : y;
}

#define EXP(x) _Generic((x), double : exp, float : exp_f32)(x)
#define LOG(x) _Generic((x), double : log, float : log_f32)(x)
#define SQRT(x) _Generic((x), double : sqrt, float : sqrtf)(x)

#endif
