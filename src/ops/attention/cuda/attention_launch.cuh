/* attention_launch.cuh - a kernel compiled for several head sizes and tiles: which of its instances a
 * call takes, and its launch. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_LAUNCH_CUH
#define OPS_ATTENTION_CUDA_ATTENTION_LAUNCH_CUH

#include "ops/attention/cuda/attention_cuda.cuh"

/* Enqueues a kernel of so many blocks, or a grid of them, with so many bytes of shared memory
 * each. */
template <typename FUNCTION>
static void launch_blocks(FUNCTION *function, dim3 blocks, int threads, int bytes,
                          const attention_call *call, cudaStream_t stream) {
    cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = stream;
    cudaLaunchKernelEx(&config, function, *call);
}

/* One for each row of a list of attention_variants.h. */
typedef struct attention_instance {
    int head_dim;
    attention_tile tile;
    dyno_status (*launch)(const attention_call *call, cudaStream_t stream);
} attention_instance;

template <int COUNT>
static dyno_status launch_instance(const attention_instance (&instances)[COUNT],
                                   const attention_call *call, cudaStream_t stream) {
    int head_dim = 0;
    for (int i = 0; i < COUNT; i++) {
        const attention_instance *at = &instances[i];
        if (at->head_dim < call->head_dim || (head_dim && at->head_dim != head_dim))
            continue;
        head_dim = at->head_dim;
        if (at->tile.queries == call->tile.queries && at->tile.keys == call->tile.keys)
            return at->launch(call, stream);
    }
    return dyno_fail(DYNO_UNSUPPORTED,
                     "attention: no kernel is compiled for head size %d with tiles of %dx%d",
                     call->head_dim, call->tile.queries, call->tile.keys);
}

#endif
