/* products.h - matrix products by cuBLASLt, inside the module.
 *
 *   C[m, n] = alpha A[m, k] B[k, n] + beta C, in two levels of batches
 *
 * The algorithm for a problem (sizes, types, strides, alignment) is chosen at its first use: from
 * the cache on disk, else by timing the candidates of the library on scratch memory and on a stream
 * of its own, so that tuning may happen while another stream is captured. */
#ifndef RUNTIME_CUDA_PRODUCTS_H
#define RUNTIME_CUDA_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/cuda_call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strides in elements. Of a matrix's two, one is 1 (C: the column's). */
typedef struct cuda_matrix {
    void *data;
    int type; /* enum cuda_dtype */
    int64_t row, column;
    int64_t outer, inner; /* from batch to batch */
} cuda_matrix;

typedef struct cuda_product {
    int64_t m, n, k;
    int64_t outer_batches, inner_batches; /* 1 for none */
    cuda_matrix a, b, c;                  /* A and B of one type; C of it or f32 */
    float alpha, beta;
    int tf32; /* f32 operands may be rounded to tf32 */
    void *workspace;
    size_t workspace_bytes;
} cuda_product;

/* Enqueues on the context's stream. */
dyno_status cuda_product_run(const cuda_product *p, const cuda_context *where);

#ifdef __cplusplus
}
#endif

#endif
