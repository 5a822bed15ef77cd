/* levels.h - the same kernels, compiled for each level of x86-64.
 *
 * All of src/ops is compiled for every machine of the architecture, and on x86-64 twice more: for
 * x86-64-v3 (AVX2 and FMA) and x86-64-v4 (AVX-512). Planning and the functions that a kernel
 * declines by are always those for every machine; a plan's target says which copy of `run` its
 * launches call. */
#ifndef OPS_LEVELS_H
#define OPS_LEVELS_H

#include "ops/kernel.h"

/* -march for code that runs on the target: "x86-64-v3"; NULL where there is one level only. */
const char *level_name(const target *chip);

/* The kernel as it is compiled for the highest level that the target has; `k` itself where it is no
 * kernel of an op. */
const kernel *level_kernel(const kernel *k, const target *chip);

#endif
