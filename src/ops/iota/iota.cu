#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS) iota_i32(int64_t count, int32_t *out) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        out[i] = (int32_t)i;
}

extern "C" dyno_status dyno_iota_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    int64_t count = cuda_elements(&args->outputs[0]);
    iota_i32<<<(unsigned)blocks_for(count, THREADS), THREADS, 0, stream>>>(
        count, (int32_t *)args->outputs[0].data);
    return cuda_launch_status();
}
