/* amx_emulation.h - AMX's instructions on bf16 tiles in plain C, for machines without them.
 *
 * Include it before a source file that uses the intrinsics: they become these functions. A tile is
 * 16 rows of 64 bytes, as palette 1 has it. Sums are added pair by pair, in f32; the hardware
 * orders a pair's two products in its own way, so results agree but for roundings. */
#ifndef SUPPORT_AMX_EMULATION_H
#define SUPPORT_AMX_EMULATION_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { EMULATED_ROWS = 16, EMULATED_ROW_BYTES = 64 };

static _Thread_local unsigned char emulated_tile[8][EMULATED_ROWS][EMULATED_ROW_BYTES];

static inline float emulated_bf16(const unsigned char *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static inline void emulated_load(int tile, const void *from, size_t stride) {
    for (size_t row = 0; row < EMULATED_ROWS; row++)
        memcpy(emulated_tile[tile][row], (const char *)from + row * stride, EMULATED_ROW_BYTES);
}

static inline void emulated_store(int tile, void *to, size_t stride) {
    for (size_t row = 0; row < EMULATED_ROWS; row++)
        memcpy((char *)to + row * stride, emulated_tile[tile][row], EMULATED_ROW_BYTES);
}

static inline void emulated_zero(int tile) {
    memset(emulated_tile[tile], 0, sizeof emulated_tile[tile]);
}

static inline void emulated_forget(void) { memset(emulated_tile, 0xff, sizeof emulated_tile); }

/* sum[row][column] += the products of 32 numbers: a row of `left`, a column of pairs of `right`. */
static inline void emulated_multiply(int sum, int left, int right) {
    for (int row = 0; row < EMULATED_ROWS; row++)
        for (int column = 0; column < EMULATED_ROWS; column++) {
            float total;
            memcpy(&total, &emulated_tile[sum][row][4 * column], sizeof total);
            for (int pair = 0; pair < EMULATED_ROWS; pair++) {
                const unsigned char *a = &emulated_tile[left][row][4 * pair];
                const unsigned char *b = &emulated_tile[right][pair][4 * column];
                total += emulated_bf16(a) * emulated_bf16(b);
                total += emulated_bf16(a + 2) * emulated_bf16(b + 2);
            }
            memcpy(&emulated_tile[sum][row][4 * column], &total, sizeof total);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(configuration) ((void)(configuration), emulated_forget())
#define _tile_release() emulated_forget()
#define _tile_loadd(tile, from, stride) emulated_load(tile, from, (size_t)(stride))
#define _tile_stream_loadd(tile, from, stride) emulated_load(tile, from, (size_t)(stride))
#define _tile_stored(tile, to, stride) emulated_store(tile, to, (size_t)(stride))
#define _tile_zero(tile) emulated_zero(tile)
#define _tile_dpbf16ps(sum, left, right) emulated_multiply(sum, left, right)

#endif
