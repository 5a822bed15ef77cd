/* mma_tile.cuh - tiles of 16-bit rows in shared memory, and products of them by one warp.
 *
 * Rows of DIM numbers lie DIM + 8 apart: an odd number of 16-byte pieces for every DIM that is a
 * multiple of 16, so that the eight rows an ldmatrix reads at a time are in different banks. What
 * an operand does not have (rows beyond its end, a head smaller than DIM) is 0. */
#ifndef OPS_ATTENTION_CUDA_MMA_TILE_CUH
#define OPS_ATTENTION_CUDA_MMA_TILE_CUH

#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/mma.cuh"

enum { MMA_ROWS = 16, MMA_PAD = 8, PIECE = 8 }; /* PIECE: numbers in 16 bytes */

template <int DIM> __host__ __device__ constexpr int tile_pitch(void) { return DIM + MMA_PAD; }
template <int DIM> __host__ __device__ constexpr int tile_size(int rows) {
    return rows * tile_pitch<DIM>();
}

/* Rows [first, first + ROWS) of an operand that has `limit`, by all THREADS of a block. */
template <int ROWS, int DIM, int THREADS>
__device__ __forceinline__ void load_tile(uint16_t *tile, const uint16_t *from, int64_t stride,
                                          int first, int limit, int head_dim, int is_aligned) {
    constexpr int PIECES = DIM / PIECE;
    int thread = (int)threadIdx.x;
    if (is_aligned && THREADS % PIECES == 0) {
        /* A thread's pieces lie below each other. */
        constexpr int APART = THREADS / PIECES;
        int row = thread / PIECES, column = thread % PIECES * PIECE;
        int there = column < head_dim ? limit - first - row : 0;
        const uint16_t *source = from + (first + row) * stride + column;
        tile += row * tile_pitch<DIM>() + column;
        /* Where nothing is read the address may lie anywhere. */
#pragma unroll
        for (int i = 0; i < ROWS; i += APART, source += APART * stride)
            if (ROWS % APART == 0 || i + row < ROWS)
                copy_async_16(tile + i * tile_pitch<DIM>(), source, i < there);
    } else if (is_aligned) {
        constexpr int UNROLLED = DIM <= 128 ? ROWS : 1; /* of large heads registers are short */
#pragma unroll UNROLLED
        for (int i = 0; i < ROWS * PIECES; i += THREADS) {
            int row = (i + thread) / PIECES, column = (i + thread) % PIECES * PIECE;
            if (ROWS * PIECES % THREADS == 0 || row < ROWS)
                copy_async_16(tile + row * tile_pitch<DIM>() + column,
                              from + (first + row) * stride + column,
                              first + row < limit && column < head_dim);
        }
    } else {
#pragma unroll 1
        for (int i = thread; i < ROWS * DIM; i += THREADS) {
            int row = i / DIM, column = i % DIM;
            bool is_there = first + row < limit && column < head_dim;
            tile[row * tile_pitch<DIM>() + column] =
                is_there ? from[(first + row) * stride + column] : (uint16_t)0;
        }
    }
}

/* Rows of a tile back to an operand, by one warp. */
template <int DIM>
__device__ __forceinline__ void store_rows(const uint16_t *tile, uint16_t *to, int64_t stride,
                                           int first, int count, int limit, int head_dim,
                                           int is_aligned) {
    constexpr int PIECES = DIM / PIECE;
    for (int i = (int)threadIdx.x % 32; i < count * PIECES; i += 32) {
        int row = i / PIECES, column = i % PIECES * PIECE;
        if (first + row >= limit || column >= head_dim)
            continue;
        const uint16_t *from = tile + row * tile_pitch<DIM>() + column;
        uint16_t *target = to + (first + row) * stride + column;
        if (is_aligned) {
            *(uint4 *)target = *(const uint4 *)from;
        } else {
            for (int j = 0; j < PIECE && column + j < head_dim; j++)
                target[j] = from[j];
        }
    }
}

/* Where a lane's row of an A tile, or of a B tile to be transposed, begins. */
template <int DIM> __device__ __forceinline__ int lane_row_by_16(void) {
    int lane = (int)threadIdx.x % 32;
    return (lane & 15) * tile_pitch<DIM>() + (lane >> 4) * PIECE;
}
/* The same for B tiles whose rows are B's columns. */
template <int DIM> __device__ __forceinline__ int lane_row_by_8(void) {
    int lane = (int)threadIdx.x % 32;
    return ((lane & 7) + (lane >> 4) * 8) * tile_pitch<DIM>() + (lane >> 3 & 1) * PIECE;
}

/* c[16][COLUMNS] = a[16][DIM] b[COLUMNS][DIM]^T; both tiles. */
template <int TYPE, int DIM, int COLUMNS>
__device__ __forceinline__ void multiply_rows(float (*c)[4], const uint16_t *a, const uint16_t *b) {
    for (int i = 0; i < COLUMNS / 8; i++)
        c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
    a += lane_row_by_16<DIM>();
    b += lane_row_by_8<DIM>();
#pragma unroll
    for (int d = 0; d < DIM; d += 16) {
        uint32_t left[4];
        ldmatrix_x4(left, a + d);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 16) {
            uint32_t right[4];
            ldmatrix_x4(right, b + j * tile_pitch<DIM>() + d);
            mma_16x8x16<TYPE>(c[j / 8], left, right[0], right[1]);
            mma_16x8x16<TYPE>(c[j / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* c[16][COLUMNS] += a[16][DEPTH] b[DEPTH][first column ...]; a in registers as C has it. */
template <int TYPE, int DIM, int DEPTH, int COLUMNS>
__device__ __forceinline__ void multiply_columns(float (*c)[4], const float (*a)[4],
                                                 const uint16_t *b) {
    b += lane_row_by_16<DIM>();
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        const float *low = a[k / 8], *high = a[k / 8 + 1];
        uint32_t left[4] = {pack<TYPE>(low[0], low[1]), pack<TYPE>(low[2], low[3]),
                            pack<TYPE>(high[0], high[1]), pack<TYPE>(high[2], high[3])};
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 16) {
            uint32_t right[4];
            ldmatrix_x4_transposed(right, b + k * tile_pitch<DIM>() + j);
            mma_16x8x16<TYPE>(c[j / 8], left, right[0], right[1]);
            mma_16x8x16<TYPE>(c[j / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* C's 16 rows, rows g and g+8 times `low` and `high`, rounded into a tile. */
template <int TYPE, int DIM, int COLUMNS>
__device__ __forceinline__ void round_to_tile(uint16_t *tile, const float (*c)[4], float low,
                                              float high) {
    int lane = (int)threadIdx.x % 32;
    uint16_t *to = tile + lane / 4 * tile_pitch<DIM>() + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) {
        *(uint32_t *)(to + j * 8) = pack<TYPE>(c[j][0] * low, c[j][1] * low);
        *(uint32_t *)(to + 8 * tile_pitch<DIM>() + j * 8) =
            pack<TYPE>(c[j][2] * high, c[j][3] * high);
    }
}

/* The same to rows of the workspace, f32 and as wide as they are apart: from row `first` and column
 * `part` on. */
template <int COLUMNS>
__device__ __forceinline__ void store_sums(const attention_rows &to, int b, int head, int first,
                                           int limit, int part, const float (*c)[4], float low,
                                           float high) {
    int lane = (int)threadIdx.x % 32, column = part + lane % 4 * 2, columns = (int)to.row;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = first + lane / 4 + r * 8;
        float factor = r ? high : low;
        float *at = rows_of<float>(to, b, head) + row * to.row + column;
        if (row >= limit)
            break;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++)
            if (column + j * 8 < columns)
                *(float2 *)(at + j * 8) =
                    make_float2(c[j][2 * r] * factor, c[j][2 * r + 1] * factor);
    }
}

#endif
