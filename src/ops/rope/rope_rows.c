#include "ops/rope/rope_rows.h"

#include "ops/cast/convert.h"
#include "ops/scalar_math.h"

/* y may be x: no iteration reads what another writes. */
static void rotate_row(int64_t half, const float *x, const float *c, const float *s, float sign,
                       float *y) {
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        float sine = sign * s[j], a = x[j], b = x[j + half];
        y[j] = MULTIPLY_ADD(a, c[j], -(b * sine));
        y[j + half] = MULTIPLY_ADD(b, c[j], a * sine);
    }
}

/* The same in bf16. */
static void rotate_bf16_row(int64_t half, const uint16_t *x, const float *c, const float *s,
                            float sign, uint16_t *y) {
#pragma omp simd
    for (int64_t j = 0; j < half; j++) {
        float sine = sign * s[j], a = float_from_bits((uint32_t)x[j] << 16);
        float b = float_from_bits((uint32_t)x[j + half] << 16);
        y[j] = bf16_from_f32(MULTIPLY_ADD(a, c[j], -(b * sine)));
        y[j + half] = bf16_from_f32(MULTIPLY_ADD(b, c[j], a * sine));
    }
}

/* A row in f16, in pieces that fit the stack. */
static void rotate_f16_row(int64_t half, const uint16_t *x, const float *c, const float *s,
                           float sign, uint16_t *y) {
    enum { PIECE = 256 };
    float wide[2 * PIECE], rotated[2 * PIECE];
    for (int64_t start = 0; start < half; start += PIECE) {
        int64_t n = half - start < PIECE ? half - start : PIECE;
        convert_low_to_f32(DTYPE_F16, n, x + start, wide);
        convert_low_to_f32(DTYPE_F16, n, x + half + start, wide + n);
        rotate_row(n, wide, c + start, s + start, sign, rotated);
        convert_f32_to_low(DTYPE_F16, n, rotated, y + start);
        convert_f32_to_low(DTYPE_F16, n, rotated + n, y + half + start);
    }
}

void rope_rotate_row(dtype type, int64_t half, const void *x, const float *cosine,
                     const float *sine, bool is_inverse, void *y) {
    float sign = is_inverse ? -1.0f : 1.0f;
    if (type == DTYPE_F32)
        rotate_row(half, x, cosine, sine, sign, y);
    else if (type == DTYPE_BF16)
        rotate_bf16_row(half, x, cosine, sine, sign, y);
    else
        rotate_f16_row(half, x, cosine, sine, sign, y);
}
