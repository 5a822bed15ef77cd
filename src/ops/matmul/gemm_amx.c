/* gemm_amx.c - blocks of 32 x 32 sums in four tiles, fed by two tiles of A' and two of B'.
 *
 * A step multiplies each of the four tiles it loads twice: 4 KiB come in for the 64 cycles the
 * four products take. One of the two strips stays in L1 from block to block (gemm.c), so half of
 * that comes from L2. The tiles' shape is palette 1 of every AMX there is; the CPUID leaf that
 * describes it is not read, since hypervisors exist that hide it.
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

TARGET static void multiply(int64_t depth, const void *a, const void *b, const float *start,
                            int64_t start_ld, float *sum, int64_t sum_ld) {
    const char *tile_a = a, *tile_b = b;
    if (start) {
        const size_t stride = (size_t)start_ld * sizeof *start;
        _tile_loadd(0, start, stride);
        _tile_loadd(1, start + 16, stride);
        _tile_loadd(2, start + 16 * start_ld, stride);
        _tile_loadd(3, start + 16 * start_ld + 16, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    enum { TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES };
    for (int64_t k = 0; k < depth; k += PAIRS_DEPTH) {
        _tile_loadd(4, tile_a, TILE_ROW_BYTES);
        _tile_loadd(6, tile_b, TILE_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, tile_b + TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, tile_a + TILE_BYTES, TILE_ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        tile_a += 2 * TILE_BYTES;
        tile_b += 2 * TILE_BYTES;
    }
    const size_t stride = (size_t)sum_ld * sizeof *sum;
    _tile_stored(0, sum, stride);
    _tile_stored(1, sum + 16, stride);
    _tile_stored(2, sum + 16 * sum_ld, stride);
    _tile_stored(3, sum + 16 * sum_ld + 16, stride);
}

const gemm_engine gemm_amx = {.rows = PAIRS_LINES,
                              .columns = PAIRS_LINES,
                              .depth_step = PAIRS_DEPTH,
                              .element_bytes = 2,
                              .panel_depth = 320,
                              .own_lines = 256,
                              .shared_lines = 768,
                              .packing_weight = 64,
                              .pack_a = gemm_pack_pairs_a,
                              .pack_b = gemm_pack_pairs_b,
                              .multiply = multiply,
                              .finish = gemm_finish_avx512_bf16,
                              .begin = begin,
                              .end = end};

#endif
