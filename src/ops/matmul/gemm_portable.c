/* gemm_portable.c - f32, bf16 and f16 operands packed as floats and multiplied in plain C: for every
 * machine.
 *
 * A strip is [K][line] in floats, as in gemm_lanes.h. Blocks are 6 rows of 16 columns, in vectors of
 * four, which SSE and NEON have. SSE has registers for the sums of two vectors a row, NEON for all. */
#include <string.h>

#include "ops/cast/convert.h"
#include "ops/matmul/gemm_engine.h"

#if defined(__aarch64__)
enum { AT_ONCE = 4 };
#else
enum { AT_ONCE = 2 };
#endif
enum { ROWS = 6, COLUMNS = 16, PART = 4 };
typedef float part __attribute__((vector_size(PART * sizeof(float))));

static inline float load(const gemm_lines *from, int64_t index) {
    const uint16_t *narrow = from->data;
    return from->type == DTYPE_F32    ? ((const float *)from->data)[index]
           : from->type == DTYPE_BF16 ? dtype_bf16_to_f32(narrow[index])
                                      : dtype_f16_to_f32(narrow[index]);
}

static void pack(const gemm_lines *from, int64_t count, int64_t depth, int64_t width, int64_t pitch,
                 void *to) {
    float *out = to;
    for (int64_t strip = 0; strip < count; strip += width, out += depth * pitch)
        for (int64_t i = 0; i < width; i++)
            for (int64_t k = 0; k < depth; k++)
                out[k * pitch + i] =
                    strip + i < count ? load(from, (strip + i) * from->along + k * from->deep) : 0;
}

/* All rows and AT_ONCE vectors of the columns, whose sums are registers. */
static inline void multiply_part(const gemm_block *x, int column) {
    const float *left = x->a, *right = (const float *)x->b + column;
    part total[ROWS][AT_ONCE] = {{{0}}};
    for (int i = 0; x->start && i < ROWS && i < x->rows; i++)
        for (int j = 0; j < AT_ONCE; j++)
            memcpy(&total[i][j], x->start + i * x->start_ld + column + j * PART, sizeof(part));
    for (int64_t k = 0; k < x->depth; k++, left += ROWS, right += COLUMNS)
        for (int j = 0; j < AT_ONCE; j++) {
            part b;
            memcpy(&b, right + j * PART, sizeof b);
            for (int i = 0; i < ROWS; i++)
                total[i][j] += left[i] * b;
        }
    for (int i = 0; i < ROWS && i < x->rows; i++)
        for (int j = 0; j < AT_ONCE; j++)
            memcpy(x->sum + i * x->sum_ld + column + j * PART, &total[i][j], sizeof(part));
}

static void multiply(const gemm_block *x) {
    gemm_block strip = *x;
    for (int rows = x->rows; rows > 0; rows -= x->width) {
        strip.rows = rows < x->width ? rows : x->width;
        for (int column = 0; column < COLUMNS; column += AT_ONCE * PART)
            multiply_part(&strip, column);
        strip.a = (const float *)strip.a + x->depth * ROWS;
        strip.sum += x->width * x->sum_ld;
        strip.start = x->start ? strip.start + x->width * x->start_ld : NULL;
    }
}

static void finish(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                   int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        float now[COLUMNS] = {0}, *row = now;
        void *at = (char *)to->data + i * to->ld * dtype_bytes(to->type);
        if (to->type == DTYPE_F32)
            row = at;
        else if (to->accumulates)
            convert_low_to_f32(to->type, columns, at, now);
        for (int64_t j = 0; j < columns; j++)
            row[j] = to->alpha * sum[i * ld + j] + (to->accumulates ? row[j] : 0);
        if (to->type != DTYPE_F32)
            convert_f32_to_low(to->type, columns, now, at);
    }
}

const gemm_engine gemm_portable = {.rows = ROWS,
                                   .row_pitch = ROWS,
                                   .columns = COLUMNS,
                                   .depth_step = 1,
                                   .element_bytes = 4,
                                   .panel_depth = 256,
                                   .a_weight = 16,
                                   .b_weight = 16,
                                   .pack_a = pack,
                                   .pack_b = pack,
                                   .multiply = multiply,
                                   .finish = finish};
