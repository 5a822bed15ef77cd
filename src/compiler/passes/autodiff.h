/* autodiff.h - appends the backward pass. */
#ifndef COMPILER_PASSES_AUTODIFF_H
#define COMPILER_PASSES_AUTODIFF_H

#include "graph/graph.h"

/* Appends, after all nodes, those that compute the gradient of the scalar output "loss" for
 * every parameter; or, in a graph without one, of its outputs "X" for which there is an input "dX"
 * of the same type and shape: the gradient that reaches them. A parameter's gradient gets the role
 * gradient and goes into its record; it is an output of the graph if `keep_gradients`.
 *
 * Where the graph has an f32 scalar input "loss_scale", all gradients come out multiplied by it:
 * the backward starts from it instead of from 1. */
NODISCARD dyno_status autodiff_append_backward(graph *g, bool keep_gradients);
/* The same with all gradients multiplied by `share`: those of a loss that is so much of another. */
NODISCARD dyno_status autodiff_append_backward_of_share(graph *g, bool keep_gradients,
                                                        double share);

#endif
