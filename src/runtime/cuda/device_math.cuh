/* device_math.cuh - what hand-written CUDA kernels share: conversions of element types to float,
 * vectorized loads and stores, warp and block reductions in a fixed order, division by a launch
 * constant. */
#ifndef RUNTIME_CUDA_DEVICE_MATH_CUH
#define RUNTIME_CUDA_DEVICE_MATH_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "runtime/cuda/cuda_call.h"

extern "C" {
#include "tensor/dtype.h"
}

typedef __nv_bfloat16 bf16;
typedef __half f16;

enum { WARP = 32, VECTOR_BYTES = 16 };

/* ---- element types ---- */

static __device__ __forceinline__ float to_float(float x) { return x; }
static __device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
static __device__ __forceinline__ float to_float(f16 x) { return __half2float(x); }

template <typename T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ f16 from_float<f16>(float x) { return __float2half_rn(x); }

/* One float of any type, where what is read is small: `type` is the same for the whole launch. */
static __device__ __forceinline__ float load_any(const void *data, int type, int64_t index) {
    if (type == CUDA_DTYPE_BF16)
        return to_float(((const bf16 *)data)[index]);
    if (type == CUDA_DTYPE_F16)
        return to_float(((const f16 *)data)[index]);
    return ((const float *)data)[index];
}

/* ---- vectors: N elements that one instruction moves; N times the size is at most 16 bytes ---- */

template <typename T, int N> struct alignas(sizeof(T) * N) vector_of { T at[N]; };

template <typename T, int N>
static __device__ __forceinline__ void load_floats(const T *from, float (&to)[N]) {
    const vector_of<T, N> packed = *(const vector_of<T, N> *)from;
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = to_float(packed.at[i]);
}

template <typename T, int N>
static __device__ __forceinline__ void store_floats(T *to, const float (&from)[N]) {
    vector_of<T, N> packed;
#pragma unroll
    for (int i = 0; i < N; i++)
        packed.at[i] = from_float<T>(from[i]);
    *(vector_of<T, N> *)to = packed;
}

/* Whether an address, and a stride of so many bytes, are multiples of 16 bytes. */
static inline bool is_aligned(const void *address, int64_t step_bytes) {
    return (((uint64_t)(uintptr_t)address | (uint64_t)step_bytes) & (VECTOR_BYTES - 1)) == 0;
}

static inline int element_bytes(int type) { return dtype_bytes((dtype)type); }

/* ---- reductions; every thread of the block gets the result ---- */

struct add_floats {
    static __device__ __forceinline__ float identity() { return 0.0f; }
    static __device__ __forceinline__ float join(float a, float b) { return a + b; }
};

/* Propagates NaN, as every framework does. */
struct larger_float {
    static __device__ __forceinline__ float identity() { return -INFINITY; }
    static __device__ __forceinline__ float join(float a, float b) {
        return a >= b || a != a ? a : b;
    }
};

template <typename HOW> static __device__ __forceinline__ float warp_reduce(float x) {
#pragma unroll
    for (int half = WARP / 2; half; half /= 2)
        x = HOW::join(x, __shfl_xor_sync(0xffffffffu, x, half));
    return x;
}

/* THREADS is that of the block, a multiple of 32 and at most 1024. `scratch` has 32 floats; it may
 * be used again after the next __syncthreads. */
template <typename HOW, int THREADS>
static __device__ __forceinline__ float block_reduce(float x, float *scratch) {
    x = warp_reduce<HOW>(x);
    if (threadIdx.x % WARP == 0)
        scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    int lane = (int)threadIdx.x % WARP;
    return warp_reduce<HOW>(lane < THREADS / WARP ? scratch[lane] : HOW::identity());
}

/* ---- division by a constant of the launch, of numbers below 2^31 ---- */

typedef struct fast_divisor {
    uint32_t divisor, magic, shift;
} fast_divisor;

static inline fast_divisor fast_divisor_of(uint32_t divisor) {
    uint32_t shift = 0;
    while ((1ull << shift) < divisor)
        shift++;
    uint64_t magic = ((1ull << 32) * ((1ull << shift) - divisor)) / divisor + 1;
    return {divisor, (uint32_t)magic, shift};
}

static __device__ __forceinline__ uint32_t fast_divide(uint32_t n, fast_divisor by) {
    return (__umulhi(n, by.magic) + n) >> by.shift;
}

/* ---- launches ---- */

static inline int64_t blocks_for(int64_t work, int64_t per_block) {
    return (work + per_block - 1) / per_block;
}

#endif
