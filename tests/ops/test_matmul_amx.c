/* test_matmul_amx.c - the AMX engines' blocks, and whole products of them, with AMX's instructions
 * emulated. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#if defined(__x86_64__)

#include <math.h>
#include <stdlib.h>

#include "base/isa.h"
#include "base/memory.h"
#include "support/amx_emulation.h"
#include "support/skip.h"

/* The source again, under another name, with emulated tiles. */
#define gemm_amx emulated_gemm_amx
#include "../../src/ops/matmul/gemm_amx.c"

enum { LINES = PAIRS_LINES, MOST_DEPTH = 352, LD = LINES + 5 };

/* A small number that bf16 holds. */
static uint16_t number(int64_t seed) { return dtype_f32_to_bf16((float)(seed * 37 % 61 - 30)); }

typedef struct sample {
    int64_t depth;
    uint16_t *a, *b; /* [line][depth] */
    uint16_t *packed_a, *packed_b;
    float start[LINES * LD], sum[LINES * LD];
} sample;

static sample *sample_create(int64_t depth) {
    sample *s = memory_allocate(1, sizeof *s);
    size_t numbers = (size_t)(LINES * depth), padded = (size_t)(LINES * MOST_DEPTH);
    *s = (sample){.depth = depth,
                  .a = memory_allocate(numbers, sizeof(uint16_t)),
                  .b = memory_allocate(numbers, sizeof(uint16_t)),
                  .packed_a = aligned_alloc(64, padded * sizeof(uint16_t)),
                  .packed_b = aligned_alloc(64, padded * sizeof(uint16_t))};
    for (int64_t i = 0; i < LINES * depth; i++) {
        s->a[i] = number(i + 1);
        s->b[i] = number(5 * i + 2);
    }
    for (int i = 0; i < LINES * LD; i++) {
        s->start[i] = (float)(i % 101);
        s->sum[i] = NAN;
    }
    gemm_lines lines = {.data = s->a, .type = DTYPE_BF16, .along = depth, .deep = 1};
    gemm_pack_pairs_a(&lines, LINES, depth, LINES, LINES, s->packed_a);
    lines.data = s->b;
    gemm_pack_pairs_b(&lines, LINES, depth, LINES, LINES, s->packed_b);
    return s;
}

static void sample_destroy(sample *s) {
    free(s->a);
    free(s->b);
    free(s->packed_a);
    free(s->packed_b);
    free(s);
}

/* Sums of integers this small are exact. */
static void expect_sums(const sample *s, bool is_added) {
    for (int64_t i = 0; i < LINES; i++)
        for (int64_t j = 0; j < LD; j++) {
            float want = is_added ? s->start[i * LD + j] : 0;
            for (int64_t k = 0; j < LINES && k < s->depth; k++)
                want += dtype_bf16_to_f32(s->a[i * s->depth + k]) *
                        dtype_bf16_to_f32(s->b[j * s->depth + k]);
            float got = s->sum[i * LD + j];
            if (j < LINES ? got != want : !isnan(got))
                fail_msg("depth %lld, sum [%lld,%lld] is %g, should be %g", (long long)s->depth,
                         (long long)i, (long long)j, (double)got, (double)want);
        }
}

static void blocks_are_products_of_their_strips(void **state) {
    (void)state;
    if (!isa_check(ISA_AVX512_BF16).is_usable)
        SKIP_BECAUSE("this CPU has no AVX-512 BF16, which packing needs");
    static const int64_t depths[] = {1, 31, 32, 33, 64, 320, 351};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int is_added = 0; is_added < 2; is_added++) {
            sample *s = sample_create(depths[i]);
            int64_t padded = (depths[i] + PAIRS_DEPTH - 1) / PAIRS_DEPTH * PAIRS_DEPTH;
            emulated_gemm_amx.begin();
            emulated_gemm_amx.multiply_pairs(padded, s->packed_a, s->packed_b,
                                             is_added ? s->start : NULL, LD, s->sum, LD);
            emulated_gemm_amx.end();
            expect_sums(s, is_added);
            sample_destroy(s);
        }
}

typedef struct layout {
    const char *name;
    bool k_is_dense_in_a, k_is_dense_in_b;
} layout;

typedef struct matrix {
    uint16_t *data;
    gemm_operand operand;
} matrix;

/* [rows, columns] with a gap after each line, of small numbers: sums of them are exact. */
static matrix matrix_create(int64_t rows, int64_t columns, bool by_rows, int64_t seed) {
    int64_t line = (by_rows ? columns : rows) + 3, lines = by_rows ? rows : columns;
    matrix x = {.data = memory_allocate((size_t)(line * lines), sizeof(uint16_t))};
    for (int64_t i = 0; i < line * lines; i++)
        x.data[i] = dtype_f32_to_bf16((float)((i * seed + i / 7) % 9 - 4));
    x.operand = (gemm_operand){.data = x.data,
                               .type = DTYPE_BF16,
                               .row_stride = by_rows ? line : 1,
                               .column_stride = by_rows ? 1 : line};
    return x;
}

static float element(const matrix *x, int64_t row, int64_t column) {
    return dtype_bf16_to_f32(
        x->data[row * x->operand.row_stride + column * x->operand.column_stride]);
}

static void expect_product(const gemm_problem *p, const matrix *a, const matrix *b,
                           const float *before, const char *name) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->ldc; j++) {
            int64_t at = i * p->ldc + j;
            float sum = 0;
            for (int64_t k = 0; j < p->n && k < p->k; k++)
                sum += element(a, i, k) * element(b, k, j);
            float want = p->alpha * sum;
            if (p->accumulates || j >= p->n)
                want += before[at];
            float got = p->c_type == DTYPE_F32 ? ((float *)p->c)[at]
                                               : dtype_bf16_to_f32(((uint16_t *)p->c)[at]);
            if (p->c_type == DTYPE_BF16)
                want = dtype_bf16_to_f32(dtype_f32_to_bf16(want));
            if (got != want)
                fail_msg("%s, [%lld,%lld,%lld] to %s, alpha %g%s: [%lld,%lld] is %g, should be %g",
                         name, (long long)p->m, (long long)p->n, (long long)p->k,
                         dtype_name(p->c_type), (double)p->alpha, p->accumulates ? ", added" : "",
                         (long long)i, (long long)j, (double)got, (double)want);
        }
}

static void try_product(int64_t m, int64_t n, int64_t k, const layout *how, dtype type, float alpha,
                        bool accumulates) {
    matrix a = matrix_create(m, k, how->k_is_dense_in_a, 5);
    matrix b = matrix_create(k, n, !how->k_is_dense_in_b, 7);
    gemm_problem p = {.m = m,
                      .n = n,
                      .k = k,
                      .a = a.operand,
                      .b = b.operand,
                      .c_type = type,
                      .ldc = n + 5,
                      .alpha = alpha,
                      .accumulates = accumulates};
    int64_t elements = m * p.ldc;
    float *before = memory_allocate((size_t)elements, sizeof *before);
    p.c = memory_allocate((size_t)elements, (size_t)dtype_bytes(type));
    for (int64_t i = 0; i < elements; i++) {
        before[i] = (float)(i % 13);
        dtype_store(type, p.c, i, (double)before[i]);
    }
    void *workspace = memory_allocate(gemm_shared_workspace_bytes(&emulated_gemm_amx, &p), 1);
    gemm_run_shared(&emulated_gemm_amx, &p, workspace);
    expect_product(&p, &a, &b, before, how->name);
    free(workspace);
    free(before);
    free(p.c);
    free(a.data);
    free(b.data);
}

static int packed_a; /* calls */
static void count_packing(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                          int64_t pitch, void *to) {
    packed_a++;
    gemm_pack_pairs_a(from, count, depth, width, pitch, to);
}

/* Whole strips of dense rows, where B' has few columns: nothing of A' is packed. */
static void few_columns_take_rows_of_a_in_place(void **state) {
    (void)state;
    if (!isa_check(ISA_AVX512_BF16).is_usable)
        SKIP_BECAUSE("this CPU has no AVX-512 BF16, which packing needs");
    static const struct {
        int64_t m, n, k, gap; /* between rows of A' */
        bool is_in_place;
    } CASES[] = {{64, 96, 64, 3, true},
                 {63, 96, 64, 3, false},
                 {64, 96, 65, 3, false},
                 {64, 1056, 64, 3, false},
                 {64, 96, 64, 1984, true}}; /* rows at a multiple of 4 KiB */
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        gemm_engine engine = emulated_gemm_amx;
        int64_t m = CASES[i].m, n = CASES[i].n, k = CASES[i].k, line = k + CASES[i].gap;
        uint16_t *a = memory_allocate((size_t)(m * line), sizeof *a);
        uint16_t *b = memory_allocate((size_t)(k * n), sizeof *b);
        gemm_problem p = {.m = m,
                          .n = n,
                          .k = k,
                          .a = {a, DTYPE_BF16, line, 1},
                          .b = {b, DTYPE_BF16, n, 1},
                          .c = memory_allocate((size_t)(m * n), sizeof(float)),
                          .c_type = DTYPE_F32,
                          .ldc = n,
                          .alpha = 1};
        void *workspace = memory_allocate(gemm_shared_workspace_bytes(&engine, &p), 1);
        engine.pack_a = count_packing;
        packed_a = 0;
        gemm_run_shared(&engine, &p, workspace);
        assert_int_equal(packed_a == 0, CASES[i].is_in_place);
        free(workspace);
        free(p.c);
        free(a);
        free(b);
    }
}

static void whole_products_are_exact_on_small_integers(void **state) {
    (void)state;
    if (!isa_check(ISA_AVX512_BF16).is_usable)
        SKIP_BECAUSE("this CPU has no AVX-512 BF16, which packing needs");
    static const layout layouts[] = {{"Y = X W^T", true, true},
                                     {"dX = dY W", true, false},
                                     {"dW = dY^T X", false, false},
                                     {"K dense in B only", false, true}};
    static const int64_t sizes[][3] = {
        {1, 1, 1},
        {16, 64, 32},
        {17, 65, 33},
        {33, 130, 300},
        {130, 40, 64},
        {70, 31, 513},
        {5, 300, 256},
        /* A' is read in place, if dense: over one panel of K, over two, and in two groups of strips. */
        {64, 96, 64},
        {96, 130, 544},
        {288, 290, 544}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
            const int64_t *s = sizes[i];
            try_product(s[0], s[1], s[2], &layouts[l], DTYPE_F32, 1, false);
            try_product(s[0], s[1], s[2], &layouts[l], DTYPE_BF16, 1, false);
            try_product(s[0], s[1], s[2], &layouts[l], DTYPE_F32, 0.5f, true);
            try_product(s[0], s[1], s[2], &layouts[l], DTYPE_BF16, 0.5f, true);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_products_of_their_strips),
        cmocka_unit_test(few_columns_take_rows_of_a_in_place),
        cmocka_unit_test(whole_products_are_exact_on_small_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
