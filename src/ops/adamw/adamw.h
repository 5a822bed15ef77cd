#ifndef OPS_ADAMW_H
#define OPS_ADAMW_H

#include "graph/graph.h"

/* One AdamW update of one parameter, in place, as torch.optim.AdamW does it:
 *
 *   w -= lr * decay * w
 *   m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
 *   w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * g is the gradient times `gradient_scale` (f32 scalar; clipping, and what undoes loss scaling).
 * lr (f64) and the step number t (i64, from 1) are scalars given for each step.
 *
 * With `skips_nan` a scale that is NaN says that the step is void: nothing is written. That is
 * how an overflow anywhere reaches every parameter (ops/global_norm, unscale_coefficient). */
typedef struct adamw_options {
    double beta1, beta2, eps, weight_decay;
    bool skips_nan;
} adamw_options;

typedef struct adamw_inputs {
    value *weight, *gradient, *first_moment, *second_moment; /* one shape */
    value *learning_rate, *step, *gradient_scale;
} adamw_inputs;

/* Returns the updated weight; the updated moments are outputs 1 and 2 of its producer. */
value *build_adamw(graph *g, const adamw_inputs *inputs, const adamw_options *options);

#endif
