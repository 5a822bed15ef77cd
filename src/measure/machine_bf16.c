/* machine_bf16.c - tiles of AMX, and dot products of pairs of AVX-512 BF16.
 *
 * Sums of ones grow until adding to them changes nothing, so that no value ever becomes a denormal
 * or infinite. */
#include "measure/machine_bf16.h"

#include <stddef.h>

#if defined(__x86_64__)

#include <immintrin.h>

enum { ONE = 0x3f80 }; /* as bf16 */

/* A tile product is issued every 16 cycles and takes 52: four sums hide that. Two operands are
 * enough, and more would cost where a core's tile registers are shared (gemm_amx.c). */
enum { TILE_SUMS = 4, TILES = 6, TILE_ROWS = 16, TILE_ROW_BYTES = 64, TILE_DEPTH = 32 };

__attribute__((target("amx-tile,amx-bf16"))) static float tile_loop(int64_t iterations,
                                                                    float seed) {
    _Alignas(64) uint8_t configuration[64] = {1}; /* palette 1, then bytes a row, then rows */
    for (int tile = 0; tile < TILES; tile++) {
        configuration[16 + 2 * tile] = TILE_ROW_BYTES;
        configuration[48 + tile] = TILE_ROWS;
    }
    _Alignas(64) uint16_t ones[TILE_ROWS * TILE_DEPTH];
    _Alignas(64) float sums[TILE_SUMS][TILE_ROWS * TILE_ROWS];
    for (int i = 0; i < TILE_ROWS * TILE_DEPTH; i++)
        ones[i] = (uint16_t)(ONE * seed);
    __asm__ volatile("" ::: "memory"); /* the intrinsics do not say what they read */
    _tile_loadconfig(configuration);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, ones, TILE_ROW_BYTES);
    _tile_loadd(5, ones, TILE_ROW_BYTES);
    for (int64_t i = 0; i < iterations; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, sums[0], TILE_ROW_BYTES);
    _tile_stored(1, sums[1], TILE_ROW_BYTES);
    _tile_stored(2, sums[2], TILE_ROW_BYTES);
    _tile_stored(3, sums[3], TILE_ROW_BYTES);
    _tile_release();
    __asm__ volatile("" ::: "memory");
    return sums[0][0] + sums[1][1] + sums[2][2] + sums[3][3];
}

/* Twelve sums cover a latency of six cycles on two units. */
enum { DOT_SUMS = 12, DOT_LANES = 16 };

__attribute__((target("avx512f,avx512bf16"))) static float dot_loop(int64_t iterations,
                                                                    float seed) {
    int pair = (int)(ONE * seed);
    __m512bh ones = (__m512bh)_mm512_set1_epi32(pair << 16 | pair);
    __m512 sum[DOT_SUMS];
    for (int k = 0; k < DOT_SUMS; k++)
        sum[k] = _mm512_set1_ps(seed * (float)k);
    for (int64_t i = 0; i < iterations; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < DOT_SUMS; k++)
            sum[k] = _mm512_dpbf16_ps(sum[k], ones, ones);
    }
    __m512 total = sum[0];
    for (int k = 1; k < DOT_SUMS; k++)
        total = _mm512_add_ps(total, sum[k]);
    return _mm512_cvtss_f32(total);
}

machine_loop machine_loop_bf16(const target *chip) {
    if (target_has(chip, ISA_AMX_BF16))
        return (machine_loop){
            tile_loop, (int64_t)TILE_SUMS * TILE_ROWS * TILE_ROWS * TILE_DEPTH * 2, "AMX tiles"};
    if (target_has(chip, ISA_AVX512_BF16))
        return (machine_loop){dot_loop, DOT_SUMS * DOT_LANES * 2 * 2, "AVX-512 BF16 dot products"};
    return (machine_loop){0};
}

#else

machine_loop machine_loop_bf16(const target *chip) {
    (void)chip;
    return (machine_loop){0};
}

#endif
