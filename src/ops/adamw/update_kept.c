/* update_kept.c - rows of a parameter, one after another.
 *
 * A split weight is joined, updated and taken apart in one loop. One that is whole goes through
 * two or three: its gradient widened, itself updated, its low copy rounded, in pieces that stay in
 * the first cache. All kinds are updated by the same arithmetic and get the same bits. */
#include "ops/adamw/split_weight.h"
#include "ops/adamw/update.h"
#include "ops/cast/convert.h"

enum { PIECE = 2048 };

static void round_copy(dtype low, int64_t count, const float *restrict weight,
                       uint16_t *restrict copy) {
    if (low == DTYPE_F16)
        convert_f32_to_low(low, count, weight, copy);
    else
        for (int64_t i = 0; i < count; i++)
            copy[i] = split_weight_high(weight[i]);
}

static inline void update_split_run(const adamw_step *u, int64_t count, dtype type,
                                    const void *gradient, uint16_t *restrict high,
                                    uint16_t *restrict rest, float *restrict first,
                                    float *restrict second) {
    const float *restrict wide = gradient;
    const uint16_t *restrict low = gradient;
    for (int64_t i = 0; i < count; i++) {
        float g = type == DTYPE_F32 ? wide[i] : float_from_bits((uint32_t)low[i] << 16);
        float w = split_weight_join(high[i], rest[i]);
        w = adamw_element(u, g, w, &first[i], &second[i]);
        high[i] = split_weight_high(w);
        rest[i] = split_weight_rest(w);
    }
}

/* `next` is where the next row is, from this one. */
static inline __attribute__((always_inline)) void
update_split(const adamw_step *u, int64_t count, int64_t next, dtype type, const void *gradient,
             uint16_t *restrict high, uint16_t *restrict rest, float *restrict first,
             float *restrict second) {
    const int bytes = type == DTYPE_F32 ? 4 : 2;
    int64_t i = 0;
    for (; i + ADAMW_CHUNK <= count; i += ADAMW_CHUNK) {
        int64_t ahead = adamw_ahead(i, count, next);
        adamw_ask(high, ahead, sizeof *high);
        adamw_ask(rest, ahead, sizeof *rest);
        adamw_ask(first, ahead, sizeof *first);
        adamw_ask(second, ahead, sizeof *second);
        adamw_ask(gradient, i + ADAMW_AHEAD, bytes);
        update_split_run(u, ADAMW_CHUNK, type, (const char *)gradient + i * bytes, high + i,
                         rest + i, first + i, second + i);
    }
    update_split_run(u, count - i, type, (const char *)gradient + i * bytes, high + i, rest + i,
                     first + i, second + i);
}

static inline __attribute__((always_inline)) void
update_split_rows(const adamw_step *step, const adamw_kept *to, const adamw_rows *at, dtype type,
                  const void *gradient) {
    const adamw_step u = *step;
    const int bytes = type == DTYPE_F32 ? 4 : 2;
    for (int64_t i = 0; i < at->rows; i++) {
        int64_t start = at->start + i * at->stride;
        update_split(&u, at->columns, at->stride, type,
                     (const char *)gradient + i * at->gradient_stride * bytes, to->low + start,
                     (uint16_t *)to->weight + start, to->first + start, to->second + start);
    }
}

/* Through a gradient in f32. */
static void update_piece(const adamw_step *step, const adamw_kept *to, int64_t start, int64_t count,
                         int64_t next, dtype type, const void *gradient) {
    float wide[PIECE];
    const float *g = gradient;
    if (type != DTYPE_F32) {
        convert_low_to_f32(type, count, gradient, wide);
        g = wide;
    }
    float *first = to->first + start, *second = to->second + start;
    if (to->weight_type == DTYPE_U16) {
        update_split(step, count, next, DTYPE_F32, g, to->low + start,
                     (uint16_t *)to->weight + start, first, second);
        return;
    }
    float *weight = (float *)to->weight + start;
    adamw_update(step, count, next, g, weight, first, second);
    if (to->low)
        round_copy(to->low_type, count, weight, to->low + start);
}

/* Rows that touch are one. */
static adamw_rows join_rows(const adamw_rows *at) {
    adamw_rows joined = *at;
    if (at->stride == at->columns && at->gradient_stride == at->columns) {
        joined.columns = at->rows * at->columns;
        joined.stride = joined.columns;
        joined.rows = 1;
    }
    return joined;
}

void adamw_update_kept(const adamw_step *step, const adamw_kept *to, const adamw_rows *rows,
                       dtype type, const void *gradient) {
    adamw_rows at = join_rows(rows);
    if (step->is_skipped)
        return;
    if (to->weight_type == DTYPE_U16 && type == DTYPE_BF16) {
        update_split_rows(step, to, &at, DTYPE_BF16, gradient);
        return;
    }
    for (int64_t i = 0; i < at.rows; i++)
        for (int64_t j = 0; j < at.columns; j += PIECE) {
            int64_t count = at.columns - j < PIECE ? at.columns - j : PIECE;
            int64_t next = j + PIECE < at.columns ? PIECE : at.stride - j;
            update_piece(step, to, at.start + i * at.stride + j, count, next, type,
                         (const char *)gradient + (i * at.gradient_stride + j) * dtype_bytes(type));
        }
}
