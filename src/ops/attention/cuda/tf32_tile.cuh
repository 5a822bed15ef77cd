/* tf32_tile.cuh - tiles of f32 rows in shared memory, and products of them by one warp on tensor
 * cores, from sm_80 on.
 *
 * Tensor cores take tf32: of an f32 they read the upper 19 bits. MATH says what becomes of others:
 *   MATH_TF32    they are rounded off: a b is a product of 11 bits
 *   MATH_3TF32   x = big + small, both tf32: a b = big big + (small big + big small), 22 bits
 *
 * Which lane holds what of m16n8k8, with g = lane / 4 and t = lane % 4:
 *   A [16 x 8]   a0: row g, column t   a1: row g+8   a2: row g, column t+4   a3: row g+8
 *   B [8 x 8]    b0: column g, row t   b1: row t+4
 *   C [16 x 8]   c0, c1: row g, columns 2t, 2t+1   c2, c3: row g+8
 * Depth is taken 16 at a time, two instructions for each part. Where the order of the depth is free
 * it is chosen such that C is A of the next product as it stands: column t of A is then column 2t
 * of C, column t+4 is 2t+1, and b0 and b1 are rows 2t and 2t+1.
 *
 * Tensor cores cut off when they add, always towards 0, so that an error would grow with the number
 * of additions: every product is added up for one tile only, big and small parts apart, and what is
 * kept over many tiles is added by ordinary instructions, which round.
 *
 * Rows of DIM numbers lie DIM + 4 apart: the eight rows of 16 bytes that an ldmatrix reads at a
 * time, and what lanes read as B in the free order, are in different banks. */
#ifndef OPS_ATTENTION_CUDA_TF32_TILE_CUH
#define OPS_ATTENTION_CUDA_TF32_TILE_CUH

#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/mma.cuh"

enum { TILE_ROWS = 16, TILE_PAD = 4, TILE_PIECE = 4 }; /* TILE_PIECE: numbers in 16 bytes */
enum { MATH_TF32, MATH_3TF32 };

template <int DIM> __host__ __device__ constexpr int tile_floats(int rows) {
    return rows * (DIM + TILE_PAD);
}

/* blockIdx.x and threadIdx.x, read anew at each call: what follows from them at a kernel's end need
 * not be kept in registers through its loop. */
__device__ __forceinline__ int read_block(void) {
    int block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}
__device__ __forceinline__ int read_thread(void) {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A block's head, the first of its rows, and its split of what they go over. */
typedef struct block_place {
    int b, head, first, split;
} block_place;

/* Of a block that has QUERIES of them. The last queries have the most keys; they go first. */
template <int QUERIES>
__device__ __forceinline__ block_place find_queries(const attention_call &call, int block) {
    int heads = call.batch * call.heads, head = block % heads;
    int tiles = (call.queries + QUERIES - 1) / QUERIES;
    block_place place = {head / call.heads, head % call.heads,
                         (tiles - 1 - block / (heads * call.key_splits)) * QUERIES,
                         block / heads % call.key_splits};
    return place;
}
/* Of a block that has KEYS of them. The first keys are seen by the most queries; they go first. */
template <int KEYS>
__device__ __forceinline__ block_place find_keys(const attention_call &call, int block) {
    int heads = call.batch * call.kv_heads, head = block % heads;
    block_place place = {head / call.kv_heads, head % call.kv_heads,
                         block / (heads * call.query_splits) * KEYS,
                         block / heads % call.query_splits};
    return place;
}

/* ---- numbers to operands ---- */

/* Near the tf32 next to x, when the lower 13 bits are cut off afterwards: half of what is cut off
 * on average is added before. What is a tf32 already stays the same; infinity and NaN do too. */
__device__ __forceinline__ float nudge(float x) { return x * (1 + 0x1.715p-12f); }
__device__ __forceinline__ float cut(float x) {
    return __uint_as_float(__float_as_uint(x) & 0xffffe000u);
}

/* Two operands of the depth 8, COUNT numbers in all, as instructions take them. */
template <int MATH, int COUNT> struct operand_parts {
    uint32_t big[COUNT];
    uint32_t small[MATH == MATH_TF32 ? 1 : COUNT];
};

/* A is rounded when it is cut; B, which is taken apart more often, only where a product has few
 * terms (IS_ROUNDED), whose errors do not even out: what is lost is 2^-22 of a number on average,
 * not 0. */
template <bool IS_ROUNDED, int MATH, int COUNT>
__device__ __forceinline__ void take_apart(operand_parts<MATH, COUNT> *to, const float *x) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float big = MATH == MATH_TF32 || IS_ROUNDED ? nudge(x[i]) : x[i];
        if (MATH == MATH_3TF32) {
            big = cut(big);
            to->small[i] = __float_as_uint(x[i] - big);
        }
        to->big[i] = __float_as_uint(big);
    }
}
/* The heads of which B is rounded too. */
template <int DIM> __device__ constexpr bool has_few_terms(void) { return DIM <= 32; }

/* C += A B */
__device__ __forceinline__ void mma_16x8x8(float *c, const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
}

/* Sums of one tile, [16 x 8]; `small` is not there in MATH_TF32. */
template <int MATH> struct tile_sum {
    float big[4];
    float small[MATH == MATH_TF32 ? 1 : 4];
};
template <int MATH, int ROWS, int COLUMNS>
__device__ __forceinline__ void clear(tile_sum<MATH> (*sums)[COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS * 4; i++) {
        sums[i / 4 / COLUMNS][i / 4 % COLUMNS].big[i % 4] = 0;
        sums[i / 4 / COLUMNS][i / 4 % COLUMNS].small[MATH == MATH_TF32 ? 0 : i % 4] = 0;
    }
}
template <int MATH> __device__ __forceinline__ float total(const tile_sum<MATH> &sum, int e) {
    return MATH == MATH_TF32 ? sum.big[e] : sum.big[e] + sum.small[e];
}

/* sums[m][n] += a[m] b[n], of the depth 16. Instructions that add to the same sum follow each other
 * as far apart as possible: each waits for the one before. */
template <int MATH, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply(tile_sum<MATH> (*sums)[COLUMNS],
                                         const operand_parts<MATH, 8> *a,
                                         const operand_parts<MATH, 4> *b) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS; i++)
            mma_16x8x8(sums[i / COLUMNS][i % COLUMNS].big, a[i / COLUMNS].big + 4 * half,
                       b[i % COLUMNS].big + 2 * half);
        if (MATH == MATH_3TF32) {
#pragma unroll
            for (int i = 0; i < ROWS * COLUMNS; i++)
                mma_16x8x8(sums[i / COLUMNS][i % COLUMNS].small, a[i / COLUMNS].small + 4 * half,
                           b[i % COLUMNS].big + 2 * half);
#pragma unroll
            for (int i = 0; i < ROWS * COLUMNS; i++)
                mma_16x8x8(sums[i / COLUMNS][i % COLUMNS].small, a[i / COLUMNS].big + 4 * half,
                           b[i % COLUMNS].small + 2 * half);
        }
    }
}

/* ---- tiles ---- */

/* Rows [first, first + ROWS) of an operand that has `limit`, by all THREADS of a block. What it
 * does not have is 0. */
template <int ROWS, int DIM, int THREADS>
__device__ __forceinline__ void load_tile(float *tile, const float *from, int64_t stride, int first,
                                          int limit, int head_dim, int is_aligned) {
    constexpr int PIECES = DIM / TILE_PIECE;
    /* Of large heads nothing that follows from it is kept between two tiles. */
    int thread = DIM > 64 ? read_thread() : (int)threadIdx.x;
    if (is_aligned && THREADS % PIECES == 0) {
        /* A thread's pieces lie below each other. */
        constexpr int APART = THREADS / PIECES;
        int row = thread / PIECES, column = thread % PIECES * TILE_PIECE;
        int there = column < head_dim ? limit - first - row : 0;
        const float *source = from + (first + row) * stride + column;
        tile += row * (DIM + TILE_PAD) + column;
        /* Where nothing is read the address may lie anywhere. */
#pragma unroll
        for (int i = 0; i < ROWS; i += APART, source += APART * stride)
            if (ROWS % APART == 0 || i + row < ROWS)
                copy_async_16(tile + i * (DIM + TILE_PAD), source, i < there);
    } else if (is_aligned) {
#pragma unroll 1
        for (int i = thread; i < ROWS * PIECES; i += THREADS) {
            int row = i / PIECES, column = i % PIECES * TILE_PIECE;
            bool is_there = first + row < limit && column < head_dim;
            copy_async_16(tile + row * (DIM + TILE_PAD) + column,
                          from + (first + row) * stride + column, is_there);
        }
    } else {
#pragma unroll 1
        for (int i = thread; i < ROWS * DIM; i += THREADS) {
            int row = i / DIM, column = i % DIM;
            bool is_there = first + row < limit && column < head_dim;
            tile[row * (DIM + TILE_PAD) + column] =
                is_there ? from[(first + row) * stride + column] : 0;
        }
    }
}

/* Rows of a tile as A: 16 rows, columns d to d + 15. */
template <int DIM, int MATH>
__device__ __forceinline__ void load_left(operand_parts<MATH, 8> *to, const float *tile, int lane,
                                          int d) {
    int at = (lane & 15) * (DIM + TILE_PAD) + (lane >> 4) * TILE_PIECE + d;
    uint32_t bits[8];
    float x[8];
    ldmatrix_x4(bits, tile + at);
    ldmatrix_x4(bits + 4, tile + at + 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = __uint_as_float(bits[i]);
    take_apart<true>(to, x);
}

/* Tiles of C that are worked on together, so that instructions need not wait for each other. */
enum { TILES_AT_ONCE = 4 };

/* c[16 ROWS][COLUMNS] = a[16 ROWS][DIM] b[COLUMNS][DIM]^T; both tiles. */
template <int MATH, int DIM, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_rows(float (*c)[COLUMNS / 8][4], const float *a,
                                              const float *b) {
    constexpr int MOST = TILES_AT_ONCE / ROWS, TOGETHER = COLUMNS / 8 < MOST ? COLUMNS / 8 : MOST;
    /* A chain of additions, and as much of it unrolled as registers allow. */
    constexpr int CHAIN = DIM <= 96 ? DIM : 64, UNROLLED = DIM <= 96 ? CHAIN / 16 : 1;
    int lane = (int)threadIdx.x % 32;
    b += (lane & 7) * (DIM + TILE_PAD) + (lane >> 3) * TILE_PIECE;
#pragma unroll
    for (int begin = 0; begin < DIM; begin += CHAIN) {
        tile_sum<MATH> sums[COLUMNS / 8 / TOGETHER][ROWS][TOGETHER];
#pragma unroll
        for (int part = 0; part < COLUMNS / 8 / TOGETHER; part++)
            clear<MATH, ROWS, TOGETHER>(sums[part]);
#pragma unroll UNROLLED
        for (int d = begin; d < begin + CHAIN; d += 16) {
            operand_parts<MATH, 8> left[ROWS];
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                load_left<DIM, MATH>(&left[m], a + tile_floats<DIM>(m * TILE_ROWS), lane, d);
#pragma unroll
            for (int part = 0; part < COLUMNS / 8 / TOGETHER; part++) {
                operand_parts<MATH, 4> right[TOGETHER];
#pragma unroll
                for (int n = 0; n < TOGETHER; n++) {
                    uint32_t bits[4];
                    ldmatrix_x4(bits, b + tile_floats<DIM>((part * TOGETHER + n) * 8) + d);
                    float x[4] = {__uint_as_float(bits[0]), __uint_as_float(bits[1]),
                                  __uint_as_float(bits[2]), __uint_as_float(bits[3])};
                    take_apart<has_few_terms<DIM>()>(&right[n], x);
                }
                multiply<MATH, ROWS, TOGETHER>(sums[part], left, right);
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 2; i++) {
            int m = i / 4 / (COLUMNS / 8), n = i / 4 % (COLUMNS / 8), e = i % 4;
            float sum = total(sums[n / TOGETHER][m][n % TOGETHER], e);
            c[m][n][e] = begin == 0 ? sum : c[m][n][e] + sum;
        }
    }
}

/* How a lane's numbers of a sum lie in rows as wide as a head: the columns of WIDE neighbouring C
 * tiles alternate, so that B is read WIDE and the sum written 2 WIDE numbers at a time. Two at a
 * time is for whoever changes numbers after reading them; otherwise pairs would have to be moved
 * apart, for an instruction wants the rows 2t and 2t+1 of one column side by side. */
template <int MATH> __host__ __device__ constexpr int wide(void) {
    return MATH == MATH_TF32 ? 2 : 1;
}

/* c[16 ROWS][DIM] = shrink c + a[16 ROWS][DEPTH] b[DEPTH][DIM]; a in registers as C has it, b a
 * tile; shrink has a factor for each of a lane's rows, and is 1 when it is NULL. */
template <int MATH, int DIM, int ROWS, int DEPTH>
__device__ __forceinline__ void multiply_columns(float (*c)[DIM / 8][4],
                                                 const float (*a)[DEPTH / 8][4], const float *b,
                                                 const float (*shrink)[2]) {
    constexpr int WIDE = wide<MATH>();
    constexpr int TOGETHER = DIM <= 64 ? TILES_AT_ONCE / ROWS : DIM <= 96 ? 2 : WIDE;
    operand_parts<MATH, 8> left[DEPTH / 16][ROWS];
    int lane = (int)threadIdx.x % 32;
    b += lane % 4 * 2 * (DIM + TILE_PAD) + lane / 4 * WIDE;
#pragma unroll
    for (int m = 0; m < ROWS; m++)
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            const float *low = a[m][2 * k], *high = a[m][2 * k + 1];
            float x[8] = {low[0], low[2], low[1], low[3], high[0], high[2], high[1], high[3]};
            take_apart<true>(&left[k][m], x);
        }
#pragma unroll
    for (int part = 0; part < DIM / 8; part += TOGETHER) {
        tile_sum<MATH> sums[ROWS][TOGETHER];
        clear<MATH, ROWS, TOGETHER>(sums);
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) {
            operand_parts<MATH, 4> right[TOGETHER];
#pragma unroll
            for (int n = 0; n < TOGETHER; n += WIDE) {
                float x[WIDE][4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = k * 16 + i / 2 * 8 + i % 2;
                    const float *at = b + tile_floats<DIM>(row) + (part + n) * 8;
                    if (WIDE == 2) {
                        float2 two = *(const float2 *)at;
                        x[0][i] = two.x;
                        x[WIDE - 1][i] = two.y;
                    } else {
                        x[0][i] = *at;
                    }
                }
#pragma unroll
                for (int i = 0; i < WIDE; i++)
                    take_apart<has_few_terms<DIM>()>(&right[n + i], x[i]);
            }
            multiply<MATH, ROWS, TOGETHER>(sums, left[k], right);
        }
#pragma unroll
        for (int i = 0; i < ROWS * TOGETHER * 4; i++) {
            int m = i / 4 / TOGETHER, n = i / 4 % TOGETHER, e = i % 4;
            float *to = &c[m][part + n][e];
            *to = (shrink ? *to * shrink[m][e / 2] : *to) + total(sums[m][n], e);
        }
    }
}

/* A row of a sum, g or g+8, times `factor`, to a row of an operand. */
template <int MATH, int DIM>
__device__ __forceinline__ void store_row(float *row, const float (*c)[4], int half, float factor,
                                          int head_dim, int is_aligned) {
    constexpr int WIDE = wide<MATH>();
    int first = (int)threadIdx.x % 4 * 2 * WIDE;
#pragma unroll
    for (int part = 0; part < DIM / 8; part += WIDE) {
        float x[2 * WIDE];
#pragma unroll
        for (int i = 0; i < 2 * WIDE; i++)
            x[i] = c[part + i % WIDE][half * 2 + i / WIDE] * factor;
        int column = part * 8 + first;
        if (is_aligned) {
            if (column < head_dim) {
                if (WIDE == 2)
                    *(float4 *)(row + column) =
                        make_float4(x[0], x[1], x[2 * WIDE - 2], x[2 * WIDE - 1]);
                else
                    *(float2 *)(row + column) = make_float2(x[0], x[1]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2 * WIDE; i++)
                if (column + i < head_dim)
                    row[column + i] = x[i];
        }
    }
}

#endif
