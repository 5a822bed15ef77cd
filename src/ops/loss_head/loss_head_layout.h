/* loss_head_layout.h - the workspace of the CUDA loss head, shared by the plan (C) and the kernel
 * (C++):
 *
 *   logits of a chunk, in the type of x | the workspace of the products */
#ifndef OPS_LOSS_HEAD_LAYOUT_H
#define OPS_LOSS_HEAD_LAYOUT_H

#include <stdint.h>

#include "ops/matmul/product_workspace.h"

enum { LOSS_HEAD_ALIGNMENT = 256 };

/* Logits from row to row: rows begin on 16 bytes, whatever the vocabulary, because products are
 * several times slower on rows that do not. */
static inline int64_t loss_head_row(int64_t vocab, int64_t element_bytes) {
    int64_t per_vector = 16 / element_bytes;
    return (vocab + per_vector - 1) / per_vector * per_vector;
}

static inline int64_t loss_head_logits_bytes(int64_t rows, int64_t vocab, int64_t element_bytes) {
    int64_t bytes = rows * loss_head_row(vocab, element_bytes) * element_bytes;
    return (bytes + LOSS_HEAD_ALIGNMENT - 1) / LOSS_HEAD_ALIGNMENT * LOSS_HEAD_ALIGNMENT;
}

/* What the smallest of the products has: logits, dW and dx of a last, shorter chunk. */
static inline int64_t loss_head_product_bytes(int64_t rows, int64_t chunk, int64_t vocab,
                                              int64_t width) {
    int64_t shortest = rows % chunk ? rows % chunk : chunk;
    int64_t smaller = vocab < width ? vocab : width;
    int64_t least = shortest * smaller < vocab * width ? shortest * smaller : vocab * width;
    return product_workspace_bytes(least);
}

#endif
