/* rope_rows.h - one row rotated, on the CPU, for the kernels of rope, and for those of attention,
 * which rotate rows as they load them. One function, so that both give the same bits. */
#ifndef OPS_ROPE_ROWS_H
#define OPS_ROPE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* Rotates the 2 * half numbers of x, of f32, bf16 or f16, by the angles whose cos and sin are
 * given; back when `is_inverse`. In f32, rounded once. y may be x. */
void rope_rotate_row(dtype type, int64_t half, const void *x, const float *cosine,
                     const float *sine, bool is_inverse, void *y);

#endif
