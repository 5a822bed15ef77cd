/* gemm_lanes_pack.h - packing for gemm_lanes.h: f32, bf16 and f16 as strips of floats. */
#ifndef OPS_GEMM_LANES_PACK_H
#define OPS_GEMM_LANES_PACK_H

#include "ops/lanes.h"
#include "ops/matmul/gemm_engine.h"

enum { NARROW = sizeof(uint16_t), FEW = 8 };

LANES_INLINE int bytes_of(dtype type) { return type == DTYPE_F32 ? (int)sizeof(float) : NARROW; }

LANES_INLINE lanes load(dtype type, const void *from) {
    return type == DTYPE_F32    ? lanes_load(from)
           : type == DTYPE_BF16 ? lanes_load_bf16(from)
                                : lanes_load_f16(from);
}

/* Reads `count` numbers and no further. */
LANES_INLINE lanes load_first(dtype type, const void *from, int64_t count) {
    if (count >= LANES)
        return load(type, from);
    if (type == DTYPE_F32)
        return lanes_load_first(from, count);
    uint16_t part[LANES] = {0};
    memcpy(part, from, (size_t)count * sizeof *part);
    return load(type, part);
}

LANES_INLINE const void *at(dtype type, const gemm_lines *from, int64_t line, int64_t k) {
    return (const char *)from->data + (line * from->along + k * from->deep) * bytes_of(type);
}

/* LANES lines of a strip from `line` on, or the `count` there are, K dense in memory: turned around
 * in the registers. Weights come from far away, and so many lines at once are more than the
 * hardware follows: a few steps ahead are asked for. */
LANES_INLINE void pack_across(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                              int64_t depth, int64_t next, int64_t pitch, float *to) {
    enum { AHEAD = 128 };
    const char *row[LANES];
    for (int i = 0; i < LANES; i++)
        row[i] = at(type, from, line + (i < count ? i : count - 1), 0);
    for (int64_t k = 0; k < depth; k += LANES) {
        lanes v[LANES];
        int64_t ahead = k + AHEAD < depth ? k + AHEAD : k + AHEAD - depth + next * from->along;
        int64_t steps = depth - k < LANES ? depth - k : LANES;
        if (steps == LANES)
            for (int i = 0; i < LANES; i++) {
                v[i] = load(type, row[i] + k * bytes_of(type));
                _mm_prefetch(row[i] + ahead * bytes_of(type), _MM_HINT_T1);
            }
        else
            for (int i = 0; i < LANES; i++)
                v[i] = load_first(type, row[i] + k * bytes_of(type), steps);
        lanes_transpose(v);
        for (int i = 0; i < LANES && i < steps; i++)
            lanes_store(to + (k + i) * pitch, v[i]);
    }
}

/* The same where the lines are dense. */
LANES_INLINE void pack_along(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                             int64_t depth, int64_t pitch, float *to) {
    const char *row = at(type, from, line, 0);
    int64_t step = from->deep * bytes_of(type);
    for (int64_t k = 0; k < depth; k++, row += step) {
        lanes_store(to + k * pitch, load_first(type, row, count));
        _mm_prefetch(row + FEW * step, _MM_HINT_T1);
    }
}

LANES_INLINE void pack_any(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                           int64_t depth, int64_t pitch, float *to) {
    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < count && i < LANES; i++)
            to[k * pitch + i] = load_first(type, at(type, from, line + i, k), 1)[0];
}

/* All strips of `count` lines. Where lines are dense, a few k of all strips come before the next
 * ones: memory is read in the order in which it lies. */
LANES_INLINE void pack_typed(dtype type, const gemm_lines *from, int64_t count, int64_t depth,
                             int64_t width, int64_t pitch, float *to) {
    bool is_along = from->along == 1 && from->deep != 1;
    int64_t step = is_along ? FEW : depth;
    for (int64_t k = 0; k < depth; k += step)
        for (int64_t strip = 0; strip * width < count; strip++)
            for (int64_t group = 0; group < width && strip * width + group < count;
                 group += LANES) {
                int64_t line = strip * width + group, now = depth - k < step ? depth - k : step;
                float *out = to + (strip * depth + k) * pitch + group;
                gemm_lines here = *from;
                here.data = at(type, from, 0, k);
                if (is_along)
                    pack_along(type, &here, line, count - line, now, pitch, out);
                else if (from->deep == 1)
                    pack_across(type, &here, line, count - line, now, width < LANES ? width : LANES,
                                pitch, out);
                else
                    pack_any(type, &here, line, count - line, now, pitch, out);
            }
}

LANES_TARGET static void pack(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                              int64_t pitch, void *to) {
    if (from->type == DTYPE_F32)
        pack_typed(DTYPE_F32, from, count, depth, width, pitch, to);
    else if (from->type == DTYPE_BF16)
        pack_typed(DTYPE_BF16, from, count, depth, width, pitch, to);
    else
        pack_typed(DTYPE_F16, from, count, depth, width, pitch, to);
}

#endif
