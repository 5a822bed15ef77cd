/* lanes.h - vectors of floats, one source for AVX2 and AVX-512.
 *
 * A file that includes this has said which: LANES_AVX2 gives 8 lanes, LANES_AVX512 gives 16. Its
 * functions are compiled for that instruction set whatever the rest is compiled for; who calls them
 * has asked the target. A mask has one answer a lane: all bits of a vector's lane in AVX2, a bit of
 * a mask register in AVX-512. */
#ifndef OPS_LANES_H
#define OPS_LANES_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* An unrolled loop over arrays of vectors. The compiler keeps the vectors in registers only if every index is a
 * constant when it looks at the array, which is before it unrolls loops by itself; else it keeps the array in
 * memory and copies it at each loop. */
#if defined(__clang__)
#define LANES_FOR(INDEX, COUNT) _Pragma("unroll") for (int INDEX = 0; INDEX < (COUNT); INDEX++)
#else
#define LANES_FOR(INDEX, COUNT)                                                                    \
    _Pragma("GCC unroll 16") for (int INDEX = 0; INDEX < (COUNT); INDEX++)
#endif

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

#if defined(LANES_AVX512)

#define LANES_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
enum { LANES = 16, LANES_REGISTERS = 32 };
typedef __m512 lanes;
typedef __m512i lanes_int;
typedef __mmask16 lanes_mask;

LANES_INLINE lanes lanes_zero(void) { return _mm512_setzero_ps(); }
LANES_INLINE lanes lanes_set(float x) { return _mm512_set1_ps(x); }
LANES_INLINE lanes lanes_load(const float *from) { return _mm512_loadu_ps(from); }
LANES_INLINE void lanes_store(float *to, lanes x) { _mm512_storeu_ps(to, x); }
LANES_INLINE void lanes_stream(float *to, lanes x) { _mm512_stream_ps(to, x); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
LANES_INLINE lanes lanes_sub(lanes a, lanes b) { return _mm512_sub_ps(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }

LANES_INLINE lanes_mask lanes_all(void) { return (lanes_mask)0xffff; }
LANES_INLINE lanes_mask lanes_none(void) { return (lanes_mask)0; }
LANES_INLINE lanes_mask lanes_first(int64_t count) {
    return (lanes_mask)(count >= LANES ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}
LANES_INLINE lanes_mask lanes_equal(lanes a, lanes b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
LANES_INLINE lanes_int lanes_load_int(const int32_t *from) { return _mm512_loadu_si512(from); }
/* Lanes of `limit` that are above x. */
LANES_INLINE lanes_mask lanes_above(lanes_int limit, int32_t x) {
    return _mm512_cmplt_epi32_mask(_mm512_set1_epi32(x), limit);
}
/* yes where the mask is set, no elsewhere. */
LANES_INLINE lanes lanes_choose(lanes_mask m, lanes yes, lanes no) {
    return _mm512_mask_mov_ps(no, m, yes);
}
/* c + a b where the mask is set, c elsewhere, whatever a and b hold there. */
LANES_INLINE lanes lanes_fma_where(lanes_mask m, lanes a, lanes b, lanes c) {
    return _mm512_mask3_fmadd_ps(a, b, c, m);
}
/* The first `count` lanes, which may be none; reads no further, and gives 0 in the others. */
LANES_INLINE lanes lanes_load_first(const float *from, int64_t count) {
    return _mm512_maskz_loadu_ps(lanes_first(count), from);
}
LANES_INLINE void lanes_store_first(float *to, int64_t count, lanes x) {
    _mm512_mask_storeu_ps(to, lanes_first(count), x);
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *from) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)from)), 16));
}
LANES_INLINE lanes lanes_load_f16(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)from));
}
/* The upper half of each lane is bf16: rounded to the nearest, ties to even. NaN must be quiet, as the result of
 * any operation is, and stays as it is. */
LANES_INLINE lanes_int lanes_round_bf16(lanes x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_mask_add_epi32(bits, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), bits,
                                 _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}
LANES_INLINE void lanes_store_bf16(uint16_t *to, lanes x) {
    __m512i high = _mm512_srli_epi32(lanes_round_bf16(x), 16);
    _mm256_storeu_si256((__m256i_u *)(void *)to, _mm512_cvtepi32_epi16(high));
}
/* Two vectors, one behind the other. */
LANES_INLINE void lanes_store_bf16_pair(uint16_t *to, lanes x, lanes y) {
    const __m512i upper_halves =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    _mm512_storeu_si512(
        to, _mm512_permutex2var_epi16(lanes_round_bf16(x), upper_halves, lanes_round_bf16(y)));
}
LANES_INLINE void lanes_store_f16(uint16_t *to, lanes x) {
    _mm256_storeu_si256((__m256i_u *)(void *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* v[i] lane j becomes v[j] lane i. */
LANES_INLINE void lanes_transpose(lanes v[LANES]) {
    lanes t[LANES];
    for (int i = 0; i < LANES; i += 4) {
        lanes low = _mm512_unpacklo_ps(v[i], v[i + 1]), high = _mm512_unpackhi_ps(v[i], v[i + 1]);
        lanes low2 = _mm512_unpacklo_ps(v[i + 2], v[i + 3]);
        lanes high2 = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
        t[i] = _mm512_shuffle_ps(low, low2, 0x44);
        t[i + 1] = _mm512_shuffle_ps(low, low2, 0xee);
        t[i + 2] = _mm512_shuffle_ps(high, high2, 0x44);
        t[i + 3] = _mm512_shuffle_ps(high, high2, 0xee);
    }
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < LANES; half += 8) {
            v[half + i] = _mm512_shuffle_f32x4(t[half + i], t[half + i + 4], 0x88);
            v[half + i + 4] = _mm512_shuffle_f32x4(t[half + i], t[half + i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        t[i] = _mm512_shuffle_f32x4(v[i], v[i + 8], 0x88);
        t[i + 8] = _mm512_shuffle_f32x4(v[i], v[i + 8], 0xdd);
    }
    memcpy(v, t, sizeof t);
}

/* x less its floor, and y times two to the power of that floor, rounded once where the result is
 * subnormal. */
LANES_INLINE lanes lanes_fraction(lanes x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF); }
LANES_INLINE lanes lanes_scale_by_floor(lanes y, lanes x) { return _mm512_scalef_ps(y, x); }

#elif defined(LANES_AVX2)

#define LANES_TARGET __attribute__((target("avx2,fma,f16c,bmi,bmi2")))
enum { LANES = 8, LANES_REGISTERS = 16 };
typedef __m256 lanes;
typedef __m256i lanes_int;
typedef __m256i lanes_mask;

LANES_INLINE lanes lanes_zero(void) { return _mm256_setzero_ps(); }
LANES_INLINE lanes lanes_set(float x) { return _mm256_set1_ps(x); }
LANES_INLINE lanes lanes_load(const float *from) { return _mm256_loadu_ps(from); }
LANES_INLINE void lanes_store(float *to, lanes x) { _mm256_storeu_ps(to, x); }
LANES_INLINE void lanes_stream(float *to, lanes x) { _mm256_stream_ps(to, x); }
LANES_INLINE lanes lanes_add(lanes a, lanes b) { return _mm256_add_ps(a, b); }
LANES_INLINE lanes lanes_sub(lanes a, lanes b) { return _mm256_sub_ps(a, b); }
LANES_INLINE lanes lanes_mul(lanes a, lanes b) { return _mm256_mul_ps(a, b); }
LANES_INLINE lanes lanes_max(lanes a, lanes b) { return _mm256_max_ps(a, b); }
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm256_fmadd_ps(a, b, c); }

LANES_INLINE lanes_mask lanes_all(void) { return _mm256_set1_epi32(-1); }
LANES_INLINE lanes_mask lanes_none(void) { return _mm256_setzero_si256(); }
LANES_INLINE lanes_mask lanes_first(int64_t count) {
    int32_t most = (int32_t)(count >= LANES ? LANES : count <= 0 ? 0 : count);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(most), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
LANES_INLINE lanes_mask lanes_equal(lanes a, lanes b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
LANES_INLINE lanes_int lanes_load_int(const int32_t *from) {
    return _mm256_loadu_si256((const __m256i_u *)(const void *)from);
}
LANES_INLINE lanes_mask lanes_above(lanes_int limit, int32_t x) {
    return _mm256_cmpgt_epi32(limit, _mm256_set1_epi32(x));
}
LANES_INLINE lanes lanes_choose(lanes_mask m, lanes yes, lanes no) {
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m));
}
LANES_INLINE lanes lanes_fma_where(lanes_mask m, lanes a, lanes b, lanes c) {
    return lanes_choose(m, lanes_fma(a, b, c), c);
}
LANES_INLINE lanes lanes_load_first(const float *from, int64_t count) {
    return _mm256_maskload_ps(from, lanes_first(count));
}
LANES_INLINE void lanes_store_first(float *to, int64_t count, lanes x) {
    _mm256_maskstore_ps(to, lanes_first(count), x);
}
LANES_INLINE lanes lanes_load_bf16(const uint16_t *from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)from)), 16));
}
LANES_INLINE lanes lanes_load_f16(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)from));
}
LANES_INLINE lanes_int lanes_round_bf16(lanes x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i is_number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    __m256i more = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_add_epi32(bits, _mm256_and_si256(is_number, more));
}
LANES_INLINE void lanes_store_bf16(uint16_t *to, lanes x) {
    __m256i high = _mm256_srli_epi32(lanes_round_bf16(x), 16);
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm_packus_epi32(_mm256_castsi256_si128(high),
                                                               _mm256_extracti128_si256(high, 1)));
}
LANES_INLINE void lanes_store_bf16_pair(uint16_t *to, lanes x, lanes y) {
    __m256i both = _mm256_packus_epi32(_mm256_srli_epi32(lanes_round_bf16(x), 16),
                                       _mm256_srli_epi32(lanes_round_bf16(y), 16));
    _mm256_storeu_si256((__m256i_u *)(void *)to, _mm256_permute4x64_epi64(both, 0xd8));
}
LANES_INLINE void lanes_store_f16(uint16_t *to, lanes x) {
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE void lanes_transpose(lanes v[LANES]) {
    lanes t[LANES];
    for (int i = 0; i < LANES; i += 4) {
        lanes low = _mm256_unpacklo_ps(v[i], v[i + 1]), high = _mm256_unpackhi_ps(v[i], v[i + 1]);
        lanes low2 = _mm256_unpacklo_ps(v[i + 2], v[i + 3]);
        lanes high2 = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
        t[i] = _mm256_shuffle_ps(low, low2, 0x44);
        t[i + 1] = _mm256_shuffle_ps(low, low2, 0xee);
        t[i + 2] = _mm256_shuffle_ps(high, high2, 0x44);
        t[i + 3] = _mm256_shuffle_ps(high, high2, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

/* Beyond these exponents the result is 0 or infinity for y from 1 to 2, and half of them is one that
 * a float has. NaN stays NaN: the second operand is the result where one is NaN. */
LANES_INLINE lanes lanes_limit_exponent(lanes x) {
    return _mm256_min_ps(_mm256_set1_ps(254), _mm256_max_ps(_mm256_set1_ps(-252), x));
}
LANES_INLINE lanes lanes_fraction(lanes x) {
    x = lanes_limit_exponent(x);
    return _mm256_sub_ps(x, _mm256_floor_ps(x));
}
/* By two factors of half the exponent each, since 2^-150 is no float; the second one rounds. */
LANES_INLINE lanes lanes_scale_by_floor(lanes y, lanes x) {
    __m256i n = _mm256_cvtps_epi32(_mm256_floor_ps(lanes_limit_exponent(x)));
    __m256i half = _mm256_srai_epi32(n, 1);
    __m256i bias = _mm256_set1_epi32(127), rest = _mm256_sub_epi32(n, half);
    lanes one = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    lanes two = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(y, one), two);
}

#else
#error "say LANES_AVX2 or LANES_AVX512 before including lanes.h"
#endif

/* 2^x within 2 ulp: 0 from -150 down, infinity from 128 on, NaN stays NaN. x = n + r with n its
 * floor; 2^r by the polynomial of least relative error on [0, 1]. */
LANES_INLINE lanes lanes_exp2(lanes x) {
    lanes r = lanes_fraction(x), y = lanes_set(2.17022554e-4f);
    y = lanes_fma(y, r, lanes_set(1.24396878e-3f));
    y = lanes_fma(y, r, lanes_set(9.67884100e-3f));
    y = lanes_fma(y, r, lanes_set(5.54833420e-2f));
    y = lanes_fma(y, r, lanes_set(2.40229836e-1f));
    y = lanes_fma(y, r, lanes_set(6.93146984e-1f));
    y = lanes_fma(y, r, lanes_set(1.0f));
    return lanes_scale_by_floor(y, x);
}

/* 2^x within 3e-6 of itself, for what is rounded to 8 bits anyway: two steps less. */
LANES_INLINE lanes lanes_exp2_rough(lanes x) {
    lanes r = lanes_fraction(x), y = lanes_set(1.35341679e-2f);
    y = lanes_fma(y, r, lanes_set(5.20114606e-2f));
    y = lanes_fma(y, r, lanes_set(2.41442757e-1f));
    y = lanes_fma(y, r, lanes_set(6.93003834e-1f));
    y = lanes_fma(y, r, lanes_set(1.00000259f));
    return lanes_scale_by_floor(y, x);
}

#endif
#endif
