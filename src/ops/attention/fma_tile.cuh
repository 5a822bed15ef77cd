/* fma_tile.cuh - tiles of f32 rows in shared memory, and products of them by 256 threads.
 *
 * Threads stand in a square of 16 x 16. Thread (y, x) has rows y, y+16, ... of a product and, of a
 * tile of scores, columns x, x+16, ...; of a tile as wide as a head, columns 4x..4x+3 of every 64.
 * So the 16 threads of a row are half a warp. Rows lie 4 numbers further apart than they are long:
 * the 16-byte pieces that threads read together are in different banks. */
#ifndef OPS_ATTENTION_FMA_TILE_CUH
#define OPS_ATTENTION_FMA_TILE_CUH

#include <stdint.h>

enum { SQUARE = 16, FMA_THREADS = SQUARE * SQUARE, FMA_PAD = 4 };

__device__ __forceinline__ int thread_y(void) { return (int)threadIdx.x / SQUARE; }
__device__ __forceinline__ int thread_x(void) { return (int)threadIdx.x % SQUARE; }

/* Rows [first, first + ROWS) of an operand that has `limit`; what it does not have is 0. */
template <int ROWS, int DIM>
__device__ __forceinline__ void load_floats(float *tile, const float *from, int64_t stride,
                                            int first, int limit, int head_dim) {
    for (int i = (int)threadIdx.x; i < ROWS * DIM; i += FMA_THREADS) {
        int row = i / DIM, column = i % DIM;
        bool is_there = first + row < limit && column < head_dim;
        tile[row * (DIM + FMA_PAD) + column] = is_there ? from[(first + row) * stride + column] : 0;
    }
}

/* c[ROWS][COLUMNS] = a[ROWS][DIM] b[COLUMNS][DIM]^T */
template <int ROWS, int COLUMNS, int DIM>
__device__ __forceinline__ void multiply_float_rows(float (*c)[COLUMNS / SQUARE], const float *a,
                                                    const float *b) {
    a += thread_y() * (DIM + FMA_PAD);
    b += thread_x() * (DIM + FMA_PAD);
#pragma unroll
    for (int i = 0; i < ROWS / SQUARE; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS / SQUARE; j++)
            c[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < DIM; d += 4) {
        float4 right[COLUMNS / SQUARE];
#pragma unroll
        for (int j = 0; j < COLUMNS / SQUARE; j++)
            right[j] = *(const float4 *)(b + j * SQUARE * (DIM + FMA_PAD) + d);
#pragma unroll
        for (int i = 0; i < ROWS / SQUARE; i++) {
            float4 left = *(const float4 *)(a + i * SQUARE * (DIM + FMA_PAD) + d);
#pragma unroll
            for (int j = 0; j < COLUMNS / SQUARE; j++) {
                c[i][j] += left.x * right[j].x;
                c[i][j] += left.y * right[j].y;
                c[i][j] += left.z * right[j].z;
                c[i][j] += left.w * right[j].w;
            }
        }
    }
}

/* c[ROWS][DIM] += a[ROWS][DEPTH] b[DEPTH][DIM] */
template <int ROWS, int DEPTH, int DIM>
__device__ __forceinline__ void multiply_float_columns(float4 (*c)[DIM / 64], const float *a,
                                                       const float *b) {
    a += thread_y() * (DEPTH + FMA_PAD);
    b += thread_x() * 4;
#pragma unroll 4
    for (int k = 0; k < DEPTH; k++) {
        float left[ROWS / SQUARE];
#pragma unroll
        for (int i = 0; i < ROWS / SQUARE; i++)
            left[i] = a[i * SQUARE * (DEPTH + FMA_PAD) + k];
#pragma unroll
        for (int j = 0; j < DIM / 64; j++) {
            float4 right = *(const float4 *)(b + k * (DIM + FMA_PAD) + j * 64);
#pragma unroll
            for (int i = 0; i < ROWS / SQUARE; i++) {
                c[i][j].x += left[i] * right.x;
                c[i][j].y += left[i] * right.y;
                c[i][j].z += left[i] * right.z;
                c[i][j].w += left[i] * right.w;
            }
        }
    }
}

/* This thread's part of row i, times `factor`, to a row of an operand. */
template <int DIM>
__device__ __forceinline__ void store_float_row(const float4 *c, float factor, float *to,
                                                int head_dim) {
#pragma unroll
    for (int j = 0; j < DIM / 64; j++) {
        const float part[4] = {c[j].x, c[j].y, c[j].z, c[j].w};
        int column = j * 64 + thread_x() * 4;
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (column + e < head_dim)
                to[column + e] = part[e] * factor;
    }
}

/* Over the 16 threads of a row. */
__device__ __forceinline__ float square_max(float x) {
    for (int apart = SQUARE / 2; apart; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}
__device__ __forceinline__ float square_sum(float x) {
    for (int apart = SQUARE / 2; apart; apart /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

#endif
