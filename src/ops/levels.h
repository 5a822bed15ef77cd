/* levels.h - the same kernels, compiled for each level of the architecture.
 *
 * All of src/ops is compiled for every machine of the architecture, and on x86-64 twice more: for
 * x86-64-v3 (AVX2 and FMA) and x86-64-v4 (AVX-512). Planning and the functions that a kernel
 * declines by are always those for every machine; a plan's target says which copy of `run` its
 * launches call. aarch64 has one level, with NEON, but generated kernels use SVE where it is. */
#ifndef OPS_LEVELS_H
#define OPS_LEVELS_H

#include "ops/kernel.h"

/* What kernels for the target are compiled for, as gcc names it (-march): "x86-64-v3", "armv8-a". */
const char *level_name(const target *chip);

/* The same for kernels that are generated here to run on the target: "native" for the CPU at hand. */
const char *level_of_generated(const target *chip);

/* The kernel as it is compiled for the highest level that the target has; `k` itself where it is no
 * kernel of an op. */
const kernel *level_kernel(const kernel *k, const target *chip);

#endif
