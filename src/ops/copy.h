/* copy.h - moves elements of any type from one layout to another. */
#ifndef OPS_COPY_H
#define OPS_COPY_H

#include "ops/kernel.h"

/* Tensors of one type and shape, any strides; they share no memory. */
void copy_tensor(const tensor *from, const tensor *to);

/* Input 0 to output 0. */
dyno_status copy_run(const kernel_args *args);

/* The same on a GPU: input 0's elements in their order, whatever the two shapes. */
extern const kernel copy_cuda;

#endif
