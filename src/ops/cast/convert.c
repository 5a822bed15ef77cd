#include "ops/cast/convert.h"

#include <assert.h>
#include <string.h>

#include "ops/elementwise.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Numbers are converted through a piece of this many on the stack: out and in may overlap, and a
 * loop over memory that may do so is not vectorised. */
enum { PIECE = 256 };

static void bf16_piece(int64_t count, const float *restrict in, uint16_t *restrict out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = bf16_from_f32(in[i]);
}

static void f16_piece(int64_t count, const float *restrict in, uint16_t *restrict out) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
    for (; i + 4 <= count; i += 4)
        vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(in + i))));
#endif
    for (; i < count; i++)
        out[i] = dtype_f32_to_f16(in[i]);
}

void convert_f32_to_low(dtype low, int64_t count, const float *in, uint16_t *out) {
    assert(dtype_is_low(low));
    uint16_t piece[PIECE];
    for (int64_t start = 0; start < count; start += PIECE) {
        int64_t length = count - start < PIECE ? count - start : PIECE;
        if (low == DTYPE_BF16)
            bf16_piece(length, in + start, piece);
        else
            f16_piece(length, in + start, piece);
        memcpy(out + start, piece, (size_t)length * sizeof *piece);
    }
}

static void f16_to_f32(int64_t count, const uint16_t *restrict in, float *restrict out) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
#elif defined(__aarch64__)
    for (; i + 4 <= count; i += 4)
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(in + i))));
#endif
    for (; i < count; i++)
        out[i] = dtype_f16_to_f32(in[i]);
}

void convert_low_to_f32(dtype low, int64_t count, const uint16_t *in, float *restrict out) {
    assert(dtype_is_low(low));
    if (low == DTYPE_F16)
        f16_to_f32(count, in, out);
    else
        for (int64_t i = 0; i < count; i++)
            out[i] = float_from_bits((uint32_t)in[i] << 16);
}

/* f16 has no formula short enough to vectorise by itself; rows that are not dense go an element
 * at a time. */
static void f32_to_f16_row(int64_t n, void *out, const void *const *in, const int64_t *stride,
                           double s) {
    (void)s;
    const float *from = in[0];
    uint16_t *to = out;
    if (stride[0] == 1)
        convert_f32_to_low(DTYPE_F16, n, from, to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = dtype_f32_to_f16(from[i * stride[0]]);
}

static void f16_to_f32_row(int64_t n, void *out, const void *const *in, const int64_t *stride,
                           double s) {
    (void)s;
    const uint16_t *from = in[0];
    float *to = out;
    if (stride[0] == 1)
        convert_low_to_f32(DTYPE_F16, n, from, to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = dtype_f16_to_f32(from[i * stride[0]]);
}

dyno_status convert_run_f32_to_f16(const kernel_args *args) {
    return elementwise_run(args, f32_to_f16_row);
}

dyno_status convert_run_f16_to_f32(const kernel_args *args) {
    return elementwise_run(args, f16_to_f32_row);
}
