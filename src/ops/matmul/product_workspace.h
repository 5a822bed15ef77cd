/* product_workspace.h - the workspace of a product on a GPU, shared by the plan (C) and the CUDA
 * module. The available algorithms depend on it, and so do the bits of the result: it follows from
 * the shape of the result alone. */
#ifndef OPS_MATMUL_PRODUCT_WORKSPACE_H
#define OPS_MATMUL_PRODUCT_WORKSPACE_H

#include <stdint.h>

/* Split-K algorithms add their partial sums up in the workspace, in f32. That pays where the tiles
 * of the result are fewer than multiprocessors: 128 of 128 x 128 are 2 Mi numbers. Of the products
 * of five models in bf16 on an H200, the fastest algorithm of the 106 with a larger result wants 4
 * bytes at most, a counter of tiles; of the other 28 three want 6 to 16 MiB. */
static inline int64_t product_workspace_bytes(int64_t result_elements) {
    const int64_t few_tiles = (int64_t)128 * 128 * 128;
    return result_elements < few_tiles ? (int64_t)32 << 20 : (int64_t)64 << 10;
}

#endif
