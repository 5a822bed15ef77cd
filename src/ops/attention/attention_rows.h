/* attention_rows.h - rows of attention's operands, as the CPU kernels take and give them: in f32,
 * whatever type they are stored in. */
#ifndef OPS_ATTENTION_ROWS_H
#define OPS_ATTENTION_ROWS_H

#include <string.h>

#include "ops/attention/attention.h"
#include "ops/cast/convert.h"

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

static inline void attention_store_row(const tensor *t, int64_t b, int64_t h, int64_t row,
                                       const float *in) {
    char *to = attention_row(t, b, h, row);
    int64_t width = t->shape.dim[3];
    if (t->type == DTYPE_F32)
        memcpy(to, in, (size_t)width * sizeof *in);
    else
        convert_f32_to_low(t->type, width, in, (void *)to);
}

/* LSE of a head's first query. */
static inline float *attention_lse(const tensor *lse, int64_t b, int64_t h) {
    return (float *)lse->data + b * lse->stride[0] + h * lse->stride[1];
}

#endif
