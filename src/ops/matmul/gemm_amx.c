/* gemm_amx.c - blocks of 32 x 32 sums, in two passes of 16 x 32.
 *
 * Four tiles of the eight are used: two of sums, one of A', one of B'. All eight would save a
 * third of the loads, and are slower where it matters: while a core's other hyperthread is busy, it
 * behaves as if it had ten physical tiles, and a write to a tile waits for one that no register
 * holds. Measured on a Xeon, operands in L1: 2814 GFLOP/s a core this way and 2841 with all eight;
 * in that state 1243 and 655. A product added to the last one's result need not wait for it.
 *
 * The strip of B' stays in L1 from block to block (gemm_shared.c), that of A' streams from L2: it is loaded
 * with the hint that it is not needed again, and then does not displace the strip of B'.
 *
 * Each pass ends with stores of 32 cache lines, and a load that cannot be forwarded from a store before
 * them waits until all are in the cache. So gemm_shared.c neither copies nor clears structures between blocks.
 *
 * The tiles' shape is palette 1 of every AMX there is; the CPUID leaf that describes it is not read,
 * since hypervisors exist that hide it.
 *
 * Subnormal numbers count as zero here, as in all bf16 products of the hardware. */
#include "ops/matmul/gemm_engine.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f")))

enum { TILES = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

typedef struct tile_configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_configuration;

TARGET static void begin(void) {
    _Alignas(64) tile_configuration c = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        c.row_bytes[i] = TILE_ROW_BYTES;
        c.rows[i] = TILE_ROWS;
    }
    /* gcc's intrinsic tells the compiler of eight bytes of the 64 that it reads; without this the
     * rest may never be stored. */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&c);
}

TARGET static void end(void) { _tile_release(); }

enum { TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES, STEP_BYTES = 2 * TILE_BYTES };

/* The sums of 16 rows: a tile of A' in each step, two of B'. */
TARGET static inline __attribute__((always_inline)) void multiply_half(const gemm_block *x,
                                                                       int half, bool streams_a) {
    const float *start = x->start ? x->start + half * TILE_ROWS * x->start_ld : NULL;
    float *sum = x->sum + half * TILE_ROWS * x->sum_ld;
    size_t start_bytes = (size_t)x->start_ld * sizeof *start;
    size_t sum_bytes = (size_t)x->sum_ld * sizeof *sum;
    int64_t along = x->reads_a ? x->a_along * (int64_t)sizeof(uint16_t) : TILE_ROW_BYTES;
    int64_t a_step = x->reads_a ? TILE_ROW_BYTES : STEP_BYTES;
    const char *a = (const char *)x->a + half * TILE_ROWS * along, *b = x->b;
    if (start) {
        _tile_loadd(0, start, start_bytes);
        _tile_loadd(1, start + TILE_ROWS, start_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t k = 0; k < x->depth; k += PAIRS_DEPTH) {
        if (x->result)
            gemm_prefetch_next(x->result);
        if (streams_a)
            _tile_stream_loadd(2, a, (size_t)along);
        else
            _tile_loadd(2, a, (size_t)along);
        _tile_loadd(3, b, TILE_ROW_BYTES);
        _tile_dpbf16ps(0, 2, 3);
        _tile_loadd(3, b + TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbf16ps(1, 2, 3);
        a += a_step;
        b += STEP_BYTES;
    }
    _tile_stored(0, sum, sum_bytes);
    _tile_stored(1, sum + TILE_ROWS, sum_bytes);
}

TARGET static void multiply(const gemm_block *x) {
    for (int half = 0; half < 2; half++)
        if (x->streams_a)
            multiply_half(x, half, true);
        else
            multiply_half(x, half, false);
}

TARGET static void multiply_pairs(int64_t depth, const void *a, const void *b, const float *start,
                                  int64_t start_ld, float *sum, int64_t sum_ld) {
    const gemm_block x = gemm_block_of_pairs(depth, a, b, start, start_ld, sum, sum_ld);
    for (int half = 0; half < 2; half++)
        multiply_half(&x, half, false);
}

const gemm_engine gemm_amx = {.rows = PAIRS_LINES,
                              .row_pitch = PAIRS_LINES,
                              .shares_packing = true,
                              .result_passes = 2,
                              .columns = PAIRS_LINES,
                              .depth_step = PAIRS_DEPTH,
                              .element_bytes = 2,
                              .panel_depth = 512,
                              .own_lines = 256,
                              .shared_lines = 768,
                              .near_panel_depth = 512,
                              .near_own_lines = 128,
                              .a_weight = 64,
                              .b_weight = 64,
                              .keeps_columns = true,
                              .reads_in_place = true,
                              .pack_a = gemm_pack_pairs_a,
                              .pack_b = gemm_pack_pairs_b,
                              .multiply = multiply,
                              .multiply_pairs = multiply_pairs,
                              .finish = gemm_finish_avx512_bf16,
                              .begin = begin,
                              .end = end};

#endif
