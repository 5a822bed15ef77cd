/* attention_rotation.cu - dQ and dK rotated back where they lie, after kernels that do not do it as
 * they write them. A thread has some neighbouring columns of the first half of a row, and their
 * partners in the second. */
#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/mma.cuh"

enum { ROTATE_THREADS = 128, MOST_BLOCKS = 1 << 20 };

/* 16-bit numbers, moved together. */
template <int N> struct alignas(2 * N) low_numbers { uint16_t at[N]; };

/* Of dQ or dK, piece number `index`. */
template <int TYPE, int N>
static __device__ __forceinline__ void rotate_piece(const attention_call &call,
                                                  const attention_rows &rows, int heads, int count,
                                                  int64_t index) {
    int half = call.head_dim / 2, pieces = half / N, column = (int)(index % pieces) * N;
    int64_t row = index / pieces;
    int position = (int)(row % count), head = (int)(row / count);
    uint16_t *at =
        rows_of<uint16_t>(rows, head / heads, head % heads) + position * rows.row + column;
    const float *cosine = call.rotation.cosine + (int64_t)position * half + column;
    const float *sine = call.rotation.sine + (int64_t)position * half + column;
    low_numbers<N> low = *(low_numbers<N> *)at, high = *(low_numbers<N> *)(at + half);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float a = unpack<TYPE>(low.at[i]), b = unpack<TYPE>(high.at[i]);
        uint32_t both = pack<TYPE>(a * cosine[i] + b * sine[i], b * cosine[i] - a * sine[i]);
        low.at[i] = (uint16_t)both;
        high.at[i] = (uint16_t)(both >> 16);
    }
    *(low_numbers<N> *)at = low;
    *(low_numbers<N> *)(at + half) = high;
}

template <int TYPE, int N>
static __global__ void __launch_bounds__(ROTATE_THREADS)
    attention_gradient_inverse_rope(const __grid_constant__ attention_call call, int64_t of_queries, int64_t of_keys) {
    int64_t index = (int64_t)blockIdx.x * ROTATE_THREADS + threadIdx.x;
    for (; index < of_queries + of_keys; index += (int64_t)gridDim.x * ROTATE_THREADS)
        if (index < of_queries)
            rotate_piece<TYPE, N>(call, call.d_q, call.heads, call.queries, index);
        else
            rotate_piece<TYPE, N>(call, call.d_k, call.kv_heads, call.keys, index - of_queries);
}

template <int TYPE, int N> static void launch(const attention_call *call, cudaStream_t stream) {
    int64_t pieces = call->head_dim / 2 / N;
    int64_t of_queries = pieces * call->batch * call->heads * call->queries;
    int64_t of_keys = pieces * call->batch * call->kv_heads * call->keys;
    int64_t blocks = (of_queries + of_keys + ROTATE_THREADS - 1) / ROTATE_THREADS;
    blocks = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
    attention_gradient_inverse_rope<TYPE, N><<<(unsigned)blocks, ROTATE_THREADS, 0, stream>>>(*call, of_queries, of_keys);
}

void attention_rotate_back(const attention_call *call, cudaStream_t stream) {
    bool is_bf16 = call->type == CUDA_DTYPE_BF16;
    if (call->is_aligned && call->head_dim % 16 == 0)
        is_bf16 ? launch<CUDA_DTYPE_BF16, 8>(call, stream)
                : launch<CUDA_DTYPE_F16, 8>(call, stream);
    else
        is_bf16 ? launch<CUDA_DTYPE_BF16, 1>(call, stream)
                : launch<CUDA_DTYPE_F16, 1>(call, stream);
}
