#ifndef OPS_ADAMW_MANY_H
#define OPS_ADAMW_MANY_H

#include "ops/adamw/adamw.h"

/* What adamw does, to many parameters in one launch; the same bits. A weight is stored as
 *
 *   f32                          or
 *   f32 and a low copy           the copy (bf16, f16) is written, rounded, and not read; or
 *   u16 and a low copy in bf16   the two halves of an f32 weight (ops/adamw/split_weight.h)
 *
 * Copies in f16 round ties to even, copies in bf16 away from zero, split or not. A gradient may be
 * f32, bf16 or f16, and is widened; all moments are f32. */
typedef struct adamw_parameter {
    value *weight, *gradient, *first_moment, *second_moment; /* one shape */
    value *low_copy;                                         /* NULL: there is none */
} adamw_parameter;

/* Parameters with a low copy come first; all copies are of one type. The result's producer has as
 * outputs weight and moments of each parameter, in order, then the low copies. */
value *build_adamw_many(graph *g, const adamw_parameter *parameters, int count,
                        value *learning_rate, value *step, value *gradient_scale,
                        const adamw_options *options);

#endif
