#ifndef OPS_GLOBAL_NORM_H
#define OPS_GLOBAL_NORM_H

#include "graph/graph.h"

/* The Euclidean norm of all the given values together, an f32 scalar. Each value may be of another
 * float type. */
value *build_global_norm(graph *g, value *const *values, int count);

/* What gradients of this norm are multiplied by so that it is at most `max_norm`:
 * min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does it. */
value *build_clip_coefficient(graph *g, value *norm, double max_norm);

/* The same for gradients of a loss that was multiplied by `loss_scale` (f32 scalar), whose norm
 * this is: what undoes the scaling and clips. 0 as max_norm does not clip. NaN when the norm is
 * not finite, which says that a gradient overflowed and the step is void: the norm reads every
 * gradient anyway, so finding that out takes no pass of its own. */
value *build_unscale_coefficient(graph *g, value *norm, value *loss_scale, double max_norm);

#endif
