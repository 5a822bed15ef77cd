/* attention_pairs.h - what attention's kernels for bf16 are made of: products of packed pairs.
 *
 * Products are those of ops/matmul/gemm_engine.h, 32 x 32 sums at a time, by AMX tiles or by dot
 * products in vectors: one kernel, two engines. Scores of 32 queries (a panel) lie as [key][32] in
 * f32, a lane a query, and become P in bf16 in the two forms that a product takes:
 *   A' [16 keys][32 queries]          a row as it is
 *   B' [pair of keys][16 queries][2]  two rows interleaved, by instructions that interleave within
 *                                     quarters of a vector: column c of B' is query
 *                                     pairs_query(c), and so is column c of the product.
 * Neither is ever transposed. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_PAIRS_H
#define OPS_ATTENTION_CPU_ATTENTION_PAIRS_H

#define LANES_AVX512
#include "ops/attention/cpu/attention_panels.h"
#include "ops/matmul/gemm_engine.h"

/* The reason when operands or the machine do not suit, else NULL. */
const char *attention_reject_amx(const kernel_args *args);
const char *attention_reject_dot(const kernel_args *args);

#if defined(__x86_64__)

#define PAIRS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define PAIRS_INLINE static inline __attribute__((always_inline)) PAIRS_TARGET

enum { PAIRS_ALIGNMENT = 64 };

static inline void *pairs_aligned(void *workspace) {
    return (char *)workspace + (-(uintptr_t)workspace & (PAIRS_ALIGNMENT - 1));
}

/* For kernel.variants: queries from most.queries down and keys from most.keys or what a tile holds
 * down, by halves, in whole panels and strips. */
int pairs_list_tiles(const kernel_args *args, attention_tile most, attention_tile *out);

/* The query in column c of a panel's B'. */
static inline int64_t pairs_query(int64_t c) {
    return c % PAIRS_HALF / 4 * 8 + c % 4 + c / PAIRS_HALF * 4;
}

/* Numbers in a strip so deep. */
static inline int64_t pairs_strip(int64_t depth) { return PAIRS_LINES * depth; }

/* Number `k` of line `line` of an A' of strips that are `depth` deep. */
static inline int64_t pairs_a_at(int64_t depth, int64_t line, int64_t k) {
    int64_t step = line / PAIRS_LINES * (depth / PAIRS_DEPTH) + k / PAIRS_DEPTH;
    return (step * 2 + line % PAIRS_LINES / PAIRS_HALF) * PAIRS_TILE +
           line % PAIRS_HALF * PAIRS_DEPTH + k % PAIRS_DEPTH;
}

/* The same of one strip of B'. */
static inline int64_t pairs_b_at(int64_t line, int64_t k) {
    return (k / PAIRS_DEPTH * 2 + line / PAIRS_HALF) * PAIRS_TILE +
           k % PAIRS_DEPTH / 2 * PAIRS_DEPTH + line % PAIRS_HALF * 2 + k % 2;
}

static inline float pairs_float(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* `count` rows of a head as rows 0 and on of head 0 of batch 0: where they lie, or rotated and put
 * into `room`. There subnormal numbers may be 0, which products take them for anyway. */
tensor pairs_rotated(const tensor *t, const attention_rotation *rotation, int64_t b, int64_t h,
                     int64_t first, int64_t count, uint16_t *room);

/* attention_store_rotated_back() of a row times `factor`, rounded by the instruction for it: a subnormal number
 * becomes 0. `rotation` may be NULL. */
void pairs_store_row(const tensor *t, const attention_rotation *rotation, int64_t b, int64_t h,
                     int64_t row, const float *in, float factor);

/* Rows of a head, as lines to pack: a row is a line, or a column is. */
static inline gemm_lines pairs_rows(const tensor *t, int64_t b, int64_t h, int64_t first) {
    return (gemm_lines){attention_row(t, b, h, first), t->type, t->stride[2], 1};
}
static inline gemm_lines pairs_columns(const tensor *t, int64_t b, int64_t h, int64_t first) {
    return (gemm_lines){attention_row(t, b, h, first), t->type, 1, t->stride[2]};
}

/* Rows of several heads that are wanted soon, those of one after those of the other. They are prefetched into L2 a few cache
 * lines at a time while scores become weights: the rows of a head lie far apart, where no hardware fetches ahead, and whoever
 * waits for them when they are wanted waits for memory. */
enum { PAIRS_MOST_AHEAD = 8 };
typedef struct pairs_ahead {
    gemm_prefetch rows[PAIRS_MOST_AHEAD];
    int at, count;
} pairs_ahead;

/* All rows of a head. */
static inline void pairs_ahead_add(pairs_ahead *ahead, const tensor *t, int64_t b, int64_t h) {
    int64_t bytes = dtype_bytes(t->type);
    ahead->rows[ahead->count++] = (gemm_prefetch){.row = attention_row(t, b, h, 0),
                                                  .rows_left = t->shape.dim[2],
                                                  .row_step = t->stride[2] * bytes,
                                                  .row_bytes = t->shape.dim[3] * bytes};
}

/* What was added is prefetched in so many turns, unless it is more than the caches should hold for later. */
static inline void pairs_ahead_spread(pairs_ahead *ahead, int64_t turns) {
    enum { MOST_BYTES = 256 << 10 };
    int64_t lines = 0;
    for (int i = 0; i < ahead->count; i++)
        lines += ahead->rows[i].rows_left *
                 ((ahead->rows[i].row_bytes + GEMM_CACHE_LINE - 1) / GEMM_CACHE_LINE);
    if (lines * GEMM_CACHE_LINE > MOST_BYTES)
        ahead->count = 0;
    for (int i = 0; i < ahead->count; i++)
        ahead->rows[i].lines_each = (lines + turns - 1) / turns;
}

/* About so many turns there are in a key/value head: one for each pair of rows of each strip of scores that somebody
 * sees. */
static inline int64_t pairs_turns(const attention_problem *p) {
    int64_t panels = (p->queries + PANEL - 1) / PANEL;
    int64_t strips = panels * ((p->keys + PAIRS_LINES - 1) / PAIRS_LINES);
    return p->group * (p->is_causal ? (strips + panels) / 2 : strips) * PAIRS_HALF;
}

static inline __attribute__((always_inline)) void pairs_ahead_next(pairs_ahead *ahead) {
    if (ahead->at >= ahead->count)
        return;
    gemm_prefetch_next(&ahead->rows[ahead->at]);
    ahead->at += ahead->rows[ahead->at].rows_left == 0;
}

/* Is there an infinity or a NaN? Times the 0 of a hidden score it would not be 0. */
static inline bool pairs_are_wild(const tensor *t, int64_t b, int64_t h, int64_t first,
                                  int64_t count) {
    unsigned wild = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t *row = (const uint16_t *)(const void *)attention_row(t, b, h, first + i);
        for (int64_t d = 0; d < t->shape.dim[3]; d++)
            wild |= (row[d] & 0x7f80u) == 0x7f80u;
    }
    return wild != 0;
}

/* Two keys' rows of 32 numbers of a panel as rows of A', then interleaved. */
typedef struct pairs_of_rows {
    __m512i row[2], half[2];
} pairs_of_rows;

/* The numbers of a row that the mask tells, in f32. */
PAIRS_INLINE __m512 pairs_widen(__mmask16 which, const uint16_t *x) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(which, x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

PAIRS_INLINE __m512i pairs_round(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

PAIRS_INLINE void pairs_interleave(pairs_of_rows *x) {
    x->half[0] = _mm512_unpacklo_epi16(x->row[0], x->row[1]);
    x->half[1] = _mm512_unpackhi_epi16(x->row[0], x->row[1]);
}

/* Rows of a tile of `count` keys that some query of the panel sees, rounded up to whole strips. */
static inline int64_t pairs_seen_rows(const attention_problem *p, int64_t query, int64_t first,
                                      int64_t count) {
    return attention_round_up(panel_rows(p, query, first, count), PAIRS_LINES);
}

#endif
#endif
