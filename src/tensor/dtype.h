/* dtype.h - the element types a value can have, and what is known about each. */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dtype {
    DTYPE_F64, /* references only */
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_U16,
    DTYPE_U8,
    DTYPE_BOOL, /* one byte, 0 or 1 */
    DTYPE_COUNT
} dtype;

typedef struct dtype_traits {
    const char *name;        /* "f32" */
    const char *safetensors; /* that format's name for it: "F32" */
    int bytes;
    double least, largest; /* the finite numbers it can hold, as far as a double can say them */
    bool is_float;
    bool is_low;            /* a float narrower than f32: products read it and add up in f32 */
    bool needs_scale;       /* small gradients underflow in it: the loss is scaled */
    bool is_f32_upper_half; /* its bits are the first half of an f32's: the two may be split */
} dtype_traits;

extern const dtype_traits dtype_table[DTYPE_COUNT];

static inline int dtype_bytes(dtype type) { return dtype_table[type].bytes; }
static inline const char *dtype_name(dtype type) { return dtype_table[type].name; }
static inline bool dtype_is_float(dtype type) { return dtype_table[type].is_float; }
static inline bool dtype_is_low(dtype type) { return dtype_table[type].is_low; }
/* What a model computes with: every float but the references' f64. */
static inline bool dtype_is_f32_or_low(dtype type) {
    return type == DTYPE_F32 || dtype_is_low(type);
}

/* False when no dtype has this name. */
bool dtype_parse(const char *name, dtype *type);

/* One element as double. Floats round to nearest even; integers lose their
 * fraction and saturate. */
double dtype_load(dtype type, const void *data, int64_t index);
void dtype_store(dtype type, void *data, int64_t index, double value);
/* `count` elements from `index` on, as floats. */
void dtype_load_floats(dtype type, const void *data, int64_t index, int64_t count, float *to);

float dtype_bf16_to_f32(uint16_t bits);
uint16_t dtype_f32_to_bf16(float value);
float dtype_f16_to_f32(uint16_t bits);
uint16_t dtype_f32_to_f16(float value);

#endif
