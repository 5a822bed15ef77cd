/* clear_kernel.h - a kernel node that sets memory, in place of a memset node; for C and C++ alike.
 * */
#ifndef RUNTIME_CUDA_CLEAR_KERNEL_H
#define RUNTIME_CUDA_CLEAR_KERNEL_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory to be filled with a repeated word. */
typedef struct cuda_clear {
    void *to;
    unsigned word;
    int64_t words;
} cuda_clear;

/* Fails when the module has no code for this device: all kernels are built for the same
 * architectures. */
cudaError_t cuda_clear_find_code(void);

/* Adds the node, with its dependencies. */
cudaError_t cuda_clear_add_node(cudaGraphNode_t *made, cudaGraph_t graph,
                                const cudaGraphNode_t *after, size_t after_count,
                                const cuda_clear *clear);

#ifdef __cplusplus
}
#endif

#endif
