/* accumulate.cu - the repetition is known when a launch is enqueued, so that a captured step needs no
 * counter: its first micro-batch was captured as a copy, the others as additions. */
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256, PER_THREAD = 4 };

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    accumulate(int64_t count, const T *__restrict__ term, float *__restrict__ sum, bool is_first) {
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        sum[i] = is_first ? to_float(term[i]) : sum[i] + to_float(term[i]);
}

extern "C" dyno_status dyno_accumulate_cuda(const cuda_args *args) {
    const cuda_tensor *term = &args->inputs[1];
    int64_t count = cuda_elements(term), most = 65535;
    int64_t blocks = (count + THREADS * PER_THREAD - 1) / (THREADS * PER_THREAD);
    unsigned grid = (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
    float *sum = (float *)args->outputs[0].data;
    bool is_first = args->context->repetition == 0;
    cudaStream_t stream = args->context->stream;
    if (term->type == CUDA_DTYPE_BF16)
        accumulate<<<grid, THREADS, 0, stream>>>(count, (const bf16 *)term->data, sum, is_first);
    else if (term->type == CUDA_DTYPE_F16)
        accumulate<<<grid, THREADS, 0, stream>>>(count, (const f16 *)term->data, sum, is_first);
    else
        accumulate<<<grid, THREADS, 0, stream>>>(count, (const float *)term->data, sum, is_first);
    return cuda_launch_status();
}
