/* attention_cpu_rows.h - rows of attention's operands, as the CPU kernels take and give them: in f32,
 * whatever type they are stored in. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_CPU_ROWS_H
#define OPS_ATTENTION_CPU_ATTENTION_CPU_ROWS_H

#include <string.h>

#include "ops/attention/attention.h"
#include "ops/cast/convert.h"
#include "ops/rope/rope_rows.h"

static inline char *attention_row(const tensor *t, int64_t b, int64_t h, int64_t row) {
    int64_t offset = b * t->stride[0] + h * t->stride[1] + row * t->stride[2];
    return (char *)t->data + offset * dtype_bytes(t->type);
}

static inline void attention_load_row(const tensor *t, int64_t b, int64_t h, int64_t row,
                                      float *out) {
    const char *from = attention_row(t, b, h, row);
    int64_t width = t->shape.dim[3];
    if (t->type == DTYPE_F32)
        memcpy(out, from, (size_t)width * sizeof *out);
    else
        convert_low_to_f32(t->type, width, (const void *)from, out);
}

/* The row where it lies if that is f32, else in `room`. */
static inline const float *attention_row_f32(const tensor *t, int64_t b, int64_t h, int64_t row,
                                             float *room) {
    if (t->type == DTYPE_F32)
        return (const float *)(const void *)attention_row(t, b, h, row);
    attention_load_row(t, b, h, row, room);
    return room;
}

static inline void attention_store_row(const tensor *t, int64_t b, int64_t h, int64_t row,
                                       const float *in) {
    char *to = attention_row(t, b, h, row);
    int64_t width = t->shape.dim[3];
    if (t->type == DTYPE_F32)
        memcpy(to, in, (size_t)width * sizeof *in);
    else
        convert_f32_to_low(t->type, width, in, (void *)to);
}

/* Rows of a head may lie pages apart, where no hardware fetches ahead, and a rotation between two
 * of them leaves few loads in flight: rows are prefetched so many ahead. */
enum { ATTENTION_ROWS_AHEAD = 16 };

static inline void attention_prefetch_row(const tensor *t, int64_t b, int64_t h, int64_t row) {
    enum { LINE = 64 };
    const char *from = attention_row(t, b, h, row);
    for (int64_t i = 0; i < t->shape.dim[3] * dtype_bytes(t->type); i += LINE)
        __builtin_prefetch(from + i);
}

/* Rows that are stored next. Without it each store that misses the caches would wait for the one before. */
static inline void attention_prefetch_to_store(const tensor *t, int64_t b, int64_t h, int64_t first,
                                               int64_t count) {
    enum { LINE = 64 };
    for (int64_t row = first; row < first + count; row++) {
        const char *to = attention_row(t, b, h, row);
        for (int64_t i = 0; i < t->shape.dim[3] * dtype_bytes(t->type); i += LINE)
            __builtin_prefetch(to + i, 1);
    }
}

/* The row rotated, as rope would have stored it: rounded to its type. NULL: as it is. */
static inline void attention_load_rotated(const tensor *t, const attention_rotation *rotation,
                                          int64_t b, int64_t h, int64_t row, float *out) {
    if (!rotation || !rotation->cosine) {
        attention_load_row(t, b, h, row, out);
        return;
    }
    uint16_t low[ATTENTION_MAX_HEAD_DIM];
    const float *cosine = rotation->cosine + row * rotation->half,
                *sine = rotation->sine + row * rotation->half;
    bool is_low = t->type != DTYPE_F32;
    rope_rotate_row(t->type, rotation->half, attention_row(t, b, h, row), cosine, sine, false,
                    is_low ? (void *)low : out);
    if (is_low)
        convert_low_to_f32(t->type, t->shape.dim[3], low, out);
}

/* All rows of Q or of K rotated, in f32, dense in `room`: for kernels that take rows many times. */
tensor attention_rotate_all(const tensor *t, const attention_rotation *rotation, float *room);
/* So often is a row rotated anew by who takes it at the most: as often as rope and a kernel after
 * it would read it. */
enum { ATTENTION_MOST_ROTATIONS = 2 };

/* A gradient's row, rotated back in f32 before it is rounded. */
static inline void attention_store_rotated_back(const tensor *t, const attention_rotation *rotation,
                                                int64_t b, int64_t h, int64_t row, float *in) {
    if (rotation->cosine)
        rope_rotate_row(DTYPE_F32, rotation->half, in, rotation->cosine + row * rotation->half,
                        rotation->sine + row * rotation->half, true, in);
    attention_store_row(t, b, h, row, in);
}

/* D of one query: dO . O, in an order of sums that depends on the head size alone. */
static inline float attention_mean(const tensor *o, const tensor *dy, int64_t b, int64_t h,
                                   int64_t row) {
    enum { PARTS = 16 };
    float room[2][ATTENTION_MAX_HEAD_DIM], part[PARTS] = {0}, sum = 0;
    int64_t width = o->shape.dim[3], d = 0;
    const float *x = attention_row_f32(o, b, h, row, room[0]);
    const float *y = attention_row_f32(dy, b, h, row, room[1]);
    for (; d + PARTS <= width; d += PARTS)
        for (int i = 0; i < PARTS; i++)
            part[i] += x[d + i] * y[d + i];
    for (; d < width; d++)
        sum += x[d] * y[d];
    for (int i = 0; i < PARTS; i++)
        sum += part[i];
    return sum;
}

/* LSE of a head's first query. */
static inline float *attention_lse(const tensor *lse, int64_t b, int64_t h) {
    return (float *)lse->data + b * lse->stride[0] + h * lse->stride[1];
}

#endif
