/* products_internal.h - what products.c (running) and products_tune.c (choosing) share. */
#ifndef RUNTIME_CUDA_PRODUCTS_INTERNAL_H
#define RUNTIME_CUDA_PRODUCTS_INTERNAL_H

#include "runtime/autotune.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/products.h"
#include "runtime/product_problem.h"

/* All that the choice of an algorithm may depend on; compared byte by byte, so there is no
 * padding: every field is filled, and unused ones are 0. */
typedef struct problem {
    int64_t m, n, k, batches, workspace_bytes;
    problem_matrix matrix[PRODUCT_MATRICES];
    int type, c_type, tf32, accumulates;
} problem;

/* A problem with its descriptors; what the library multiplies first is our B
 * (runtime/product_problem.h). */
typedef struct product_plan {
    problem key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
    dyno_status failure; /* none could be found: every run of it fails, for this reason */
    char reason[200];
    struct product_plan *next;
} product_plan;

enum { PRODUCT_TABLE_SIZE = 512 };

struct products {
    const cublaslt_functions *library;
    cublasLtHandle_t handle;
    autotune *tuned;
    cudaStream_t stream; /* for tuning */
    cudaEvent_t begin, end;
    product_plan *table[PRODUCT_TABLE_SIZE];
};

/* Where the operands of one strided batch are. */
typedef struct product_operands {
    const void *a, *b;
    void *c, *workspace;
} product_operands;

cublasStatus_t product_multiply(const products *p, const product_plan *chosen,
                                const cublasLtMatmulAlgo_t *algorithm, float alpha, float beta,
                                const product_operands *o, cudaStream_t stream);

static inline int64_t product_element_bytes(int type) { return type == DTYPE_F32 ? 4 : 2; }

/* Fills chosen->algorithm: from the cache, else by timing. */
NODISCARD dyno_status product_choose(cuda_device *d, products *p, product_plan *chosen);

/* ---- scratch_kernels.cu ---- */
/* Numbers in [-1, 1) of `type` (f32, bf16 or f16). */
void cuda_fill_random(void *to, int64_t elements, int type, unsigned seed, cudaStream_t stream);
/* Keeps the stream busy for about `ns`, so that what follows is enqueued before it runs. */
void cuda_hold(int64_t ns, cudaStream_t stream);
/* Bytes are a multiple of 16. */
void cuda_copy_blocks(void *to, const void *from, int64_t bytes, cudaStream_t stream);

#endif
