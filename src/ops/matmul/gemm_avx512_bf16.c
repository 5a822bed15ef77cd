/* gemm_avx512_bf16.c - sums of 8 x 32 in registers, by dot products of pairs of bf16.
 *
 * Takes the tiles that AMX takes: a pair of K of 16 columns is a vector of B', a pair of K of one
 * row is a double word of A' to be broadcast. */
#include "ops/matmul/gemm_engine.h"

#if defined(__x86_64__)

#define LANES_AVX512
#include "ops/lanes.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { ROWS = 8, HALVES = 2, LAST = 128 };

typedef __m512 sums[ROWS][HALVES];

/* ROWS lines of A' and a strip of B', and where they are along K. */
typedef struct cursor {
    const uint16_t *a, *b;
} cursor;

INLINE __m512bh pair_of(const uint16_t *a) {
    return (__m512bh)_mm512_set1_epi32(*(const int *)(const void *)a);
}

INLINE cursor multiply_depth(const gemm_block *x, int64_t depth, cursor at, sums total) {
    for (; depth > 0; depth -= PAIRS_DEPTH) {
        if (x->next)
            gemm_prefetch_next(x->next);
        for (int p = 0; p < PAIRS_DEPTH; p += 2) {
            __m512bh b[HALVES];
            LANES_FOR(j, HALVES)
                b[j] = (__m512bh)_mm512_load_si512(at.b + j * PAIRS_TILE + p * PAIRS_HALF);
            LANES_FOR(i, ROWS) {
                __m512bh pair = pair_of(at.a + i * PAIRS_DEPTH + p);
                LANES_FOR(j, HALVES)
                    total[i][j] = _mm512_dpbf16_ps(total[i][j], pair, b[j]);
            }
        }
        at.a += 2 * PAIRS_TILE;
        at.b += 2 * PAIRS_TILE;
    }
    return at;
}

INLINE void finish_f32(const gemm_target *to, int row, sums total) {
    __m512 alpha = _mm512_set1_ps(to->alpha);
    float *out = (float *)to->data + row * to->ld;
    LANES_FOR(i, ROWS)
        LANES_FOR(j, HALVES) {
            float *at = out + i * to->ld + j * PAIRS_HALF;
            __m512 x = _mm512_mul_ps(alpha, total[i][j]);
            if (to->accumulates)
                x = _mm512_add_ps(_mm512_loadu_ps(at), x);
            _mm512_storeu_ps(at, x);
        }
}

INLINE void finish_bf16(const gemm_target *to, int row, sums total) {
    __m512 alpha = _mm512_set1_ps(to->alpha);
    uint16_t *out = (uint16_t *)to->data + row * to->ld;
    LANES_FOR(i, ROWS) {
        uint16_t *at = out + i * to->ld;
        __m512 x[HALVES];
        LANES_FOR(j, HALVES) {
            x[j] = _mm512_mul_ps(alpha, total[i][j]);
            if (to->accumulates)
                x[j] = _mm512_add_ps(lanes_load_bf16(at + j * PAIRS_HALF), x[j]);
        }
        _mm512_storeu_si512((void *)at, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
    }
}

/* Rows of one or two cache lines. Stores that miss the L1 hold up the loads behind them. */
INLINE void prefetch_rows(const char *row, int64_t step, int bytes) {
    LANES_FOR(i, ROWS) {
        __builtin_prefetch(row + i * step, 1, 3);
        __builtin_prefetch(row + i * step + bytes - 1, 1, 3);
    }
}

/* Where the sums go is prefetched while the last k are multiplied: earlier, the strips would have displaced it. */
INLINE void prefetch_sums(const gemm_block *x, int row) {
    const gemm_target *to = x->finish;
    if (to) {
        int64_t step = to->ld * dtype_bytes(to->type);
        prefetch_rows((const char *)to->data + row * step, step,
                      PAIRS_LINES * (int)dtype_bytes(to->type));
    } else {
        int64_t step = x->sum_ld * (int64_t)sizeof *x->sum;
        prefetch_rows((const char *)x->sum + row * step, step, PAIRS_LINES * (int)sizeof *x->sum);
    }
}

INLINE void multiply_block(const gemm_block *x) {
    for (int row = 0; row < PAIRS_LINES; row += ROWS) {
        sums total;
        LANES_FOR(i, ROWS)
            LANES_FOR(j, HALVES)
                total[i][j] =
                    x->start ? _mm512_loadu_ps(x->start + (row + i) * x->start_ld + j * PAIRS_HALF)
                             : _mm512_setzero_ps();
        const uint16_t *a = x->a;
        cursor at = {a + row / PAIRS_HALF * PAIRS_TILE + row % PAIRS_HALF * PAIRS_DEPTH, x->b};
        int64_t last = x->depth < LAST ? x->depth : LAST;
        at = multiply_depth(x, x->depth - last, at, total);
        if (x->next)
            prefetch_sums(x, row);
        multiply_depth(x, last, at, total);
        if (x->finish && x->finish->type == DTYPE_F32)
            finish_f32(x->finish, row, total);
        else if (x->finish)
            finish_bf16(x->finish, row, total);
        else
            LANES_FOR(i, ROWS)
                LANES_FOR(j, HALVES)
                    _mm512_storeu_ps(x->sum + (row + i) * x->sum_ld + j * PAIRS_HALF, total[i][j]);
    }
}

TARGET static void multiply(const gemm_block *x) { multiply_block(x); }

TARGET static void multiply_pairs(int64_t depth, const void *a, const void *b, const float *start,
                                  int64_t start_ld, float *sum, int64_t sum_ld) {
    const gemm_block x = gemm_block_of_pairs(depth, a, b, start, start_ld, sum, sum_ld);
    multiply_block(&x);
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
                                      .near_panel_depth = 768,
                                      .near_own_lines = 64,
                                      .keeps_columns = true,
                                      .finishes_sums = true,
                                      .a_weight = 8,
                                      .b_weight = 8,
                                      .pack_a = gemm_pack_pairs_a,
                                      .pack_b = gemm_pack_pairs_b,
                                      .multiply = multiply,
                                      .multiply_pairs = multiply_pairs,
                                      .finish = gemm_finish_avx512_bf16};

#endif
