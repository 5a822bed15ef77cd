/* attention_panels.h - what attention's kernels for AVX2 and AVX-512 are made of.
 *
 * A file that includes this has said which, as lanes.h wants it. A panel is so many queries as the
 * lanes of a few vectors hold. Scores of a panel lie as [key][PANEL], so that maxima, sums and
 * exponentials of a query are operations between vectors, never across one, and P is at once the
 * right operand of O^T = V^T P^T. The left operand of a product is read a number
 * at a time and needs no packing: rows of K and V as they are, by row or by column. (gemm_lanes.h
 * wants both operands packed and gives sums by row; what it shares with this is lanes.h.)
 *
 * Tiles are f32, rows `pitch` apart, zeros where an operand has nothing. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_PANELS_H
#define OPS_ATTENTION_CPU_ATTENTION_PANELS_H

#include "ops/attention/cpu/attention_cpu_rows.h"
#include "ops/lanes.h"

#if defined(__x86_64__)

/* A block of sums is STEP rows of VECTORS: enough to hide an FMA's latency, and with a row of the
 * right operand and a number of the left one no more than there are registers. */
#if defined(LANES_AVX512)
enum { VECTORS = 2, STEP = 8, MASKS_ARE_FREE = true };
#else
enum { VECTORS = 3, STEP = 4, MASKS_ARE_FREE = false };
#endif
enum {
    PANEL = VECTORS * LANES, /* queries */
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
static inline int attention_list_panels(const kernel_args *args, int most_queries, int most_keys,
                                        attention_tile *out) {
    enum { MOST = 4 };
    int64_t pitch = attention_round_up(args->inputs[ATTENTION_Q].shape.dim[3], LANES);
    most_keys = (int)attention_smaller(most_keys, attention_tile_keys(pitch));
    int queries[MOST], keys[MOST], query_count = 0, key_count = 0;
    for (int q = most_queries; q >= PANEL && query_count < MOST; q = q / 2 / PANEL * PANEL)
        queries[query_count++] = q;
    for (int k = most_keys; k >= 32 && key_count < MOST; k = k / 2 / STEP * STEP)
        keys[key_count++] = k;
    return attention_cross_tiles(queries, query_count, keys, key_count, out);
}

/* ---- weights ---- */

/* 2^x as lanes_exp2 has it, for x that rounding alone can bring above 0; from 64 on it is 2^64. */
LANES_INLINE lanes panel_exp2(lanes x) {
#if defined(LANES_AVX512)
    return lanes_exp2(x);
#else
    /* x = n + r with n its nearest integer, which the addition leaves in the low bits beside the
     * bias of an exponent and 24 more: so that the smallest factor is no subnormal number, and
     * that of n = -151 is 0. The polynomial is 2^(r - 24). The second operand of min and max is the
     * result where one is NaN. */
    const lanes round = lanes_set(0x1.8p23f + 127 + 24);
    x = _mm256_min_ps(lanes_set(64), lanes_max(lanes_set(-151), x));
    lanes shifted = lanes_add(x, round), r = lanes_sub(x, lanes_sub(shifted, round));
    lanes y = lanes_set(1.326473663e-3f * 0x1p-24f);
    y = lanes_fma(y, r, lanes_set(9.671512060e-3f * 0x1p-24f));
    y = lanes_fma(y, r, lanes_set(5.550733581e-2f * 0x1p-24f));
    y = lanes_fma(y, r, lanes_set(2.402224243e-1f * 0x1p-24f));
    y = lanes_fma(y, r, lanes_set(6.931470037e-1f * 0x1p-24f));
    y = lanes_fma(y, r, lanes_set(0x1p-24f));
    lanes factor = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
    return lanes_mul(y, factor);
#endif
}

/* ---- who sees whom ---- */

/* Of a panel that begins with `query`, and a tile of keys that begins with `first`: the lanes'
 * numbers of visible keys, counted from `first`. */
LANES_INLINE void panel_limits(const attention_problem *p, int64_t query, int64_t first,
                               lanes_int limit[VECTORS]) {
    int32_t seen[PANEL];
    for (int i = 0; i < PANEL; i++) {
        int64_t keys = attention_smaller(attention_visible_keys(p, query + i), p->keys) - first;
        seen[i] = (int32_t)(keys < 0 ? 0 : attention_smaller(keys, INT32_MAX));
    }
    for (int i = 0; i < VECTORS; i++)
        limit[i] = lanes_load_int(seen + i * LANES);
}

LANES_INLINE lanes_mask lanes_that_see(lanes_int limit, int64_t key) {
    return lanes_above(limit, (int32_t)key);
}

/* Whether the last vector of the panel has no query: then it takes no part. */
static inline bool panel_lacks_a_vector(const attention_problem *p, int64_t query) {
    return p->queries - query <= PANEL - LANES;
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

typedef lanes attention_sums[STEP][VECTORS];

LANES_INLINE void sums_clear(attention_sums sums) {
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < VECTORS; i++)
            sums[r][i] = lanes_zero();
}

LANES_INLINE void sums_load(int vectors, attention_sums sums, const float *from, int64_t pitch) {
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++)
            sums[r][i] = lanes_load(from + r * pitch + i * LANES);
}

LANES_INLINE void sums_store(int vectors, attention_sums sums, float *to, int64_t pitch) {
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++)
            lanes_store(to + r * pitch + i * LANES, sums[r][i]);
}

/* sums[STEP][LANES * vectors] += a b, where number (r, k) of a is a[r * row + k * deep]. */
LANES_INLINE void sums_add(int vectors, attention_sums sums, int64_t depth, const float *a,
                           int64_t row, int64_t deep, const float *b, int64_t b_pitch) {
    for (int64_t k = 0; k < depth; k++) {
        lanes right[VECTORS];
        for (int i = 0; i < vectors; i++)
            right[i] = lanes_load(b + k * b_pitch + i * LANES);
        for (int r = 0; r < STEP; r++) {
            lanes left = lanes_set(a[r * row + k * deep]);
            for (int i = 0; i < vectors; i++)
                sums[r][i] = lanes_fma(left, right[i], sums[r][i]);
        }
    }
}

/* The same for rows of b that are keys from `key` on: lanes that do not see one take nothing from
 * it. A factor of 0 would not do, since a hidden row may hold what is no number. */
LANES_INLINE void sums_add_seen(int vectors, attention_sums sums, int64_t depth, const float *a,
                                int64_t row, int64_t deep, const float *b, int64_t b_pitch,
                                const lanes_int limit[VECTORS], int64_t key) {
    for (int64_t k = 0; k < depth; k++) {
        lanes right[VECTORS];
        lanes_mask sees[VECTORS];
        for (int i = 0; i < vectors; i++) {
            right[i] = lanes_load(b + k * b_pitch + i * LANES);
            sees[i] = lanes_that_see(limit[i], key + k);
        }
        for (int r = 0; r < STEP; r++) {
            lanes left = lanes_set(a[r * row + k * deep]);
            for (int i = 0; i < vectors; i++)
                sums[r][i] = lanes_fma_where(sees[i], left, right[i], sums[r][i]);
        }
    }
}

/* ---- tiles ---- */

/* Rows of whole vectors of f32, which are most: a call for each row would take as long as the copy. */
LANES_INLINE void tile_load_vectors(const tensor *t, int64_t b, int64_t h, int64_t first,
                                    int64_t count, int64_t pitch, float *to) {
    const float *from = (const float *)(const void *)attention_row(t, b, h, first);
    for (int64_t i = 0; i < count; i++, from += t->stride[2], to += pitch)
        for (int64_t d = 0; d < pitch; d += LANES)
            lanes_store(to + d, lanes_load(from + d));
}

/* Rows [first, first + count) to rows of a tile that has `rows`, rotated as `rotation` says. */
LANES_INLINE void tile_load(const tensor *t, const attention_rotation *rotation, int64_t b,
                            int64_t h, int64_t first, int64_t count, int64_t rows, int64_t pitch,
                            float *to) {
    bool is_rotated = rotation && rotation->cosine;
    int64_t width = t->shape.dim[3], ahead = is_rotated ? ATTENTION_ROWS_AHEAD : count;
    bool is_plain = t->type == DTYPE_F32 && width == pitch && !is_rotated;
    if (is_plain)
        tile_load_vectors(t, b, h, first, count, pitch, to);
    for (int64_t i = 0; i < count && !is_plain; i++) {
        float *row = to + i * pitch;
        if (i + ahead < count)
            attention_prefetch_row(t, b, h, first + i + ahead);
        attention_load_rotated(t, rotation, b, h, first + i, row);
        memset(row + width, 0, (size_t)(pitch - width) * sizeof *row);
    }
    memset(to + count * pitch, 0, (size_t)((rows - count) * pitch) * sizeof *to);
}

/* The same, where they lie if they lie as in a tile; else in `room`. */
LANES_INLINE const float *tile_take(const tensor *t, const attention_rotation *rotation, int64_t b,
                                    int64_t h, int64_t first, int64_t count, int64_t rows,
                                    int64_t pitch, float *room) {
    bool is_rotated = rotation && rotation->cosine;
    if (t->type == DTYPE_F32 && !is_rotated && count == rows && t->shape.dim[3] == pitch &&
        t->stride[2] == pitch)
        return (const float *)(const void *)attention_row(t, b, h, first);
    tile_load(t, rotation, b, h, first, count, rows, pitch, room);
    return room;
}

/* Whether `count` numbers, a multiple of LANES, are all finite: a weight of 0 makes 0 of each. */
LANES_INLINE bool tile_is_finite(const float *from, int64_t count) {
    lanes zeros[2] = {lanes_zero(), lanes_zero()};
    for (int64_t i = 0; i < count; i += LANES)
        zeros[i / LANES % 2] = lanes_fma(lanes_load(from + i), lanes_zero(), zeros[i / LANES % 2]);
    float sum[LANES], total = 0;
    lanes_store(sum, lanes_add(zeros[0], zeros[1]));
    for (int i = 0; i < LANES; i++)
        total += sum[i];
    return total == 0;
}

/* PANEL rows, the pitch a multiple of LANES, times a factor to [width][PANEL]. */
LANES_INLINE void tile_to_panel(const float *from, int64_t pitch, int64_t width, float factor,
                                float *to) {
    lanes f = lanes_set(factor);
    for (int half = 0; half < PANEL; half += LANES)
        for (int64_t d = 0; d < width; d += LANES) {
            lanes v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = lanes_mul(f, lanes_load(from + (half + i) * pitch + d));
            lanes_transpose(v);
            for (int i = 0; i < LANES && d + i < width; i++)
                lanes_store(to + (d + i) * PANEL + half, v[i]);
        }
}

/* And back, each query times its factor. */
LANES_INLINE void panel_to_tile(const float *from, int64_t width, const float *factor, float *to,
                                int64_t pitch) {
    for (int half = 0; half < PANEL; half += LANES) {
        lanes f = lanes_load(factor + half);
        for (int64_t d = 0; d < width; d += LANES) {
            lanes v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = d + i < width ? lanes_mul(f, lanes_load(from + (d + i) * PANEL + half))
                                     : lanes_zero();
            lanes_transpose(v);
            for (int i = 0; i < LANES; i++)
                lanes_store(to + (half + i) * pitch + d, v[i]);
        }
    }
}

#endif
#endif
