/* attention_panels.h - what attention's AVX-512 kernels are made of.
 *
 * A panel is 32 queries in the lanes of two vectors. Scores of a panel lie as [key][32], so that
 * maxima, sums and exponentials of a query are operations between vectors, never across one, and
 * P is at once the right operand of O^T = V^T P^T. The left operand of a product is read a number
 * at a time and needs no packing: rows of K and V as they are, by row or by column. (gemm_floats.c
 * wants both operands packed and gives sums by row; what it shares with this is lanes.h.)
 *
 * Tiles are f32, rows `pitch` apart, zeros where an operand has nothing. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_PANELS_H
#define OPS_ATTENTION_CPU_ATTENTION_PANELS_H

#include "ops/attention/cpu/attention_cpu_rows.h"
#define LANES_AVX512
#include "ops/lanes.h"

/* The reason when operands or the machine do not suit, else NULL. */
const char *attention_reject_avx512(const kernel_args *args);

#if defined(__x86_64__)

enum {
    PANEL = 2 * LANES, /* queries */
    STEP = 8,          /* rows of a block of sums: 16 vectors, enough to hide an FMA's latency */
    TILE_KEYS = 128,
    TILE_FLOATS = 16384 /* of K or V in a tile: 64 KiB */
};
#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f

static inline int64_t attention_smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t attention_round_up(int64_t x, int64_t step) {
    return (x + step - 1) / step * step;
}

/* Keys in a tile, for rows so far apart. */
static inline int64_t attention_tile_keys(int64_t pitch) {
    return attention_smaller(TILE_KEYS, TILE_FLOATS / pitch / STEP * STEP);
}

/* For kernel.variants: queries from `most_queries` down and keys from `most_keys` or what a tile holds
 * of them down, by halves to 32. */
int attention_list_panels(const kernel_args *args, int most_queries, int most_keys,
                          attention_tile *out);

/* ---- who sees whom ---- */

/* Of a panel that begins with `query`, and a tile of keys that begins with `first`: the lanes'
 * numbers of visible keys, counted from `first`. */
LANES_INLINE void panel_limits(const attention_problem *p, int64_t query, int64_t first,
                               __m512i limit[2]) {
    int32_t seen[PANEL];
    for (int i = 0; i < PANEL; i++) {
        int64_t keys = attention_smaller(attention_visible_keys(p, query + i), p->keys) - first;
        seen[i] = (int32_t)(keys < 0 ? 0 : attention_smaller(keys, INT32_MAX));
    }
    for (int i = 0; i < 2; i++)
        limit[i] = _mm512_loadu_si512(seen + i * LANES);
}

LANES_INLINE __mmask16 lanes_that_see(__m512i limit, int64_t key) {
    return _mm512_cmplt_epi32_mask(_mm512_set1_epi32((int32_t)key), limit);
}

/* Rows of the tile of `count` keys from `first` that some query of the panel sees, rounded up to
 * STEP. */
static inline int64_t panel_rows(const attention_problem *p, int64_t query, int64_t first,
                                 int64_t count) {
    int64_t last = attention_smaller(query + PANEL, p->queries) - 1;
    int64_t seen = attention_smaller(count, attention_visible_keys(p, last) - first);
    return seen <= 0 ? 0 : attention_round_up(seen, STEP);
}

/* Rows, from the first, that all queries of the panel see. */
static inline int64_t panel_clear_rows(const attention_problem *p, int64_t query, int64_t first,
                                       int64_t count) {
    int64_t clear = attention_smaller(count, attention_visible_keys(p, query) - first);
    return clear < 0 ? 0 : clear;
}

/* ---- products ---- */

typedef __m512 attention_sums[STEP][2];

LANES_INLINE void sums_clear(attention_sums sums) {
    for (int r = 0; r < STEP; r++)
        sums[r][0] = sums[r][1] = _mm512_setzero_ps();
}

LANES_INLINE void sums_load(int vectors, attention_sums sums, const float *from, int64_t pitch) {
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++)
            sums[r][i] = _mm512_loadu_ps(from + r * pitch + i * LANES);
}

LANES_INLINE void sums_store(int vectors, attention_sums sums, float *to, int64_t pitch) {
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++)
            _mm512_storeu_ps(to + r * pitch + i * LANES, sums[r][i]);
}

/* sums[8][16 * vectors] += a b, where number (r, k) of a is a[r * row + k * deep]. */
LANES_INLINE void sums_add(int vectors, attention_sums sums, int64_t depth, const float *a,
                           int64_t row, int64_t deep, const float *b, int64_t b_pitch) {
    for (int64_t k = 0; k < depth; k++) {
        __m512 right[2];
        for (int i = 0; i < vectors; i++)
            right[i] = _mm512_loadu_ps(b + k * b_pitch + i * LANES);
        for (int r = 0; r < STEP; r++) {
            __m512 left = _mm512_set1_ps(a[r * row + k * deep]);
            for (int i = 0; i < vectors; i++)
                sums[r][i] = _mm512_fmadd_ps(left, right[i], sums[r][i]);
        }
    }
}

/* The same for rows of b that are keys from `key` on: lanes that do not see one take nothing from
 * it. A factor of 0 would not do, since a hidden row may hold what is no number. */
LANES_INLINE void sums_add_seen(attention_sums sums, int64_t depth, const float *a, int64_t row,
                                int64_t deep, const float *b, int64_t b_pitch,
                                const __m512i limit[2], int64_t key) {
    for (int64_t k = 0; k < depth; k++) {
        __m512 right[2];
        __mmask16 sees[2];
        for (int i = 0; i < 2; i++) {
            right[i] = _mm512_loadu_ps(b + k * b_pitch + i * LANES);
            sees[i] = lanes_that_see(limit[i], key + k);
        }
        for (int r = 0; r < STEP; r++) {
            __m512 left = _mm512_set1_ps(a[r * row + k * deep]);
            for (int i = 0; i < 2; i++)
                sums[r][i] = _mm512_mask3_fmadd_ps(left, right[i], sums[r][i], sees[i]);
        }
    }
}

/* ---- tiles ---- */

/* Rows [first, first + count) to rows of a tile that has `rows`, rotated as `rotation` says, times a
 * factor. */
LANES_INLINE void tile_load(const tensor *t, const attention_rotation *rotation, int64_t b,
                            int64_t h, int64_t first, int64_t count, int64_t rows, int64_t pitch,
                            float factor, float *to) {
    int64_t width = t->shape.dim[3],
            ahead = rotation && rotation->cosine ? ATTENTION_ROWS_AHEAD : count;
    for (int64_t i = 0; i < count; i++) {
        float *row = to + i * pitch;
        if (i + ahead < count)
            attention_ask_for_row(t, b, h, first + i + ahead);
        attention_load_rotated(t, rotation, b, h, first + i, row);
        memset(row + width, 0, (size_t)(pitch - width) * sizeof *row);
        for (int64_t d = 0; factor != 1 && d < width; d++)
            row[d] *= factor;
    }
    memset(to + count * pitch, 0, (size_t)((rows - count) * pitch) * sizeof *to);
}

/* 32 rows, the pitch a multiple of 16, to [width][32]. */
LANES_INLINE void tile_to_panel(const float *from, int64_t pitch, int64_t width, float *to) {
    for (int half = 0; half < PANEL; half += LANES)
        for (int64_t d = 0; d < width; d += LANES) {
            __m512 v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = _mm512_loadu_ps(from + (half + i) * pitch + d);
            lanes_transpose(v);
            for (int i = 0; i < LANES && d + i < width; i++)
                _mm512_storeu_ps(to + (d + i) * PANEL + half, v[i]);
        }
}

/* And back, each query times its factor. */
LANES_INLINE void panel_to_tile(const float *from, int64_t width, const float *factor, float *to,
                                int64_t pitch) {
    for (int half = 0; half < PANEL; half += LANES) {
        __m512 f = _mm512_loadu_ps(factor + half);
        for (int64_t d = 0; d < width; d += LANES) {
            __m512 v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = d + i < width
                           ? _mm512_mul_ps(f, _mm512_loadu_ps(from + (d + i) * PANEL + half))
                           : _mm512_setzero_ps();
            lanes_transpose(v);
            for (int i = 0; i < LANES; i++)
                _mm512_storeu_ps(to + (half + i) * pitch + d, v[i]);
        }
    }
}

#endif
#endif
