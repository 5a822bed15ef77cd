/* lanes.h - vectors of 16 floats, for functions compiled for AVX-512 whatever the rest is compiled
 * for. Who calls them has asked isa_check(ISA_AVX512). */
#ifndef OPS_LANES_H
#define OPS_LANES_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

enum { LANES = 16 };

LANES_INLINE __mmask16 first_lanes(int64_t count) {
    return (__mmask16)(count >= LANES ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1);
}

/* v[i] lane j becomes v[j] lane i. */
LANES_INLINE void transpose_lanes(__m512 v[LANES]) {
    __m512 t[LANES];
    for (int i = 0; i < LANES; i += 4) {
        __m512 low = _mm512_unpacklo_ps(v[i], v[i + 1]), high = _mm512_unpackhi_ps(v[i], v[i + 1]);
        __m512 low2 = _mm512_unpacklo_ps(v[i + 2], v[i + 3]);
        __m512 high2 = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
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

/* 2^x within 2 ulp: 0 from -150 down, infinity from 128 on, NaN stays NaN. x = n + r with n its
 * floor: the instruction that multiplies by 2^n takes x for n, and rounds subnormal results. 2^r by
 * the polynomial of least relative error on [0, 1]. */
LANES_INLINE __m512 exp2_lanes(__m512 x) {
    __m512 r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF), y = _mm512_set1_ps(2.17022554e-4f);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.24396878e-3f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(9.67884100e-3f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.54833420e-2f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(2.40229836e-1f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(6.93146984e-1f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(y, x);
}

/* 2^x within 3e-6 of itself, for what is rounded to 8 bits anyway: two steps less. */
LANES_INLINE __m512 exp2_lanes_rough(__m512 x) {
    __m512 r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF), y = _mm512_set1_ps(1.35341679e-2f);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(5.20114606e-2f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(2.41442757e-1f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(6.93003834e-1f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.00000259f));
    return _mm512_scalef_ps(y, x);
}

#endif
#endif
