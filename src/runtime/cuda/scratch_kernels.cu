/* scratch_kernels.cu - kernels for tuning: random operands, a delay, a copy. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime/cuda/cuda_call.h"

extern "C" {
void cuda_fill_random(void *to, int64_t elements, int type, unsigned seed, cudaStream_t stream);
void cuda_hold(int64_t ns, cudaStream_t stream);
void cuda_copy_blocks(void *to, const void *from, int64_t bytes, cudaStream_t stream);
}

enum { THREADS = 256, MOST_BLOCKS = 4096 };

static int blocks_for(int64_t items) {
    int64_t blocks = (items + THREADS - 1) / THREADS;
    return blocks < 1 ? 1 : blocks > MOST_BLOCKS ? (int)MOST_BLOCKS : (int)blocks;
}

/* splitmix64: random enough that the multipliers draw as much power as on real operands. */
__device__ static float random_number(uint64_t index) {
    uint64_t z = index * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)(int32_t)(z >> 32) * 0x1p-31f;
}

__device__ static void store(float *to, float x) { *to = x; }
__device__ static void store(__nv_bfloat16 *to, float x) { *to = __float2bfloat16(x); }
__device__ static void store(__half *to, float x) { *to = __float2half(x); }

template <typename T> __global__ static void fill_random(T *to, int64_t elements, uint64_t seed) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step)
        store(&to[i], random_number((uint64_t)i ^ seed << 40));
}

void cuda_fill_random(void *to, int64_t elements, int type, unsigned seed, cudaStream_t stream) {
    int blocks = blocks_for(elements);
    if (type == CUDA_DTYPE_BF16)
        fill_random<<<blocks, THREADS, 0, stream>>>((__nv_bfloat16 *)to, elements, seed);
    else if (type == CUDA_DTYPE_F16)
        fill_random<<<blocks, THREADS, 0, stream>>>((__half *)to, elements, seed);
    else
        fill_random<<<blocks, THREADS, 0, stream>>>((float *)to, elements, seed);
}

__device__ static uint64_t now_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ static void hold(uint64_t ns) {
    uint64_t begin = now_ns();
    while (now_ns() - begin < ns)
        __nanosleep(500);
}

void cuda_hold(int64_t ns, cudaStream_t stream) { hold<<<1, 1, 0, stream>>>((uint64_t)ns); }

__global__ static void copy_blocks(uint4 *to, const uint4 *from, int64_t count) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
        to[i] = a;
        to[i + step] = b;
        to[i + 2 * step] = c;
        to[i + 3 * step] = d;
    }
    for (; i < count; i += step)
        to[i] = from[i];
}

void cuda_copy_blocks(void *to, const void *from, int64_t bytes, cudaStream_t stream) {
    copy_blocks<<<MOST_BLOCKS, THREADS, 0, stream>>>((uint4 *)to, (const uint4 *)from, bytes / 16);
}
