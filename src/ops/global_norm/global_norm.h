#ifndef OPS_GLOBAL_NORM_H
#define OPS_GLOBAL_NORM_H

#include "graph/graph.h"

/* The Euclidean norm of all the given values together, an f32 scalar. */
value *build_global_norm(graph *g, value *const *values, int count);

/* What gradients of this norm are multiplied by so that it is at most `max_norm`:
 * min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does it. */
value *build_clip_coefficient(graph *g, value *norm, double max_norm);

#endif
