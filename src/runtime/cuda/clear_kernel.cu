#include "runtime/cuda/clear_kernel.h"

enum { THREADS = 256, MOST_BLOCKS = 1024 };

__global__ static void set_words(unsigned *to, unsigned word, int64_t words) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        to[i] = word;
}

cudaError_t cuda_clear_find_code(void) {
    cudaFuncAttributes unused;
    return cudaFuncGetAttributes(&unused, set_words);
}

cudaError_t cuda_clear_add_node(cudaGraphNode_t *made, cudaGraph_t graph,
                                const cudaGraphNode_t *after, size_t after_count,
                                const cuda_clear *clear) {
    cuda_clear arguments = *clear;
    void *pointers[] = {&arguments.to, &arguments.word, &arguments.words};
    int64_t blocks = (clear->words + THREADS - 1) / THREADS;
    cudaKernelNodeParams node = {};
    node.func = (void *)set_words;
    node.gridDim = dim3((unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS));
    node.blockDim = dim3(THREADS);
    node.kernelParams = pointers;
    return cudaGraphAddKernelNode(made, graph, after, after_count, &node);
}
