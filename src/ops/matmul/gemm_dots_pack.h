/* gemm_dots_pack.h - packing for gemm_lanes.h with LANES_DOTS: bf16 as strips of pairs along K, each a lane. Where K
 * is odd the last pair is completed by a zero. */
#ifndef OPS_GEMM_DOTS_PACK_H
#define OPS_GEMM_DOTS_PACK_H

#include "ops/lanes.h"
#include "ops/matmul/gemm_engine.h"

enum { FEW = 8, PAIR = 2 };

LANES_INLINE const uint16_t *at(const gemm_lines *from, int64_t line, int64_t k) {
    return (const uint16_t *)from->data + line * from->along + k * from->deep;
}

/* LANES pairs of a line that is dense along K, of which `count` numbers are there. */
LANES_INLINE lanes load_pairs(const uint16_t *from, int64_t count) {
    enum { MOST = PAIR * LANES };
    __mmask32 mask = count >= MOST ? 0xffffffffu : (1u << count) - 1;
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, from));
}

/* A number of each of `count` dense lines, in the low halves of lanes. */
LANES_INLINE __m512i load_halves(const uint16_t *from, int64_t count) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes_first(count), from));
}

/* LANES lines of a strip from `line` on, or the `count` there are, K dense in memory: transposed in the
 * registers. Lines are prefetched a few steps ahead, since they are more than the hardware follows. */
LANES_INLINE void pack_across(const gemm_lines *from, int64_t line, int64_t count, int64_t depth,
                              int64_t pitch, float *to) {
    enum { AHEAD = 256 };
    const uint16_t *row[LANES];
    for (int i = 0; i < LANES; i++)
        row[i] = at(from, line + (i < count ? i : count - 1), 0);
    for (int64_t k = 0; k < depth; k += PAIR * LANES) {
        lanes v[LANES];
        LANES_FOR(i, LANES) {
            v[i] = load_pairs(row[i] + k, depth - k);
            _mm_prefetch((const char *)(row[i] + k + AHEAD), _MM_HINT_T1);
        }
        lanes_transpose(v);
        LANES_FOR(i, LANES)
            if (k + PAIR * i < depth)
                lanes_store(to + (k / PAIR + i) * pitch, v[i]);
    }
}

/* The same where the lines are dense: two k at a time, side by side. */
LANES_INLINE void pack_along(const gemm_lines *from, int64_t line, int64_t count, int64_t depth,
                             int64_t pitch, float *to) {
    for (int64_t k = 0; k < depth; k += PAIR, to += pitch) {
        const uint16_t *row = at(from, line, k);
        __m512i pair = load_halves(row, count);
        if (k + 1 < depth)
            pair =
                _mm512_or_si512(pair, _mm512_slli_epi32(load_halves(row + from->deep, count), 16));
        lanes_store(to, _mm512_castsi512_ps(pair));
        _mm_prefetch((const char *)(row + PAIR * FEW * from->deep), _MM_HINT_T1);
        _mm_prefetch((const char *)(row + (PAIR * FEW + 1) * from->deep), _MM_HINT_T1);
    }
}

LANES_INLINE void pack_any(const gemm_lines *from, int64_t line, int64_t count, int64_t depth,
                           int64_t pitch, float *to) {
    for (int64_t k = 0; k < depth; k += PAIR, to += pitch)
        for (int64_t i = 0; i < count && i < LANES; i++) {
            uint16_t pair[PAIR] = {*at(from, line + i, k),
                                   k + 1 < depth ? *at(from, line + i, k + 1) : 0};
            memcpy(to + i, pair, sizeof pair);
        }
}

/* All strips of `count` lines. Where lines are dense, a few k of all strips come before the next ones: memory is
 * read in the order in which it lies. */
LANES_TARGET static void pack(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                              int64_t pitch, void *to) {
    bool is_along = from->along == 1 && from->deep != 1;
    int64_t step = is_along ? PAIR * FEW : depth, pairs = (depth + 1) / PAIR;
    for (int64_t k = 0; k < depth; k += step)
        for (int64_t strip = 0; strip * width < count; strip++)
            for (int64_t group = 0; group < width && strip * width + group < count;
                 group += LANES) {
                int64_t line = strip * width + group, now = depth - k < step ? depth - k : step;
                float *out = (float *)to + (strip * pairs + k / PAIR) * pitch + group;
                gemm_lines here = *from;
                here.data = at(from, 0, k);
                if (is_along)
                    pack_along(&here, line, count - line, now, pitch, out);
                else if (from->deep == 1)
                    pack_across(&here, line, count - line, now, pitch, out);
                else
                    pack_any(&here, line, count - line, now, pitch, out);
            }
}

#endif
