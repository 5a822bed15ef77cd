/* finite.h - whether numbers are finite, and how many are not. */
#ifndef TENSOR_FINITE_H
#define TENSOR_FINITE_H

#include "tensor/tensor.h"

typedef struct finite_count {
    int64_t elements, nan, infinite;
    int64_t first; /* that is not finite, in row-major order; -1: all are */
} finite_count;

/* Of a float tensor in memory of the host; one of integers has none that is not finite. With
 * `allows_minus_infinity`, that is fine: masked scores are so. */
finite_count finite_check(const tensor *t, bool allows_minus_infinity);
finite_count finite_check_floats(const float *x, int64_t count);

static inline bool finite_is_all(const finite_count *c) { return c->first < 0; }

typedef struct finite_text {
    char text[96];
} finite_text;
/* "NaN in 3 of 64 elements, the first at 7" */
finite_text finite_format(const finite_count *c);

#endif
