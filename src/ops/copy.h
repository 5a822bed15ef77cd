/* copy.h - the kernel that makes a dense copy of a strided tensor of any type. */
#ifndef OPS_COPY_H
#define OPS_COPY_H

#include "ops/kernel.h"

void copy_run(const kernel_args *args);

/* The same on a GPU: input 0's elements in their order, whatever the two shapes. */
extern const kernel copy_cuda;

#endif
