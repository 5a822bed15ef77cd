/* gemm_avx512_bf16.c - sums of 8 x 32 in registers, by dot products of pairs of bf16.
 *
 * Takes the tiles that AMX takes: a pair of K of 16 columns is a vector of B', a pair of K of one
 * row is a double word of A' to be broadcast. */
#include "ops/matmul/gemm_engine.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

enum { ROWS = 8 };

TARGET static inline __attribute__((always_inline)) __m512bh pair_of(const uint16_t *a) {
    return (__m512bh)_mm512_set1_epi32(*(const int *)(const void *)a);
}

TARGET static void multiply(const gemm_block *x) {
    for (int row = 0; row < PAIRS_LINES; row += ROWS) {
        __m512 total[ROWS][2];
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 2; j++)
                total[i][j] = x->start
                                  ? _mm512_loadu_ps(x->start + (row + i) * x->start_ld + 16 * j)
                                  : _mm512_setzero_ps();
        const uint16_t *left =
            (const uint16_t *)x->a + row / PAIRS_HALF * PAIRS_TILE + row % PAIRS_HALF * PAIRS_DEPTH;
        const uint16_t *right = x->b;
        for (int64_t k = 0; k < x->depth; k += PAIRS_DEPTH) {
            for (int p = 0; p < PAIRS_DEPTH; p += 2) {
                __m512bh b0 = (__m512bh)_mm512_load_si512(right + p * PAIRS_HALF);
                __m512bh b1 = (__m512bh)_mm512_load_si512(right + PAIRS_TILE + p * PAIRS_HALF);
                for (int i = 0; i < ROWS; i++) {
                    __m512bh pair = pair_of(left + i * PAIRS_DEPTH + p);
                    total[i][0] = _mm512_dpbf16_ps(total[i][0], pair, b0);
                    total[i][1] = _mm512_dpbf16_ps(total[i][1], pair, b1);
                }
            }
            left += 2 * PAIRS_TILE;
            right += 2 * PAIRS_TILE;
        }
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 2; j++)
                _mm512_storeu_ps(x->sum + (row + i) * x->sum_ld + 16 * j, total[i][j]);
    }
}

const gemm_engine gemm_avx512_bf16 = {.rows = PAIRS_LINES,
                                      .row_pitch = PAIRS_LINES,
                                      .shares_packing = true,
                                      .columns = PAIRS_LINES,
                                      .depth_step = PAIRS_DEPTH,
                                      .element_bytes = 2,
                                      .panel_depth = 320,
                                      .own_lines = 256,
                                      .shared_lines = 768,
                                      .a_weight = 8,
                                      .b_weight = 8,
                                      .pack_a = gemm_pack_pairs_a,
                                      .pack_b = gemm_pack_pairs_b,
                                      .multiply = multiply,
                                      .finish = gemm_finish_avx512_bf16};

#endif
