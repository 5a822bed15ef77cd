/* cross_entropy_rows.cuh - the arithmetic of one row of logits by one thread block, for the ops
 * that have logits of their own.
 *
 * In f32 whatever the logits' type. A row may begin at any element: unaligned elements before its
 * first and behind its last 16 bytes are processed one by one. Where logits are f32, exponentials
 * are the library's and the threads' sums are combined in double: a log-sum-exp is right to the
 * last bit or two. Logits in a low type have a larger error than the fast exponential. */
#ifndef OPS_CROSS_ENTROPY_ROWS_CUH
#define OPS_CROSS_ENTROPY_ROWS_CUH

#include "runtime/cuda/device_math.cuh"

enum { CROSS_ENTROPY_THREADS = 256 };

/* The type in which the threads' sums are combined. */
template <typename T> struct joined_sum { typedef float type; };
template <> struct joined_sum<float> { typedef double type; };

/* sum is that of exp(x - largest). */
template <typename SUM> struct row_sums {
    float largest;
    SUM sum;
};

/* The logarithm of the sum of exponentials, relative to a number near the largest. */
template <typename SUM>
static __device__ __forceinline__ float log_sum_exp_above(const row_sums<SUM> &r, float base) {
    return (float)((SUM)r.largest - (SUM)base + log(r.sum));
}

template <typename T> static __device__ __forceinline__ float row_exp(float x) {
    return sizeof(T) == sizeof(float) ? expf(x) : __expf(x);
}

/* Elements before the first that lies on 16 bytes. */
template <typename T> static __device__ __forceinline__ int64_t row_head(const T *row, int64_t n) {
    int64_t head = (int64_t)((0 - (uintptr_t)row) % VECTOR_BYTES / sizeof(T));
    return head < n ? head : n;
}

/* Online softmax: when a larger element is found, the sum so far is rescaled to it. */
template <typename T, int N>
static __device__ __forceinline__ void fold(const float (&x)[N], row_sums<float> *r) {
    float largest = r->largest, sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
        largest = fmaxf(largest, x[i]);
#pragma unroll
    for (int i = 0; i < N; i++)
        sum += row_exp<T>(x[i] - largest);
    r->sum = r->sum * row_exp<T>(r->largest - largest) + sum;
    r->largest = largest;
}

/* Every thread of the block gets the sum; `scratch` has 32 of them. */
template <typename SUM> static __device__ __forceinline__ SUM join_sums(SUM x, SUM *scratch) {
#pragma unroll
    for (int half = WARP / 2; half; half /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, half);
    if (threadIdx.x % WARP == 0)
        scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < CROSS_ENTROPY_THREADS / WARP; i++)
        x += scratch[i];
    return x;
}

/* Every thread of the block gets the row's sums. All call it, and once. */
template <typename T>
static __device__ row_sums<typename joined_sum<T>::type> cross_entropy_row_sums(const T *row,
                                                                                int64_t n) {
    enum { N = VECTOR_BYTES / (int)sizeof(T), THREADS = CROSS_ENTROPY_THREADS, IN_FLIGHT = 4 };
    typedef typename joined_sum<T>::type SUM;
    __shared__ float maxima[WARP];
    __shared__ SUM sums[WARP];
    row_sums<float> r = {-FLT_MAX, 0}; /* finite, so that logits of -infinity count as nothing */
    int64_t head = row_head(row, n), vectors = (n - head) / N, tail = head + vectors * N;
    for (int64_t first = threadIdx.x; first < vectors; first += IN_FLIGHT * THREADS) {
        float x[IN_FLIGHT][N];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (first + k * THREADS < vectors)
                load_floats<T, N>(row + head + (first + k * THREADS) * N, x[k]);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (first + k * THREADS < vectors)
                fold<T, N>(x[k], &r);
    }
    for (int64_t i = threadIdx.x; i < head + (n - tail); i += THREADS) {
        const float x[1] = {to_float(row[i < head ? i : tail + i - head])};
        fold<T, 1>(x, &r);
    }
    float largest = block_reduce<larger_float, THREADS>(r.largest, maxima);
    SUM scaled = (SUM)r.sum * (SUM)row_exp<T>(r.largest - largest);
    return {largest, join_sums<SUM>(scaled, sums)};
}

/* Of one logit. Not p * dy - dy: where p is near 1 that would cancel. */
template <typename T>
static __device__ __forceinline__ float logit_gradient(float x, bool is_target, float shift,
                                                       float factor, float dy) {
    return (row_exp<T>(x - shift) * factor - (is_target ? 1.0f : 0.0f)) * dy;
}

/* (softmax(row) - onehot(target)) * dy, softmax being factor * exp(x - shift). `out` may be the
 * row. */
template <typename T>
static __device__ void cross_entropy_row_gradient(const T *row, int64_t n, int64_t target,
                                                  float shift, float factor, float dy, T *out) {
    enum { N = VECTOR_BYTES / (int)sizeof(T), THREADS = CROSS_ENTROPY_THREADS };
    bool is_alike = ((uintptr_t)row - (uintptr_t)out) % VECTOR_BYTES == 0;
    int64_t head = is_alike ? row_head(row, n) : n, vectors = (n - head) / N;
    int64_t tail = head + vectors * N;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < vectors; i += THREADS) {
        int64_t first = head + i * N;
        float x[N];
        load_floats<T, N>(row + first, x);
#pragma unroll
        for (int j = 0; j < N; j++)
            x[j] = logit_gradient<T>(x[j], first + j == target, shift, factor, dy);
        store_floats<T, N>(out + first, x);
    }
    for (int64_t i = threadIdx.x; i < head + (n - tail); i += THREADS) {
        int64_t at = i < head ? i : tail + i - head;
        out[at] =
            from_float<T>(logit_gradient<T>(to_float(row[at]), at == target, shift, factor, dy));
    }
}

#endif
