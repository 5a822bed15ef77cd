/* test_matmul_amx.c - the AMX engine's blocks, with its instructions emulated. */
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
    gemm_pack_pairs_a(&lines, LINES, depth, s->packed_a);
    lines.data = s->b;
    gemm_pack_pairs_b(&lines, LINES, depth, s->packed_b);
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
    if (!isa_check(ISA_AVX512_BF16).is_usable) /* packing needs it */
        skip();
    static const int64_t depths[] = {1, 31, 32, 33, 64, 320, 351};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int is_added = 0; is_added < 2; is_added++) {
            sample *s = sample_create(depths[i]);
            int64_t padded = (depths[i] + PAIRS_DEPTH - 1) / PAIRS_DEPTH * PAIRS_DEPTH;
            emulated_gemm_amx.begin();
            emulated_gemm_amx.multiply(padded, s->packed_a, s->packed_b, is_added ? s->start : NULL,
                                       LD, s->sum, LD);
            emulated_gemm_amx.end();
            expect_sums(s, is_added);
            sample_destroy(s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_products_of_their_strips)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
