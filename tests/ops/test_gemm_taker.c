/* test_gemm_taker.c - a taker gets what C would have got, each number once. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "ops/matmul/gemm.h"
#include "support/draw.h"

/* Where the numbers go, and how often each came and was asked for. */
typedef struct collected {
    const gemm_problem *p;
    unsigned char *numbers, *taken, *asked;
} collected;

static void collect(const void *context, const gemm_part *part, const void *numbers, int64_t ld) {
    const collected *c = context;
    int64_t bytes = dtype_bytes(c->p->c_type);
    for (int64_t i = 0; i < part->rows; i++) {
        int64_t at = (part->row + i) * c->p->n + part->column;
        memcpy(c->numbers + at * bytes, (const char *)numbers + i * ld * bytes,
               (size_t)(part->columns * bytes));
        for (int64_t j = 0; j < part->columns; j++) {
            assert_int_equal(c->asked[at + j], 1);
            c->taken[at + j]++;
        }
    }
}

static void note(const void *context, const gemm_part *part) {
    const collected *c = context;
    for (int64_t i = 0; i < part->rows; i++)
        for (int64_t j = 0; j < part->columns; j++)
            c->asked[(part->row + i) * c->p->n + part->column + j]++;
}

static gemm_operand make_operand(draw *d, dtype type, int64_t rows, int64_t columns) {
    bool is_transposed = draw_chance(d, 0.5);
    void *data = memory_allocate((size_t)(rows * columns), (size_t)dtype_bytes(type));
    for (int64_t i = 0; i < rows * columns; i++)
        dtype_store(type, data, i, draw_normal(d));
    return (gemm_operand){data, type, is_transposed ? 1 : columns, is_transposed ? rows : 1};
}

static void expect_taken(gemm_method method, gemm_problem *p) {
    size_t count = (size_t)(p->m * p->n), bytes = count * (size_t)dtype_bytes(p->c_type);
    void *workspace = memory_allocate(gemm_workspace_bytes_by(method, p) + 1, 1);
    p->c = memory_allocate(bytes, 1);
    gemm_run_by(method, p, workspace);
    free(workspace);
    collected c = {p, memory_allocate(bytes, 1), memory_allocate(count, 1),
                   memory_allocate(count, 1)};
    gemm_taker taker = {.take = collect, .ask = note, .context = &c};
    gemm_problem with_taker = *p;
    with_taker.c = NULL;
    with_taker.taker = &taker;
    workspace = memory_allocate(gemm_workspace_bytes_by(method, &with_taker) + 1, 1);
    for (int threads = 1; threads <= 3; threads++) {
        memset(c.numbers, 0, bytes);
        memset(c.taken, 0, count);
        memset(c.asked, 0, count);
        threads_set_count(threads);
        gemm_run_by(method, &with_taker, workspace);
        threads_set_count(0);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(c.taken[i], 1);
        if (memcmp(c.numbers, p->c, bytes) != 0)
            fail_msg("%s, %s, %lld x %lld x %lld, %d threads: what is taken is not what C gets",
                     gemm_method_name(method), dtype_name(p->a.type), (long long)p->m,
                     (long long)p->n, (long long)p->k, threads);
    }
    free(c.numbers);
    free(c.taken);
    free(c.asked);
    free(p->c);
    free(workspace);
}

static void expect_all_methods(draw *d, dtype type, int64_t m, int64_t n, int64_t k) {
    gemm_problem p = {.m = m,
                      .n = n,
                      .k = k,
                      .a = make_operand(d, type, m, k),
                      .b = make_operand(d, type, k, n),
                      .c_type = type == DTYPE_BF16 && draw_chance(d, 0.5) ? DTYPE_BF16 : DTYPE_F32,
                      .ldc = n,
                      .alpha = draw_chance(d, 0.5) ? 1.0f : 0.3f};
    for (int method = 0; method < GEMM_METHOD_COUNT; method++)
        if (!gemm_reject((gemm_method)method, &p))
            expect_taken((gemm_method)method, &p);
    free((void *)(uintptr_t)p.a.data);
    free((void *)(uintptr_t)p.b.data);
}

static void every_number_is_asked_for_and_taken_once(void **state) {
    (void)state;
    draw d = draw_create(11, 1);
    for (int i = 0; i < 60; i++)
        expect_all_methods(&d, i % 2 ? DTYPE_BF16 : DTYPE_F32, draw_size(&d, 300),
                           draw_size(&d, 300), draw_size(&d, 700));
}

/* K in one go, with fewer lines, in several; more lines of either side than a tile has. */
static void long_sums_and_large_results_are_taken_too(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{70, 40, 2100},  {40, 70, 6000}, {33, 300, 4100},
                                       {300, 33, 5000}, {900, 35, 513}, {35, 900, 640},
                                       {1, 800, 300},   {800, 1, 300},  {1, 1, 1}};
    draw d = draw_create(12, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        expect_all_methods(&d, DTYPE_BF16, sizes[i][0], sizes[i][1], sizes[i][2]);
        expect_all_methods(&d, DTYPE_F32, sizes[i][0], sizes[i][1], sizes[i][2]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_asked_for_and_taken_once),
        cmocka_unit_test(long_sums_and_large_results_are_taken_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
