/* convert.h - runs of numbers between f32 and the low types, for the kernels that do it on their
 * way: casts, the optimizer's low copies, the loss head. Rounds to nearest even, bit for bit as
 * dtype.h does (of a NaN: its upper bits, made quiet). */
#ifndef OPS_CAST_CONVERT_H
#define OPS_CAST_CONVERT_H

#include "ops/kernel.h"
#include "ops/scalar_math.h"
#include "tensor/dtype.h"

/* Without branches, so that loops over it vectorise. */
static inline uint16_t bf16_from_f32(float x) {
    uint32_t bits = bits_from_float(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* `low` is a low type. Memory may overlap only where `out` starts at `in` or before
 * it, and only when it gets narrower. */
void convert_f32_to_low(dtype low, int64_t count, const float *in, uint16_t *out);
void convert_low_to_f32(dtype low, int64_t count, const uint16_t *in, float *restrict out);

/* Whole tensors, the input with any strides: what the cast kernels run. */
dyno_status convert_run_f32_to_f16(const kernel_args *args);
dyno_status convert_run_f16_to_f32(const kernel_args *args);

#endif
