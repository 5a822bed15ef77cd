/* matmul_blocked.c - products without a library, for operands of any strides.
 *
 * Tiles of the result go to threads; a tile walks K in panels, packs both operands' panels
 * dense on its stack, and multiplies them in blocks of MR x NR that stay in registers. */
#include "ops/matmul/matmul.h"

#include <string.h>

#include "base/threads.h"

enum { MR = 6, NR = 32, TILE_M = 48, TILE_N = 64, PANEL_K = 256 };

typedef struct tile_context {
    const kernel_args *args;
    matmul_problem p;
    int64_t tiles_m, tiles_n;
} tile_context;

/* c[MR][NR] += a[depth][MR] * b[depth][NR] */
static void multiply_block(int64_t depth, const float *restrict a, const float *restrict b,
                           float *restrict c) {
    float sum[MR][NR] = {{0}};
    for (int64_t l = 0; l < depth; l++)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                sum[i][j] += a[l * MR + i] * b[l * NR + j];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++)
            c[i * TILE_N + j] += sum[i][j];
}

/* Panels of `width` rows (or columns) side by side, short ones padded with zeros. */
static void pack(int64_t count, int64_t depth, int width, const float *from, int64_t along,
                 int64_t deep, float *to) {
    for (int64_t start = 0; start < count; start += width)
        for (int64_t l = 0; l < depth; l++)
            for (int64_t i = start; i < start + width; i++)
                *to++ = i < count ? from[i * along + l * deep] : 0.0f;
}

static void run_tile(void *context, int64_t begin, int64_t end) {
    (void)end;
    const tile_context *t = context;
    const matmul_problem *p = &t->p;
    int64_t batch = begin / (t->tiles_m * t->tiles_n), tile = begin % (t->tiles_m * t->tiles_n);
    int64_t row = tile / t->tiles_n * TILE_M, column = tile % t->tiles_n * TILE_N;
    int64_t rows = p->m - row < TILE_M ? p->m - row : TILE_M;
    int64_t columns = p->n - column < TILE_N ? p->n - column : TILE_N;
    matmul_offsets at = matmul_batch_offsets(t->args, batch);
    const float *a = (const float *)t->args->inputs[0].data + at.a + row * p->row_a;
    const float *b = (const float *)t->args->inputs[1].data + at.b + column * p->column_b;
    float *c = (float *)t->args->outputs[0].data + at.c + row * p->ldc + column;

    float packed_a[TILE_M * PANEL_K], packed_b[TILE_N * PANEL_K], sum[TILE_M * TILE_N];
    memset(sum, 0, sizeof sum);
    for (int64_t start = 0; start < p->k; start += PANEL_K) {
        int64_t depth = p->k - start < PANEL_K ? p->k - start : PANEL_K;
        pack(rows, depth, MR, a + start * p->column_a, p->row_a, p->column_a, packed_a);
        pack(columns, depth, NR, b + start * p->row_b, p->column_b, p->row_b, packed_b);
        for (int64_t i = 0; i < rows; i += MR)
            for (int64_t j = 0; j < columns; j += NR)
                multiply_block(depth, packed_a + i * depth, packed_b + j * depth,
                               sum + i * TILE_N + j);
    }
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * p->ldc, sum + i * TILE_N, (size_t)columns * sizeof(float));
}

static void run(const kernel_args *args) {
    tile_context t = {.args = args, .p = matmul_describe(args)};
    t.tiles_m = (t.p.m + TILE_M - 1) / TILE_M;
    t.tiles_n = (t.p.n + TILE_N - 1) / TILE_N;
    threads_for_each(t.p.batches * t.tiles_m * t.tiles_n, run_tile, &t);
}

const kernel matmul_blocked = {.name = "matmul_blocked",
                               .backend = BACKEND_CPU,
                               .reject = kernel_reject_unless_f32,
                               .run = run};
