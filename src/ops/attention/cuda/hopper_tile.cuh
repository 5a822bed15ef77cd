/* hopper_tile.cuh - what attention's kernels for sm_90a share above single instructions. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_TILE_CUH
#define OPS_ATTENTION_CUDA_HOPPER_TILE_CUH

#include "ops/attention/cuda/hopper.cuh"

/* Built for other chips only, the kernels are empty and use next to no registers. */
template <typename KERNEL> static int is_compiled(KERNEL kernel) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.numRegs > 64;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* A place in a ring that is gone round and round. */
typedef struct ring_place {
    int stage, phase;
} ring_place;
template <int STAGES> __device__ __forceinline__ void step_ring(ring_place *place) {
    if (++place->stage == STAGES) {
        place->stage = 0;
        place->phase ^= 1;
    }
}

template <int COUNT> __device__ __forceinline__ void clear(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        d[i] = 0;
    hold(d); /* here, not between products that are under way */
}

template <int TYPE, int COUNT>
__device__ __forceinline__ void pack_all(uint32_t (&p)[COUNT / 2], const float (&s)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
        p[i] = pack<TYPE>(s[2 * i], s[2 * i + 1]);
}

/* P^T from scores of keys by queries; lse: to base 2, from the lane's first query on. */
template <int COUNT>
__device__ __forceinline__ void weigh_transposed(float (&s)[COUNT], const float *lse,
                                                 float factor) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float2 sum = *(const float2 *)(lse + 2 * i);
        s[i] = exp2_fast(s[i] * factor - sum.x);
        s[i + 1] = exp2_fast(s[i + 1] * factor - sum.y);
        s[i + 2] = exp2_fast(s[i + 2] * factor - sum.x);
        s[i + 3] = exp2_fast(s[i + 3] * factor - sum.y);
    }
}

/* Four lanes that have the words of four blocks by column give one another the words of one block
 * each: lane t's word j becomes lane j's word t. */
__device__ __forceinline__ void transpose_words(uint32_t *w) {
    int lane = (int)threadIdx.x % 4;
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & apart)) {
                bool is_upper = lane & apart;
                uint32_t given = is_upper ? w[i] : w[i + apart];
                uint32_t taken = __shfl_xor_sync(0xffffffffu, given, apart);
                if (is_upper)
                    w[i] = taken;
                else
                    w[i + apart] = taken;
            }
}

/* What a lane's two rows of an accumulator were rotated by, for so many blocks of 8 columns of the
 * first half of a row (those of the second have the same): cos and sin, of the first row's two
 * columns and of the second's. In memory the lanes of a warp follow one another: float4
 * [rows / 16][half / 8][2][32]. */
template <int BLOCKS> struct row_angles { float4 cosine[BLOCKS], sine[BLOCKS]; };

/* Blocks from `first` on; row: the lane's first. They stay before a wait for products that they are
 * written before. */
template <int HALF, int BLOCKS>
__device__ __forceinline__ void load_angles(row_angles<BLOCKS> *turns, const float4 *angles, int row,
                                           int first) {
    const float4 *from =
        angles + ((int64_t)(row / 16) * (HALF / 8) + first) * 64 + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
        float4 *x = i % 2 ? &turns->sine[i / 2] : &turns->cosine[i / 2];
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x->x), "=f"(x->y), "=f"(x->z), "=f"(x->w)
                     : "l"(from + 32 * i));
    }
}

/* Rotates these blocks of an accumulator back, and the blocks half a row after them. */
template <int COUNT, int BLOCKS>
__device__ __forceinline__ void rotate_back(float (&d)[COUNT], const row_angles<BLOCKS> &turns,
                                          int first) {
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        float4 c = turns.cosine[i], s = turns.sine[i];
        float *low = d + 4 * (first + i), *high = low + COUNT / 2;
        float4 a = make_float4(low[0], low[1], low[2], low[3]);
        float4 b = make_float4(high[0], high[1], high[2], high[3]);
        low[0] = a.x * c.x + b.x * s.x;
        low[1] = a.y * c.y + b.y * s.y;
        low[2] = a.z * c.z + b.z * s.z;
        low[3] = a.w * c.w + b.w * s.w;
        high[0] = b.x * c.x - a.x * s.x;
        high[1] = b.y * c.y - a.y * s.y;
        high[2] = b.z * c.z - a.z * s.z;
        high[3] = b.w * c.w - a.w * s.w;
    }
}

/* All of an accumulator, some blocks at a time: for kernels without registers to have angles in
 * before the products are done. */
template <int COUNT>
__device__ __forceinline__ void rotate_rows_back(float (&d)[COUNT], const float4 *angles, int row) {
    constexpr int BLOCKS = COUNT / 8, PIECE = BLOCKS % 4 ? BLOCKS : 4;
#pragma unroll
    for (int block = 0; block < BLOCKS; block += PIECE) {
        row_angles<PIECE> turns;
        load_angles<COUNT>(&turns, angles, row, block);
        rotate_back(d, turns, block);
    }
}

/* An accumulator's rows to memory, 16 bytes at a time; row: the lane's first. */
template <int TYPE, int COUNT>
__device__ __forceinline__ void store_accumulator(const float (&o)[COUNT], const float *by,
                                                  uint16_t *to, int64_t stride, int row, int limit,
                                                  int head_dim) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int block = 0; block < COUNT / 4; block += 4) {
            uint32_t w[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int i = 4 * (block + j) + 2 * r;
                w[j] = i < COUNT ? pack<TYPE>(o[i < COUNT ? i : 0] * by[r],
                                              o[i < COUNT ? i + 1 : 0] * by[r])
                                 : 0;
            }
            transpose_words(w);
            int column = 8 * (block + (int)threadIdx.x % 4);
            if (row + 8 * r < limit && column < head_dim)
                *(uint4 *)(to + (row + 8 * r) * stride + column) =
                    make_uint4(w[0], w[1], w[2], w[3]);
        }
}

/* An accumulator's rows to a tile of ROWS rows in shared memory; to: the warp's first row. */
template <int TYPE, int ROWS, int COUNT>
__device__ __forceinline__ void write_accumulator(const float (&o)[COUNT], const float *by,
                                                  uint32_t to) {
    static_assert(COUNT % 8 == 0, "two blocks at a time");
    uint32_t lane = threadIdx.x % 32;
    uint32_t row = to + lane % 16 * SLAB_ROW_BYTES, piece = (lane / 16 ^ lane % 8) * 16;
#pragma unroll
    for (int block = 0; block < COUNT / 4; block += 2) {
        const float *d = o + 4 * block;
        uint32_t packed[4] = {
            pack<TYPE>(d[0] * by[0], d[1] * by[0]), pack<TYPE>(d[2] * by[1], d[3] * by[1]),
            pack<TYPE>(d[4] * by[0], d[5] * by[0]), pack<TYPE>(d[6] * by[1], d[7] * by[1])};
        stmatrix_x4(row + block / 8 * ROWS * SLAB_ROW_BYTES + (piece ^ block % 8 * 16), packed);
    }
}

#endif
#endif
