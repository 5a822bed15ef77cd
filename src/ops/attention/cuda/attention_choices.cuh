/* attention_choices.cuh - a kernel compiled for several tiles: which of them a call takes, and its
 * launch. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_CHOICES_CUH
#define OPS_ATTENTION_CUDA_ATTENTION_CHOICES_CUH

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

typedef struct attention_choice {
    cuda_tile tile;
    int (*launch)(const attention_call *call, cudaStream_t stream); /* 0: nothing was enqueued */
} attention_choice;

/* For one head size and type, first the one that is taken when none is asked for. */
typedef struct attention_choices {
    attention_choice of[4];
    int count;
} attention_choices;

static inline int launch_choice(const attention_choices *choices, const attention_call *call,
                                cudaStream_t stream) {
    int at = 0;
    for (int i = 0; i < choices->count; i++)
        if (choices->of[i].tile.queries == call->tile.queries &&
            choices->of[i].tile.keys == call->tile.keys)
            at = i;
    return choices->of[at].launch(call, stream);
}

static inline int list_choices(const attention_choices *choices, cuda_tile *out) {
    for (int i = 0; i < choices->count; i++)
        out[i] = choices->of[i].tile;
    return choices->count;
}

#endif
