/* global_norm_blocks.h - the length of the blocks that inputs are divided into on a GPU, shared by
 * the plan (C), which gives each block's sum a slot in the workspace, and the kernel (C++). */
#ifndef OPS_GLOBAL_NORM_BLOCKS_H
#define OPS_GLOBAL_NORM_BLOCKS_H

#include <stdint.h>

enum { GLOBAL_NORM_BLOCK = 16384 };

static inline int64_t global_norm_blocks(int64_t elements) {
    return (elements + GLOBAL_NORM_BLOCK - 1) / GLOBAL_NORM_BLOCK;
}

#endif
