/* dtype.c - conversions are written out in integer arithmetic, so that they are exact on every
 * machine and can serve as the reference for the vector ones. */
#include "tensor/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LARGEST_BF16 0x1.fep127

const dtype_traits dtype_table[DTYPE_COUNT] = {
    [DTYPE_F64] = {"f64", "F64", 8, -DBL_MAX, DBL_MAX, .is_float = true},
    [DTYPE_F32] = {"f32", "F32", 4, -FLT_MAX, FLT_MAX, .is_float = true},
    [DTYPE_BF16] = {"bf16", "BF16", 2, -LARGEST_BF16, LARGEST_BF16, .is_float = true,
                    .is_low = true, .is_f32_upper_half = true},
    [DTYPE_F16] = {"f16", "F16", 2, -65504, 65504, .is_float = true, .is_low = true,
                   .needs_scale = true},
    [DTYPE_I64] = {"i64", "I64", 8, -0x1p63, 0x1.fffffffffffffp62},
    [DTYPE_I32] = {"i32", "I32", 4, INT32_MIN, INT32_MAX},
    [DTYPE_U16] = {"u16", "U16", 2, 0, UINT16_MAX},
    [DTYPE_U8] = {"u8", "U8", 1, 0, UINT8_MAX},
    [DTYPE_BOOL] = {"bool", "BOOL", 1, 0, 1},
};

bool dtype_parse(const char *name, dtype *type) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(dtype_table[i].name, name) == 0) {
            *type = (dtype)i;
            return true;
        }
    return false;
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float dtype_bf16_to_f32(uint16_t bits) { return bits_float((uint32_t)bits << 16); }

uint16_t dtype_f32_to_bf16(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) /* NaN stays NaN, made quiet */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float dtype_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t dtype_f32_to_f16(float value) {
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* subnormal: the nearest multiple of 2^-24 */
        float scaled = bits_float(magnitude) * 0x1p24f;
        return (uint16_t)(sign | (uint32_t)lrintf(scaled));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

double dtype_load(dtype type, const void *data, int64_t index) {
    switch (type) {
    case DTYPE_F64:
        return ((const double *)data)[index];
    case DTYPE_F32:
        return ((const float *)data)[index];
    case DTYPE_BF16:
        return dtype_bf16_to_f32(((const uint16_t *)data)[index]);
    case DTYPE_F16:
        return dtype_f16_to_f32(((const uint16_t *)data)[index]);
    case DTYPE_I64:
        return (double)((const int64_t *)data)[index];
    case DTYPE_I32:
        return ((const int32_t *)data)[index];
    case DTYPE_U16:
        return ((const uint16_t *)data)[index];
    case DTYPE_U8:
    case DTYPE_BOOL:
        return ((const uint8_t *)data)[index];
    case DTYPE_COUNT:
        break;
    }
    return NAN;
}

/* Rounds a double to 16 bits by way of f32 (round to odd): an inexact float gets an odd last bit,
 * so that it is never a tie and the second rounding gives what a single one would. */
static float float_rounded_to_odd(double value) {
    float nearest = (float)value;
    uint32_t bits = float_bits(nearest);
    if (isnan(value) || (double)nearest == value || bits & 1u)
        return nearest;
    return bits_float(fabs((double)nearest) < fabs(value) ? bits + 1 : bits - 1);
}

static double saturate(dtype type, double value) {
    const dtype_traits *t = &dtype_table[type];
    if (!(value > t->least)) /* NaN too */
        return t->least;
    return value < t->largest ? value : t->largest;
}

void dtype_store(dtype type, void *data, int64_t index, double value) {
    switch (type) {
    case DTYPE_F64:
        ((double *)data)[index] = value;
        break;
    case DTYPE_F32:
        ((float *)data)[index] = (float)value;
        break;
    case DTYPE_BF16:
        ((uint16_t *)data)[index] = dtype_f32_to_bf16(float_rounded_to_odd(value));
        break;
    case DTYPE_F16:
        ((uint16_t *)data)[index] = dtype_f32_to_f16(float_rounded_to_odd(value));
        break;
    case DTYPE_I64:
        ((int64_t *)data)[index] = (int64_t)saturate(type, value);
        break;
    case DTYPE_I32:
        ((int32_t *)data)[index] = (int32_t)saturate(type, value);
        break;
    case DTYPE_U16:
        ((uint16_t *)data)[index] = (uint16_t)saturate(type, value);
        break;
    case DTYPE_U8:
        ((uint8_t *)data)[index] = (uint8_t)saturate(type, value);
        break;
    case DTYPE_BOOL:
        ((uint8_t *)data)[index] = value != 0;
        break;
    case DTYPE_COUNT:
        break;
    }
}

void dtype_load_floats(dtype type, const void *data, int64_t index, int64_t count, float *to) {
    const uint16_t *half = (const uint16_t *)data + index;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = dtype_bf16_to_f32(half[i]);
    else if (type == DTYPE_F16)
        for (int64_t i = 0; i < count; i++)
            to[i] = dtype_f16_to_f32(half[i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (float)dtype_load(type, data, index + i);
}
