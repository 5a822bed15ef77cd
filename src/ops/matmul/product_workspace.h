/* product_workspace.h - what a product on a GPU has beside its operands, for the plan, which is C
 * and knows no CUDA, and for the module. Which algorithms there are for a product depends on it,
 * and so do its bits: it follows from the shape of the result alone. */
#ifndef OPS_MATMUL_PRODUCT_WORKSPACE_H
#define OPS_MATMUL_PRODUCT_WORKSPACE_H

#include <stdint.h>

/* Sums cut into pieces are added up in the workspace, in f32. That pays where the tiles of the
 * result are fewer than multiprocessors: 128 of 128 x 128 are 2 Mi numbers. What has more of them
 * is never cut, and algorithms want some bytes for the counter by which they hand out tiles. */
static inline int64_t product_workspace_bytes(int64_t result_elements) {
    const int64_t few_tiles = (int64_t)128 * 128 * 128;
    return result_elements < few_tiles ? (int64_t)32 << 20 : (int64_t)64 << 10;
}

#endif
