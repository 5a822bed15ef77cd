/* hopper.cuh - the instructions of sm_90a that attention is written in, one function each: bulk
 * tensor copies (TMA), barriers in shared memory, products of a warpgroup (wgmma).
 *
 * Tiles are slabs of 64 columns of 16-bit numbers: rows of 128 bytes, one after the other, their
 * 16-byte pieces exchanged the way CU_TENSOR_MAP_SWIZZLE_128B does it (piece p of row r lies where
 * piece p ^ r % 8 would). A slab begins at a multiple of 1024 bytes. Both products read it:
 *   as rows     what is summed over lies along the row (Q K^T)
 *   as columns  what is summed over are the rows (P V: sums over keys)
 *
 * The accumulator of m64nN, four warps with 16 rows each: warp w's lane (g = lane / 4, t = lane %
 * 4) has d[4j + 0, 1]: row 16w + g, columns 8j + 2t, 8j + 2t + 1, and d[4j + 2, 3]: row 16w + g
 * + 8. A's registers for 16 columns are these of two blocks j, each pair packed into one. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_CUH
#define OPS_ATTENTION_CUDA_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>

#include "ops/attention/cuda/mma.cuh"

enum { WARPGROUP = 128, SLAB_COLUMNS = 64, SLAB_ROW_BYTES = 128 };

__host__ __device__ constexpr int slabs_of(int columns) {
    return (columns + SLAB_COLUMNS - 1) / SLAB_COLUMNS;
}
__host__ __device__ constexpr int slab_tile_bytes(int rows, int columns) {
    return rows * SLAB_ROW_BYTES * slabs_of(columns);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers in shared memory: addresses, not pointers ---- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}
__device__ __forceinline__ void barrier_init_fence(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* Arrives, and so many bytes must too before the phase is over. */
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ int barrier_is_over(uint32_t barrier, int phase) {
    int is_over;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, p;\n}"
                 : "=r"(is_over)
                 : "r"(barrier), "r"(phase)
                 : "memory");
    return is_over;
}
/* Until the phase of that parity is over. Built with ATTENTION_WATCHDOG, a wait of more than
 * about a second ends the kernel and says where. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, int phase, const char *what) {
#ifdef ATTENTION_WATCHDOG
    long long begin = clock64();
    while (!barrier_is_over(barrier, phase))
        if (clock64() - begin > 2000000000ll) {
            printf("block %d thread %d waits for %s, phase %d\n", (int)blockIdx.x, (int)threadIdx.x,
                   what, phase);
            __trap();
        }
#else
    (void)what;
    while (!barrier_is_over(barrier, phase))
        ;
#endif
}

/* Barriers of the hardware, by number, among `threads` threads. */
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_dec(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void setmaxnreg_inc(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* ---- copies ---- */

__device__ __forceinline__ void prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* One slab: columns from `column`, rows from `row` of [batch][head]; zeros where there is nothing.
 */
__device__ __forceinline__ void copy_slab(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                          int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* A tile of ROWS rows, all its slabs; the barrier has been told to expect it. */
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void copy_tile(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                          int row, int head, int batch) {
#pragma unroll
    for (int i = 0; i < slabs_of(COLUMNS); i++)
        copy_slab(to + i * ROWS * SLAB_ROW_BYTES, map, barrier, i * SLAB_COLUMNS, row, head, batch);
}

/* So many bytes of a row, a multiple of 16 as both addresses are. */
__device__ __forceinline__ void copy_bytes(uint32_t to, const void *from, int bytes,
                                           uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* ---- copies to memory, by the thread that asks ---- */

/* What this thread wrote to shared memory, or knows of others, is seen by copies and products that
 * come after. */
__device__ __forceinline__ void fence_for_copies(void) {
    asm volatile("fence.proxy.async;" ::: "memory");
}
__device__ __forceinline__ void fence_shared_for_copies(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* So many bytes of f32 numbers, a multiple of 16 as both addresses are; stored or added to what is
 * there. */
__device__ __forceinline__ void store_bytes(float *to, uint32_t from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void add_bytes(float *to, uint32_t from, int bytes) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(from), "r"(bytes)
        : "memory");
}
__device__ __forceinline__ void stores_commit(void) {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Until all that was asked for has been read from shared memory, or has arrived. */
__device__ __forceinline__ void stores_wait_read(void) {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void stores_wait(void) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* One slab the other way: from shared memory, where every writing thread has fenced its writes and
 * they were awaited; what lies beyond the rows or columns there are is not written. */
__device__ __forceinline__ void store_slab(const CUtensorMap *map, uint32_t from, int column,
                                           int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}
/* A tile of ROWS rows, all its slabs, as one group. */
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void store_tile(const CUtensorMap *map, uint32_t from, int row, int head,
                                           int batch) {
#pragma unroll
    for (int i = 0; i < slabs_of(COLUMNS); i++)
        store_slab(map, from + i * ROWS * SLAB_ROW_BYTES, i * SLAB_COLUMNS, row, head, batch);
    stores_commit();
}

/* The reverse of ldmatrix_x4. */
__device__ __forceinline__ void stmatrix_x4(uint32_t row, const uint32_t *r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* ---- kernels that follow one another ---- */

/* A kernel launched to begin early may, from here on; it waits before it reads what this one or any
 * before it wrote. */
__device__ __forceinline__ void let_next_kernel_begin(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void wait_for_kernel_before(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* ---- products of a warpgroup ---- */

/* What describes a tile to wgmma: the address in units of 16 bytes, then the distances, in the same
 * units, from one slab to the next (for tiles read as columns) and from eight rows to the next
 * eight; 1 on top: 128-byte swizzle. Adding to the low part moves along: 16 columns are 2, 16 rows
 * 128. */
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address, int slab_bytes) {
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(slab_bytes >> 4) << 16 |
           (uint64_t)((address & 0x3ffff) >> 4);
}

/* A descriptor of a tile that many steps read: those made from it are to be made for each product
 * anew. Made in advance for all of them there would be more than uniform registers. */
__device__ __forceinline__ uint64_t not_in_advance(uint64_t descriptor) {
    asm volatile("" : "+l"(descriptor));
    return descriptor;
}

/* Before the first product after registers it reads or writes were changed. */
__device__ __forceinline__ void products_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* What was asked for since the last call is one group. */
__device__ __forceinline__ void products_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most LEFT groups are under way. */
template <int LEFT> __device__ __forceinline__ void products_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
/* The compiler takes what wgmma writes for written at once: nothing may be read from these before
 * this place. */
template <int COUNT> __device__ __forceinline__ void hold(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void hold(uint32_t (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

/* Makes the assembler, too, compute x before the next products_wait, across which it moves no
 * access to memory. It never comes to that: x is a sum of weights, which the assembler does not
 * know. */
__device__ __forceinline__ void compute_before_wait(float x, uint32_t somewhere) {
    asm volatile("{\n.reg .pred p;\nsetp.gt.f32 p, %0, 0f7149F2CA;\n"
                 "@p st.shared.f32 [%1], %0;\n}" ::"f"(x),
                 "r"(somewhere)
                 : "memory");
}

#define NAMES_8(a, b, c, d, e, f, g, h)                                                            \
    "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define NAMES_32                                                                                   \
    NAMES_8(0, 1, 2, 3, 4, 5, 6, 7)                                                                \
    ", " NAMES_8(8, 9, 10, 11, 12, 13, 14, 15) ", " NAMES_8(                                       \
        16, 17, 18, 19, 20, 21, 22, 23) ", " NAMES_8(24, 25, 26, 27, 28, 29, 30, 31)
#define NAMES_40 NAMES_32 ", " NAMES_8(32, 33, 34, 35, 36, 37, 38, 39)
#define NAMES_48 NAMES_40 ", " NAMES_8(40, 41, 42, 43, 44, 45, 46, 47)
#define NAMES_56 NAMES_48 ", " NAMES_8(48, 49, 50, 51, 52, 53, 54, 55)
#define NAMES_64                                                                                   \
    NAMES_48                                                                                       \
    ", " NAMES_8(48, 49, 50, 51, 52, 53, 54, 55) ", " NAMES_8(56, 57, 58, 59, 60, 61, 62, 63)
#define NAMES_88                                                                                   \
    NAMES_64 ", " NAMES_8(64, 65, 66, 67, 68, 69, 70, 71) ", " NAMES_8(                            \
        72, 73, 74, 75, 76, 77, 78, 79) ", " NAMES_8(80, 81, 82, 83, 84, 85, 86, 87)
#define NAMES_96 NAMES_88 ", " NAMES_8(88, 89, 90, 91, 92, 93, 94, 95)
#define NAMES_112                                                                                  \
    NAMES_96 ", " NAMES_8(96, 97, 98, 99, 100, 101, 102, 103) ", " NAMES_8(104, 105, 106, 107,     \
                                                                           108, 109, 110, 111)
#define NAMES_128                                                                                  \
    NAMES_112 ", " NAMES_8(112, 113, 114, 115, 116, 117, 118,                                      \
                           119) ", " NAMES_8(120, 121, 122, 123, 124, 125, 126, 127)

#define FLOATS_4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define FLOATS_8(c, i) FLOATS_4(c, i), FLOATS_4(c, i + 4)
#define FLOATS_32(c) FLOATS_8(c, 0), FLOATS_8(c, 8), FLOATS_8(c, 16), FLOATS_8(c, 24)
#define FLOATS_40(c) FLOATS_32(c), FLOATS_8(c, 32)
#define FLOATS_48(c) FLOATS_40(c), FLOATS_8(c, 40)
#define FLOATS_56(c) FLOATS_48(c), FLOATS_8(c, 48)
#define FLOATS_64(c) FLOATS_48(c), FLOATS_8(c, 48), FLOATS_8(c, 56)
#define FLOATS_88(c) FLOATS_64(c), FLOATS_8(c, 64), FLOATS_8(c, 72), FLOATS_8(c, 80)
#define FLOATS_96(c) FLOATS_88(c), FLOATS_8(c, 88)
#define FLOATS_128(c)                                                                              \
    FLOATS_96(c), FLOATS_8(c, 96), FLOATS_8(c, 104), FLOATS_8(c, 112), FLOATS_8(c, 120)

/* d = a b, or += when IS_ADDED; 64 x N, 16 numbers deep. Of shared tiles *_IS_COLUMNS says how they
 * are read. What is not added to is an output only: were it taken for an input, the assembler would
 * see a register changed between products under way, and let them wait for one another. */
#define WGMMA_OF_TILES(n, type, names, floats, c, ADDED, A, B, ACOLUMNS, BCOLUMNS)                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADDED ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names        \
                 "}, " A ", " B ", p, 1, 1, " ACOLUMNS ", " BCOLUMNS ";\n}"                        \
                 : floats(c)                                                                       \
                 : "l"(a), "l"(b), "n"(A_IS_COLUMNS), "n"(B_IS_COLUMNS))
#define WGMMA_OF_REGISTERS(n, type, names, floats, c, ADDED, A0, A1, A2, A3, B, BCOLUMNS)          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADDED ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names        \
                 "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, " BCOLUMNS ";\n}"           \
                 : floats(c)                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(B_IS_COLUMNS))

#define DEFINE_PRODUCTS(n, names, floats, X0, X1, X2, X3, X4, X5)                                  \
    template <int TYPE, int A_IS_COLUMNS, int B_IS_COLUMNS, int IS_ADDED>                          \
    __device__ __forceinline__ void product_of_tiles(float(&d)[n / 2], uint64_t a, uint64_t b) {   \
        if (TYPE == CUDA_DTYPE_BF16 && IS_ADDED)                                                   \
            WGMMA_OF_TILES(n, "bf16", names, floats, "+f", "1", X0, X1, X2, X3);                   \
        else if (TYPE == CUDA_DTYPE_BF16)                                                          \
            WGMMA_OF_TILES(n, "bf16", names, floats, "=f", "0", X0, X1, X2, X3);                   \
        else if (IS_ADDED)                                                                         \
            WGMMA_OF_TILES(n, "f16", names, floats, "+f", "1", X0, X1, X2, X3);                    \
        else                                                                                       \
            WGMMA_OF_TILES(n, "f16", names, floats, "=f", "0", X0, X1, X2, X3);                    \
    }                                                                                              \
    template <int TYPE, int B_IS_COLUMNS, int IS_ADDED>                                            \
    __device__ __forceinline__ void product_of_registers(float(&d)[n / 2], const uint32_t *a,      \
                                                         uint64_t b) {                             \
        if (TYPE == CUDA_DTYPE_BF16 && IS_ADDED)                                                   \
            WGMMA_OF_REGISTERS(n, "bf16", names, floats, "+f", "1", X0, X1, X2, X3, X4, X5);       \
        else if (TYPE == CUDA_DTYPE_BF16)                                                          \
            WGMMA_OF_REGISTERS(n, "bf16", names, floats, "=f", "0", X0, X1, X2, X3, X4, X5);       \
        else if (IS_ADDED)                                                                         \
            WGMMA_OF_REGISTERS(n, "f16", names, floats, "+f", "1", X0, X1, X2, X3, X4, X5);        \
        else                                                                                       \
            WGMMA_OF_REGISTERS(n, "f16", names, floats, "=f", "0", X0, X1, X2, X3, X4, X5);        \
    }

DEFINE_PRODUCTS(64, NAMES_32, FLOATS_32, "%32", "%33", "%34", "%35", "%36", "%37")
DEFINE_PRODUCTS(80, NAMES_40, FLOATS_40, "%40", "%41", "%42", "%43", "%44", "%45")
DEFINE_PRODUCTS(96, NAMES_48, FLOATS_48, "%48", "%49", "%50", "%51", "%52", "%53")
DEFINE_PRODUCTS(112, NAMES_56, FLOATS_56, "%56", "%57", "%58", "%59", "%60", "%61")
DEFINE_PRODUCTS(128, NAMES_64, FLOATS_64, "%64", "%65", "%66", "%67", "%68", "%69")
DEFINE_PRODUCTS(176, NAMES_88, FLOATS_88, "%88", "%89", "%90", "%91", "%92", "%93")
DEFINE_PRODUCTS(192, NAMES_96, FLOATS_96, "%96", "%97", "%98", "%99", "%100", "%101")
DEFINE_PRODUCTS(256, NAMES_128, FLOATS_128, "%128", "%129", "%130", "%131", "%132", "%133")

/* d[64][N] = a b^T, summed over DIM; a and b are tiles of A_ROWS and B_ROWS rows, descriptors of
 * the first row in question. */
template <int TYPE, int DIM, int A_ROWS, int B_ROWS, int COUNT>
__device__ __forceinline__ void wgmma_rows_by_rows(float (&d)[COUNT], uint64_t a, uint64_t b) {
    product_of_tiles<TYPE, 0, 0, 0>(d, a, b);
#pragma unroll
    for (int k = 1; k < DIM / 16; k++) {
        int slab = k / 4, along = k % 4 * 2;
        product_of_tiles<TYPE, 0, 0, 1>(
            d, a + (uint32_t)(slab * (A_ROWS * SLAB_ROW_BYTES >> 4) + along),
            b + (uint32_t)(slab * (B_ROWS * SLAB_ROW_BYTES >> 4) + along));
    }
}

/* The same, a in registers. */
template <int TYPE, int DIM, int B_ROWS, int COUNT>
__device__ __forceinline__ void ask_registers_by_rows(float (&d)[COUNT],
                                                      const uint32_t (&a)[DIM / 4], uint64_t b) {
    product_of_registers<TYPE, 0, 0>(d, a, b);
#pragma unroll
    for (int k = 1; k < DIM / 16; k++)
        product_of_registers<TYPE, 0, 1>(
            d, a + 4 * k, b + (uint32_t)(k / 4 * (B_ROWS * SLAB_ROW_BYTES >> 4) + k % 4 * 2));
}

/* The same, of a the first HELD times 16 columns in registers, the rest in a tile. */
template <int TYPE, int DIM, int HELD, int A_ROWS, int B_ROWS, int COUNT>
__device__ __forceinline__ void
ask_both_by_rows(float (&d)[COUNT], const uint32_t (&held)[4 * HELD], uint64_t a, uint64_t b) {
    product_of_registers<TYPE, 0, 0>(d, held, b);
#pragma unroll
    for (int k = 1; k < DIM / 16; k++) {
        int slab = k / 4, along = k % 4 * 2;
        uint64_t right = b + (uint32_t)(slab * (B_ROWS * SLAB_ROW_BYTES >> 4) + along);
        if (k < HELD)
            product_of_registers<TYPE, 0, 1>(d, held + 4 * (k < HELD ? k : 0), right);
        else
            product_of_tiles<TYPE, 0, 0, 1>(
                d, a + (uint32_t)(slab * (A_ROWS * SLAB_ROW_BYTES >> 4) + along), right);
    }
}

/* d[64][N] += a b, summed over DEPTH rows of the tile b; a in registers. */
template <int TYPE, int DEPTH, int COUNT>
__device__ __forceinline__ void
wgmma_registers_by_columns(float (&d)[COUNT], const uint32_t (&a)[DEPTH / 4], uint64_t b) {
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
        product_of_registers<TYPE, 1, 1>(d, a + 4 * k, b + (uint32_t)(k * (2048 >> 4)));
}

/* d[64][N] = a^T b, summed over DEPTH rows of both tiles; of a one slab. */
template <int TYPE, int DEPTH, int COUNT>
__device__ __forceinline__ void wgmma_columns_by_columns(float (&d)[COUNT], uint64_t a, uint64_t b) {
    product_of_tiles<TYPE, 1, 1, 0>(d, a, b);
#pragma unroll
    for (int k = 1; k < DEPTH / 16; k++)
        product_of_tiles<TYPE, 1, 1, 1>(d, a + (uint32_t)(k * (2048 >> 4)),
                                        b + (uint32_t)(k * (2048 >> 4)));
}

#endif
#endif
