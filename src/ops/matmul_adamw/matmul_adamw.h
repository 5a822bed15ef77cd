#ifndef OPS_MATMUL_ADAMW_H
#define OPS_MATMUL_ADAMW_H

#include "ops/adamw_many/adamw_many.h"

/* A product whose result is the gradient of weights, and AdamW's update of these in the same
 * launch: the gradient never exists in memory. The same bits as matmul, then adamw_many with a
 * gradient scale of 1.
 *
 * The weights' rows are the product's: those of the first parameter, those of the next, and so on.
 * `product` is a node of the op matmul on matrices, whose operands and attributes are taken over.
 * Either all parameters have a low copy, of one type, or none has; their gradients are not read.
 * The result's producer has outputs as build_adamw_many's. */
value *build_matmul_adamw(graph *g, const node *product, const adamw_parameter *parameters,
                          int count, value *learning_rate, value *step,
                          const adamw_options *options);

#endif
