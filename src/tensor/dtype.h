/* dtype.h - the element types a value can have. */
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

int dtype_bytes(dtype type);
const char *dtype_name(dtype type); /* "f32" */
/* False when no dtype has this name. */
bool dtype_parse(const char *name, dtype *type);
bool dtype_is_float(dtype type);

/* One element as double. Floats round to nearest even; integers lose their
 * fraction and saturate. */
double dtype_load(dtype type, const void *data, int64_t index);
void dtype_store(dtype type, void *data, int64_t index, double value);

float dtype_bf16_to_f32(uint16_t bits);
uint16_t dtype_f32_to_bf16(float value);
float dtype_f16_to_f32(uint16_t bits);
uint16_t dtype_f32_to_f16(float value);

#endif
