#ifndef OPS_ADAMW_MANY_H
#define OPS_ADAMW_MANY_H

#include "ops/adamw/adamw.h"

/* What adamw does, to many parameters in one launch; the same bits. It can keep a copy of each
 * weight in a low type (bf16, f16) on the way, which costs a write of two bytes and no read. */
typedef struct adamw_parameter {
    value *weight, *gradient, *first_moment, *second_moment; /* f32, one shape */
    value *low_copy; /* takes the new weight, rounded; NULL: there is none */
} adamw_parameter;

/* Parameters with a low copy come first; all copies are of one type. The result's producer has as
 * outputs weight and moments of each parameter, in order, then the low copies. */
value *build_adamw_many(graph *g, const adamw_parameter *parameters, int count,
                        value *learning_rate, value *step, value *gradient_scale,
                        const adamw_options *options);

#endif
