/* hopper_host.cuh - what the host does before a kernel of attention for sm_90a. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_HOST_CUH
#define OPS_ATTENTION_CUDA_HOPPER_HOST_CUH

#include <cudaTypedefs.h>

#include "ops/attention/cuda/attention_cuda.cuh"

/* How many multiprocessors of compute capability 9.0 the current device has; 0 when it is another
 * chip. */
int hopper_multiprocessors(void);

/* Fails where the chip is another, or operands lie otherwise than the plan said. */
dyno_status hopper_check(const attention_call *call);
/* Of a kernel that cannot be launched, for the driver or the build has not what it needs. */
dyno_status hopper_refuse(const char *kernel);

/* Describes [batch, heads, rows, head_dim] to the copy engine, for tiles of `tile_rows` rows and
 * slabs of 64 columns. 0 when the driver does not take it. */
int hopper_describe_rows(CUtensorMap *map, const attention_rows *rows, const attention_call *call,
                         int heads, int count, int tile_rows);

/* Enqueues a kernel whose blocks may begin before what is before it in the stream has ended. */
template <typename... PARAMETERS>
static void launch_early(void (*kernel)(PARAMETERS...), int64_t blocks, int threads, int shared,
                         cudaStream_t stream, PARAMETERS... parameters) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, parameters...);
}

/* Heads whose rows of both operands of `bytes` each are read by all blocks at about the same time
 * and should stay in the L2 cache together. */
int hopper_heads_at_once(int64_t bytes_per_head, int heads);

#endif
