/* global_norm.cu - inputs are divided into blocks by their shapes alone; the sum of squares of each
 * block has a slot in the workspace, and one thread block adds them up in order, in double.
 *
 * Addresses and sizes are kernel arguments, which a captured step replays. */
#include <string.h>

#include "ops/global_norm/global_norm_blocks.h"
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256, BLOCKS_PER_SM = 6, IN_FLIGHT = 4, MOST_TENSORS = 1024, LAST_THREADS = 1024 };

typedef struct norm_tensor {
    const void *data;
    int64_t count;
    int64_t type;
} norm_tensor;

typedef struct norm_launch {
    int tensor_count;
    int32_t first_block[MOST_TENSORS + 1];
    norm_tensor tensor[MOST_TENSORS];
} norm_launch;

static_assert(sizeof(norm_launch) <= 32764, "what a kernel's arguments may take");

/* Squares of elements [begin, end), N at a time, that this thread adds up. */
template <typename T, int N>
static __device__ __forceinline__ float squares(const T *__restrict__ x, int64_t begin,
                                                int64_t end) {
    enum { STEP = THREADS * N };
    float sum = 0;
    int64_t i = begin + (int64_t)threadIdx.x * N;
#pragma unroll 1
    for (; i + (IN_FLIGHT - 1) * STEP < end; i += IN_FLIGHT * STEP) {
        float some[IN_FLIGHT][N];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            load_floats<T, N>(x + i + k * STEP, some[k]);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
#pragma unroll
            for (int j = 0; j < N; j++)
                sum += some[k][j] * some[k][j];
    }
#pragma unroll 1
    for (; i < end; i += STEP) {
        float some[N];
        load_floats<T, N>(x + i, some);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += some[j] * some[j];
    }
    return sum;
}

template <typename T>
static __device__ __forceinline__ float block_squares(const norm_tensor &t, int64_t block) {
    enum { N = VECTOR_BYTES / (int)sizeof(T) };
    const T *x = (const T *)t.data;
    int64_t begin = block * GLOBAL_NORM_BLOCK;
    int64_t end = begin + GLOBAL_NORM_BLOCK < t.count ? begin + GLOBAL_NORM_BLOCK : t.count;
    int64_t whole = (uintptr_t)t.data % VECTOR_BYTES == 0 ? begin + (end - begin) / N * N : begin;
    return squares<T, N>(x, begin, whole) + squares<T, 1>(x, whole, end);
}

static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    global_norm_blocks(const __grid_constant__ norm_launch l, double *__restrict__ sums) {
    __shared__ float scratch[WARP];
    int at = 0; /* the tensor of the block before */
    for (int32_t block = (int32_t)blockIdx.x; block < l.first_block[l.tensor_count];
         block += (int32_t)gridDim.x) {
        /* first_block[at] <= block < first_block[above] */
        int above = block < l.first_block[at + 1] ? at + 1 : l.tensor_count;
        while (above - at > 1) {
            int middle = (at + above) / 2;
            if (l.first_block[middle] <= block)
                at = middle;
            else
                above = middle;
        }
        const norm_tensor &t = l.tensor[at];
        int64_t part = block - l.first_block[at];
        float sum;
        if (t.type == CUDA_DTYPE_F32)
            sum = block_squares<float>(t, part);
        else if (t.type == CUDA_DTYPE_BF16)
            sum = block_squares<bf16>(t, part);
        else
            sum = block_squares<f16>(t, part);
        sum = block_reduce<add_floats, THREADS>(sum, scratch);
        if (threadIdx.x == 0)
            sums[block] = (double)sum;
        __syncthreads(); /* scratch is free again */
    }
}

/* Each thread adds up every 1024th sum; then a tree reduction combines them. */
static __global__ void __launch_bounds__(LAST_THREADS)
    global_norm_root(int64_t count, const double *__restrict__ sums, float *__restrict__ norm) {
    __shared__ double of_thread[LAST_THREADS];
    double sum = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < count; i += LAST_THREADS)
        sum += sums[i];
    of_thread[threadIdx.x] = sum;
    for (int half = LAST_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            of_thread[threadIdx.x] += of_thread[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        *norm = (float)sqrt(of_thread[0]);
}

extern "C" dyno_status dyno_global_norm_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    int ordinal = 0, multiprocessors = 0;
    cudaGetDevice(&ordinal);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    double *sums = (double *)args->workspace;
    int64_t blocks = 0;
    norm_launch l;
    for (int done = 0; done < args->input_count;) {
        memset(&l, 0, sizeof l);
        for (; done < args->input_count && l.tensor_count < MOST_TENSORS; done++) {
            const cuda_tensor *in = &args->inputs[done];
            int at = l.tensor_count++;
            l.tensor[at] = {in->data, cuda_elements(in), in->type};
            l.first_block[at + 1] =
                l.first_block[at] + (int32_t)global_norm_blocks(l.tensor[at].count);
        }
        int32_t here = l.first_block[l.tensor_count], most = multiprocessors * BLOCKS_PER_SM;
        global_norm_blocks<<<(unsigned)(here < most ? here : most), THREADS, 0, stream>>>(l, sums + blocks);
        blocks += here;
    }
    global_norm_root<<<1, LAST_THREADS, 0, stream>>>(blocks, sums, (float *)args->outputs[0].data);
    return cuda_launch_status();
}
