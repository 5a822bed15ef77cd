/* gemm_pairs.c - packs bf16 operands into tiles of 16 lines by 32 of K, in 16 vector registers.
 *
 * A tile comes in by lines (vector i: 32 numbers of line i), when K is dense in memory, or by
 * pairs (vector p: numbers 2p and 2p+1 of 16 lines), when the lines are. A' wants the first form
 * and B' the second; the one is the other with its 16 x 16 double words transposed. */
#include "ops/matmul/gemm_engine.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE void transpose(__m512i v[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < 16; half += 8) {
            t[half + i] = _mm512_shuffle_i32x4(v[half + i], v[half + i + 4], 0x88);
            t[half + i + 4] = _mm512_shuffle_i32x4(v[half + i], v[half + i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

INLINE void store_tile(uint16_t *to, const __m512i v[16]) {
    for (int i = 0; i < 16; i++)
        _mm512_store_si512((void *)(to + i * PAIRS_DEPTH), v[i]);
}

/* K dense. The next strip's numbers are asked for meanwhile: weights come from far away, and so
 * many lines at once are more than the hardware follows. */
INLINE void load_by_lines(const uint16_t *from, int64_t along, int lines, int depth,
                          __m512i v[16]) {
    if (lines == PAIRS_HALF && depth == PAIRS_DEPTH) {
        for (int i = 0; i < PAIRS_HALF; i++) {
            v[i] = _mm512_loadu_si512(from + i * along);
            _mm_prefetch((const char *)(from + (i + PAIRS_LINES) * along), _MM_HINT_T1);
        }
        return;
    }
    __mmask32 mask = depth == PAIRS_DEPTH ? ~(__mmask32)0 : ((__mmask32)1 << depth) - 1;
    for (int i = 0; i < PAIRS_HALF; i++)
        v[i] =
            i < lines ? _mm512_maskz_loadu_epi16(mask, from + i * along) : _mm512_setzero_si512();
}

/* Lines dense, at the edges of an operand. */
INLINE void load_by_pairs(const uint16_t *from, int64_t deep, int lines, int depth, __m512i v[16]) {
    __mmask16 mask = (__mmask16)((1u << lines) - 1);
    for (int p = 0; p < PAIRS_HALF; p++) {
        __m256i low = _mm256_setzero_si256(), high = low;
        if (2 * p < depth)
            low = _mm256_maskz_loadu_epi16(mask, from + 2 * p * deep);
        if (2 * p + 1 < depth)
            high = _mm256_maskz_loadu_epi16(mask, from + (2 * p + 1) * deep);
        v[p] = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
    }
}

/* The same for both halves of a strip at once: half the loads, and two rows interleaved by one
 * instruction a half. */
INLINE void load_strip_by_pairs(const uint16_t *from, int64_t deep, __m512i low[16],
                                __m512i high[16]) {
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(PAIRS_HALF));
    for (int p = 0; p < PAIRS_HALF; p++) {
        const uint16_t *even = from + 2 * p * deep, *odd = even + deep;
        __m512i x = _mm512_loadu_si512(even), y = _mm512_loadu_si512(odd);
        _mm_prefetch((const char *)(even + PAIRS_DEPTH * deep), _MM_HINT_T1);
        _mm_prefetch((const char *)(odd + PAIRS_DEPTH * deep), _MM_HINT_T1);
        low[p] = _mm512_permutex2var_epi16(x, first, y);
        high[p] = _mm512_permutex2var_epi16(x, second, y);
    }
}

INLINE void pack_strip_by_pairs(const uint16_t *from, int64_t deep, bool wants_pairs,
                                uint16_t *to) {
    __m512i low[16], high[16];
    load_strip_by_pairs(from, deep, low, high);
    if (!wants_pairs) {
        transpose(low);
        transpose(high);
    }
    store_tile(to, low);
    store_tile(to + PAIRS_TILE, high);
}

INLINE void load_strided(const gemm_lines *from, const uint16_t *at, int lines, int depth,
                         __m512i v[16]) {
    _Alignas(64) uint16_t tile[PAIRS_TILE];
    memset(tile, 0, sizeof tile);
    for (int i = 0; i < lines; i++)
        for (int l = 0; l < depth; l++)
            tile[i * PAIRS_DEPTH + l] = at[i * from->along + l * from->deep];
    for (int i = 0; i < PAIRS_HALF; i++)
        v[i] = _mm512_load_si512(tile + i * PAIRS_DEPTH);
}

INLINE void pack_tile(const gemm_lines *from, int64_t line, int64_t count, int64_t k, int64_t depth,
                      bool wants_pairs, uint16_t *to) {
    const uint16_t *at = (const uint16_t *)from->data + line * from->along + k * from->deep;
    int lines = (int)(count - line < PAIRS_HALF ? count - line : PAIRS_HALF);
    int deep = (int)(depth - k < PAIRS_DEPTH ? depth - k : PAIRS_DEPTH);
    __m512i v[16];
    if (lines <= 0) {
        memset(to, 0, PAIRS_TILE * sizeof *to);
        return;
    }
    bool is_pairs = false;
    if (from->deep == 1)
        load_by_lines(at, from->along, lines, deep, v);
    else if ((is_pairs = from->along == 1))
        load_by_pairs(at, from->deep, lines, deep, v);
    else
        load_strided(from, at, lines, deep, v);
    if (is_pairs != wants_pairs)
        transpose(v);
    store_tile(to, v);
}

/* Reads memory in the order it lies: all of K before the next strip when K is dense, all strips
 * before the next of K when the lines are. */
INLINE void pack(const gemm_lines *from, int64_t count, int64_t depth, bool wants_pairs,
                 uint16_t *to) {
    int64_t steps = (depth + PAIRS_DEPTH - 1) / PAIRS_DEPTH;
    int64_t strips = (count + PAIRS_LINES - 1) / PAIRS_LINES;
    bool strips_first = from->along == 1 && from->deep != 1;
    for (int64_t i = 0; i < strips * steps; i++) {
        int64_t strip = strips_first ? i % strips : i / steps;
        int64_t step = strips_first ? i / strips : i % steps;
        int64_t line = strip * PAIRS_LINES, k = step * PAIRS_DEPTH;
        uint16_t *at = to + (strip * steps + step) * 2 * PAIRS_TILE;
        if (strips_first && line + PAIRS_LINES <= count && k + PAIRS_DEPTH <= depth)
            pack_strip_by_pairs((const uint16_t *)from->data + line + k * from->deep, from->deep,
                                wants_pairs, at);
        else
            for (int half = 0; half < 2; half++)
                pack_tile(from, line + half * PAIRS_HALF, count, k, depth, wants_pairs,
                          at + half * PAIRS_TILE);
    }
}

TARGET void gemm_pack_pairs_a(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                              int64_t pitch, void *to) {
    (void)width; /* both are PAIRS_LINES */
    (void)pitch;
    pack(from, count, depth, false, to);
}

TARGET void gemm_pack_pairs_b(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                              int64_t pitch, void *to) {
    (void)width; /* both are PAIRS_LINES */
    (void)pitch;
    pack(from, count, depth, true, to);
}

/* 16 sums, or the first ones of them. */
INLINE void finish_f32(const gemm_target *to, __m512 x, __mmask16 mask, float *at) {
    if (to->accumulates)
        x = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), x);
    _mm512_mask_storeu_ps(at, mask, x);
}

INLINE void finish_bf16(const gemm_target *to, __m512 x, __mmask16 mask, uint16_t *at) {
    if (to->accumulates) {
        __m512i before = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at));
        x = _mm512_add_ps(_mm512_castsi512_ps(_mm512_slli_epi32(before, 16)), x);
    }
    _mm256_mask_storeu_epi16(at, mask, (__m256i)_mm512_cvtneps_pbh(x));
}

/* Row by row, so that each cache line of the result is written once, and whole where it can be. */
TARGET void gemm_finish_avx512_bf16(const gemm_target *to, const float *sum, int64_t ld,
                                    int64_t rows, int64_t columns) {
    const __m512 alpha = _mm512_set1_ps(to->alpha);
    bool is_f32 = to->type == DTYPE_F32;
    for (int64_t i = 0; i < rows; i++, sum += ld) {
        float *wide = (float *)to->data + i * to->ld;
        uint16_t *narrow = (uint16_t *)to->data + i * to->ld;
        if (columns == PAIRS_LINES && !is_f32 && !to->accumulates) {
            __m512 low = _mm512_mul_ps(alpha, _mm512_loadu_ps(sum));
            __m512 high = _mm512_mul_ps(alpha, _mm512_loadu_ps(sum + PAIRS_HALF));
            _mm512_storeu_si512(narrow, (__m512i)_mm512_cvtne2ps_pbh(high, low));
            continue;
        }
        for (int64_t j = 0; j < columns; j += PAIRS_HALF) {
            int64_t left = columns - j;
            __mmask16 mask = (__mmask16)(left < PAIRS_HALF ? (1u << left) - 1 : 0xffffu);
            __m512 x = _mm512_mul_ps(alpha, _mm512_loadu_ps(sum + j));
            if (is_f32)
                finish_f32(to, x, mask, wide + j);
            else
                finish_bf16(to, x, mask, narrow + j);
        }
    }
}

#endif
