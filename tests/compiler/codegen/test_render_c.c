/* test_render_c.c - generated C stores the numbers that were computed, whatever they are and however long rows
 * are. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "compiler/codegen/fused_kernel.h"
#include "runtime/jit.h"
#include "support/kernel_run.h"
#include "support/own_cache.h"
#include "support/skip.h"

typedef void generated(void *const *p, int64_t begin, int64_t end);

/* A copy of rows, rounded to a type; rows of the input lie `stride` apart, those of the output are dense. */
static fused_kernel rounding_kernel(fused_member *member, fused_operand *in, fused_output *out,
                                    dtype type, int64_t rows, int64_t columns, int64_t stride) {
    *member = (fused_member){.op_name = "cast",
                             .kind = FUSION_ELEMENTWISE,
                             .expression = "a",
                             .type = type,
                             .read_count = 1,
                             .reads = {{.source = FUSED_OPERAND}}};
    *in = (fused_operand){.type = DTYPE_F32,
                          .row_rank = 1,
                          .row_dim = {rows},
                          .row_stride = {stride},
                          .column_stride = 1,
                          .alignment = 4};
    *out = (fused_output){
        .type = type, .row_rank = 1, .row_dim = {rows}, .row_stride = {columns}, .alignment = 2};
    fused_kernel k = {.rows = rows,
                      .columns = columns,
                      .members = member,
                      .member_count = 1,
                      .operands = in,
                      .operand_count = 1,
                      .outputs = out,
                      .output_count = 1};
    fused_kernel_arrange(&k);
    return k;
}

static void add_rounding(dtype type, int64_t rows, int64_t columns, int64_t stride,
                         const char *name, text *source) {
    fused_member member;
    fused_operand in;
    fused_output out;
    fused_kernel k = rounding_kernel(&member, &in, &out, type, rows, columns, stride);
    renderer_c.render(&k, name, source);
}

static float number_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Every exponent, halves and what is next to them, both signs, NaN with payloads; `rare`: one in so many. */
static float number_at(int64_t i, int64_t rare) {
    static const uint32_t low[] = {0x7fff, 0x8000, 0x8001, 0x18000, 0, 0x3fffff, 0x17fff, 1};
    uint32_t sign = i % 3 == 0 ? 0x80000000u : 0, fraction = low[i % 8];
    uint32_t exponent = i % rare == 0 ? (uint32_t)(i / rare % 256) : 100 + (uint32_t)(i % 50);
    return number_of(sign | exponent << 23 | fraction);
}

static uint16_t rounded(dtype type, float x) {
    return type == DTYPE_BF16 ? dtype_f32_to_bf16(x) : dtype_f32_to_f16(x);
}

static void expect_rounded(const jit_module *module, const char *name, dtype type, int64_t rows,
                           int64_t columns, int64_t stride, int64_t rare) {
    float *in = malloc((size_t)(rows * stride) * sizeof *in);
    uint16_t *out = malloc((size_t)(rows * columns) * sizeof *out);
    assert_non_null(in);
    assert_non_null(out);
    for (int64_t i = 0; i < rows * stride; i++)
        in[i] = number_at(i, rare);
    generated *run;
    *(void **)&run = jit_find(module, name);
    assert_non_null(run);
    fused_member member;
    fused_operand read;
    fused_output written;
    fused_kernel k = rounding_kernel(&member, &read, &written, type, rows, columns, stride);
    run((void *[]){in, out}, 0, renderer_c.describe_launch(&k).units);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            uint16_t want = rounded(type, in[r * stride + c]), got = out[r * columns + c];
            if (got != want)
                fail_msg("%s: number %lld of row %lld, %a, is stored as %04x, should be %04x", name,
                         (long long)c, (long long)r, (double)in[r * stride + c], got, want);
        }
    free(in);
    free(out);
}

/* Around vectors, blocks, and what is prefetched; for targets that have the instruction for bf16 and that have not. */
static void every_number_is_rounded_to_nearest_in_rows_of_any_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 31, 32, 33, 255, 256, 257, 700, 1024, 1500, 3072};
    enum { LENGTHS = sizeof lengths / sizeof *lengths, ROWS = 5 };
    static const dtype types[] = {DTYPE_BF16, DTYPE_F16};
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int chip_count = kernel_run_targets(chips);
    if (!jit_is_possible())
        SKIP_BECAUSE("there is no C compiler");
    text source = {0};
    char name[64];
    text_append(&source, renderer_c.prelude());
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < LENGTHS; i++) {
            snprintf(name, sizeof name, "round_%s_%d", dtype_name(types[t]), i);
            add_rounding(types[t], ROWS, lengths[i], lengths[i] + (i % 2 ? 0 : 7), name, &source);
        }
    for (int c = 0; c < chip_count; c++) {
        jit_module *module;
        if (jit_load(text_string(&source), chips[c], &module, NULL) != DYNO_OK)
            fail_msg("%s", dyno_error_message());
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < LENGTHS; i++)
                for (int64_t rare = 1; rare < 200; rare += 150) {
                    snprintf(name, sizeof name, "round_%s_%d", dtype_name(types[t]), i);
                    expect_rounded(module, name, types[t], ROWS, lengths[i],
                                   lengths[i] + (i % 2 ? 0 : 7), rare);
                }
        jit_destroy(module);
    }
    text_release(&source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_number_is_rounded_to_nearest_in_rows_of_any_length,
                                        own_cache_set_up, own_cache_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
