/* mma.cuh - the instructions attention on tensor cores is written in, from sm_80 on: one function
 * each. 16-bit numbers travel as raw bits; TYPE is CUDA_DTYPE_BF16 or CUDA_DTYPE_F16.
 *
 * Which lane holds what of m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), with
 * g = lane / 4 and t = lane % 4, two numbers in each register:
 *   A [16 x 16]  a0: row g, columns 2t, 2t+1   a1: row g+8   a2: row g, columns 2t+8, +9   a3: row
 * g+8 B [16 x 8]   b0: column g, rows 2t, 2t+1   b1: rows 2t+8, 2t+9 C [16 x 8]   c0, c1: row g,
 * columns 2t, 2t+1   c2, c3: row g+8 */
#ifndef OPS_ATTENTION_CUDA_MMA_CUH
#define OPS_ATTENTION_CUDA_MMA_CUH

#include <stdint.h>

#include "runtime/cuda/cuda_call.h"

/* C += A B */
template <int TYPE>
__device__ __forceinline__ void mma_16x8x16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    if (TYPE == CUDA_DTYPE_BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8 and gets, of each
 * matrix, row g, columns 2t and 2t+1; transposed: rows 2t and 2t+1 of column g. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t *r, const void *row) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t *r, const void *row) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* 16 bytes to shared memory in the background; zeros when there is nothing to read. */
__device__ __forceinline__ void copy_async_16(void *shared, const void *global, bool is_there) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    int bytes = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_async_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until at most LEFT groups are under way. */
template <int LEFT> __device__ __forceinline__ void copy_async_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* 2^x; 0 of -infinity. */
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two numbers rounded to nearest even, the first in the low half. */
template <int TYPE> __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t both;
    if (TYPE == CUDA_DTYPE_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

template <int TYPE> __device__ __forceinline__ float unpack(uint16_t bits) {
    float number;
    if (TYPE == CUDA_DTYPE_BF16)
        return __uint_as_float((uint32_t)bits << 16);
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
    return number;
}

template <int TYPE> __device__ __forceinline__ float2 unpack_both(uint32_t both) {
    if (TYPE == CUDA_DTYPE_BF16)
        return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
    return make_float2(unpack<TYPE>((uint16_t)both), unpack<TYPE>((uint16_t)(both >> 16)));
}

/* Over the four lanes that hold a row of C. */
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Hides what a lane's rows of C do not see, scores of 16 queries: keys from `limit` on. */
template <int KEYS>
__device__ __forceinline__ void hide(float (*s)[4], int first_key, const int *limit) {
    int column = first_key + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (column + j * 8 + (e & 1) >= limit[e >> 1])
                s[j][e] = -INFINITY;
}

#endif
