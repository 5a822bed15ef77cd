/* global_norm_blocks.h - the length that inputs are cut into on a GPU, for the plan, which is C and
 * gives each block's sum a place in the workspace, and for the kernel, which is C++. */
#ifndef OPS_GLOBAL_NORM_BLOCKS_H
#define OPS_GLOBAL_NORM_BLOCKS_H

#include <stdint.h>

enum { GLOBAL_NORM_BLOCK = 16384 };

static inline int64_t global_norm_blocks(int64_t elements) {
    return (elements + GLOBAL_NORM_BLOCK - 1) / GLOBAL_NORM_BLOCK;
}

#endif
