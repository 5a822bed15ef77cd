/* gemm_floats.c - f32 and bf16 operands packed as floats, multiplied with FMAs.
 *
 * A strip is [K][line] in floats: bf16 is widened once, while packing, and costs the
 * multiplication nothing. */
#include <string.h>

#define LANES_AVX512
#include "ops/lanes.h"
#include "ops/matmul/gemm_engine.h"

/* dtype.h's conversions again, here where the compiler can make vectors of them. */
static inline float widen(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static inline uint16_t narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float load_float(const gemm_lines *from, int64_t index) {
    return from->type == DTYPE_F32 ? ((const float *)from->data)[index]
                                   : widen(((const uint16_t *)from->data)[index]);
}

void gemm_finish_portable(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                          int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        const float *restrict from = sum + i * ld;
        if (to->type == DTYPE_F32) {
            float *restrict at = (float *)to->data + i * to->ld;
            for (int64_t j = 0; j < columns; j++)
                at[j] = to->accumulates ? at[j] + to->alpha * from[j] : to->alpha * from[j];
        } else {
            uint16_t *restrict at = (uint16_t *)to->data + i * to->ld;
            for (int64_t j = 0; j < columns; j++) {
                float x = to->alpha * from[j];
                at[j] = narrow(to->accumulates ? widen(at[j]) + x : x);
            }
        }
    }
}

/* Any machine: blocks of 6 rows and 16 columns, two vectors at a time of the length that the level
 * has. The block is the same at every level, since the plan's workspace follows from it. */
#if defined(__AVX__)
enum { PART = 8 };
#else
enum { PART = 4 };
#endif
enum { ROWS = 6, COLUMNS = 16 };
typedef float part __attribute__((vector_size(PART * sizeof(float))));

static void pack_lines(const gemm_lines *from, int64_t count, int64_t depth, int width, float *to) {
    for (int64_t strip = 0; strip < count; strip += width, to += depth * width) {
        int64_t lines = count - strip < width ? count - strip : width;
        for (int64_t i = 0; i < lines; i++) {
            const int64_t base = (strip + i) * from->along, deep = from->deep;
            if (from->type == DTYPE_F32)
                for (int64_t k = 0; k < depth; k++)
                    to[k * width + i] = ((const float *)from->data)[base + k * deep];
            else
                for (int64_t k = 0; k < depth; k++)
                    to[k * width + i] = widen(((const uint16_t *)from->data)[base + k * deep]);
        }
        for (int64_t i = lines; i < width; i++)
            for (int64_t k = 0; k < depth; k++)
                to[k * width + i] = 0;
    }
}

static void pack_a(const gemm_lines *from, int64_t count, int64_t depth, void *to) {
    pack_lines(from, count, depth, ROWS, to);
}

static void pack_b(const gemm_lines *from, int64_t count, int64_t depth, void *to) {
    pack_lines(from, count, depth, COLUMNS, to);
}

static inline void multiply_two_parts(int64_t depth, const float *left, const float *right,
                                      const float *start, int64_t start_ld, float *sum,
                                      int64_t sum_ld) {
    part total[ROWS][2] = {{{0}}};
    for (int i = 0; start && i < ROWS; i++) {
        memcpy(&total[i][0], start + i * start_ld, sizeof(part));
        memcpy(&total[i][1], start + i * start_ld + PART, sizeof(part));
    }
    for (int64_t k = 0; k < depth; k++) {
        part b0, b1;
        memcpy(&b0, right, sizeof b0);
        memcpy(&b1, right + PART, sizeof b1);
        for (int i = 0; i < ROWS; i++) {
            total[i][0] += left[i] * b0;
            total[i][1] += left[i] * b1;
        }
        left += ROWS;
        right += COLUMNS;
    }
    for (int i = 0; i < ROWS; i++) {
        memcpy(sum + i * sum_ld, &total[i][0], sizeof(part));
        memcpy(sum + i * sum_ld + PART, &total[i][1], sizeof(part));
    }
}

static void multiply(int64_t depth, const void *a, const void *b, const float *start,
                     int64_t start_ld, float *sum, int64_t sum_ld) {
    for (int at = 0; at < COLUMNS; at += 2 * PART)
        multiply_two_parts(depth, a, (const float *)b + at, start ? start + at : NULL, start_ld,
                           sum + at, sum_ld);
}

const gemm_engine gemm_portable = {.rows = ROWS,
                                   .columns = COLUMNS,
                                   .depth_step = 1,
                                   .element_bytes = 4,
                                   .panel_depth = 256,
                                   .own_lines = 192,
                                   .shared_lines = 384,
                                   .packing_weight = 16,
                                   .pack_a = pack_a,
                                   .pack_b = pack_b,
                                   .multiply = multiply,
                                   .finish = gemm_finish_portable};

#if defined(__x86_64__)

#define TARGET LANES_TARGET
#define INLINE LANES_INLINE

/* AVX-512: blocks of 14 x 32, 28 of the 32 registers. */
enum { WIDE_ROWS = 14, WIDE_COLUMNS = 32 };

INLINE __m512 load_lanes(const gemm_lines *from, int64_t index, __mmask16 mask) {
    if (from->type == DTYPE_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)from->data + index);
    const uint16_t *at = (const uint16_t *)from->data + index;
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at)), 16));
}

/* 16 lines (or the `width` that a strip has) of one strip, over all of the panel. */
INLINE void pack_group(const gemm_lines *from, int64_t line, int64_t lines, int64_t depth,
                       int width, int group, float *to) {
    const int64_t base = line * from->along;
    const __mmask16 stored = lanes_first(width - group), valid = lanes_first(lines);
    if (from->along == 1) {
        for (int64_t k = 0; k < depth; k++)
            _mm512_mask_storeu_ps(to + k * width, stored,
                                  load_lanes(from, base + k * from->deep, valid & stored));
    } else if (from->deep == 1) {
        for (int64_t k = 0; k < depth; k += LANES) {
            __m512 v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = i < lines && i < width - group
                           ? load_lanes(from, base + i * from->along + k, lanes_first(depth - k))
                           : _mm512_setzero_ps();
            lanes_transpose(v);
            for (int i = 0; i < LANES && k + i < depth; i++)
                _mm512_mask_storeu_ps(to + (k + i) * width, stored, v[i]);
        }
    } else {
        for (int64_t k = 0; k < depth; k++)
            for (int i = 0; i < LANES && i < width - group; i++)
                to[k * width + i] =
                    i < lines ? load_float(from, base + i * from->along + k * from->deep) : 0.0f;
    }
}

INLINE void pack_wide(const gemm_lines *from, int64_t count, int64_t depth, int width, float *to) {
    for (int64_t strip = 0; strip < count; strip += width)
        for (int group = 0; group < width; group += LANES)
            pack_group(from, strip + group, count - strip - group, depth, width, group,
                       to + strip * depth + group);
}

TARGET static void pack_wide_a(const gemm_lines *from, int64_t count, int64_t depth, void *to) {
    pack_wide(from, count, depth, WIDE_ROWS, to);
}

TARGET static void pack_wide_b(const gemm_lines *from, int64_t count, int64_t depth, void *to) {
    pack_wide(from, count, depth, WIDE_COLUMNS, to);
}

TARGET static void multiply_wide(int64_t depth, const void *a, const void *b, const float *start,
                                 int64_t start_ld, float *sum, int64_t sum_ld) {
    const float *left = a, *right = b;
    __m512 total[WIDE_ROWS][2];
    for (int i = 0; i < WIDE_ROWS; i++)
        for (int j = 0; j < 2; j++)
            total[i][j] =
                start ? _mm512_loadu_ps(start + i * start_ld + LANES * j) : _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++) {
        __m512 b0 = _mm512_loadu_ps(right), b1 = _mm512_loadu_ps(right + LANES);
        for (int i = 0; i < WIDE_ROWS; i++) {
            __m512 x = _mm512_set1_ps(left[i]);
            total[i][0] = _mm512_fmadd_ps(x, b0, total[i][0]);
            total[i][1] = _mm512_fmadd_ps(x, b1, total[i][1]);
        }
        left += WIDE_ROWS;
        right += WIDE_COLUMNS;
    }
    for (int i = 0; i < WIDE_ROWS; i++)
        for (int j = 0; j < 2; j++)
            _mm512_storeu_ps(sum + i * sum_ld + LANES * j, total[i][j]);
}

const gemm_engine gemm_avx512 = {.rows = WIDE_ROWS,
                                 .columns = WIDE_COLUMNS,
                                 .depth_step = 1,
                                 .element_bytes = 4,
                                 .panel_depth = 256,
                                 .own_lines = 224,
                                 .shared_lines = 448,
                                 .packing_weight = 16,
                                 .pack_a = pack_wide_a,
                                 .pack_b = pack_wide_b,
                                 .multiply = multiply_wide,
                                 .finish = gemm_finish_portable};

#endif
