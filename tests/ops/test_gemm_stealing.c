/* test_gemm_stealing.c - threads without work take strips of a region whose thread is late, and the result has
 * the same bits. The engine is the one in plain C, made slow on the thread that calls it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/threads.h"
#include "ops/matmul/gemm_engine.h"

enum { ROWS = 24, STRIPS = 12, PANELS = 3, DELAY_NS = 3000000 };

static pthread_t late;
static atomic_int late_blocks, blocks;

static void multiply_late_on_one_thread(const gemm_block *block) {
    atomic_fetch_add(&blocks, 1);
    if (pthread_equal(late, pthread_self())) {
        atomic_fetch_add(&late_blocks, 1);
        nanosleep(&(struct timespec){.tv_nsec = DELAY_NS}, NULL);
    }
    gemm_portable.multiply(block);
}

typedef struct numbers {
    int64_t count;
    float *at;
} numbers;

static numbers draw_numbers(int64_t count, uint32_t seed) {
    numbers n = {count, memory_allocate((size_t)count, sizeof(float))};
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        n.at[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return n;
}

/* The result of one thread, and of two of which one is late: a region each. */
static void check(dtype c_type, bool accumulates, int64_t more_columns) {
    gemm_engine slow = gemm_portable;
    slow.multiply = multiply_late_on_one_thread;
    int64_t n = STRIPS * slow.columns + more_columns, k = (PANELS - 1) * slow.panel_depth + 7;
    size_t bytes = (size_t)(ROWS * n * dtype_bytes(c_type));
    numbers a = draw_numbers(ROWS * k, 1), b = draw_numbers(k * n, 2),
            c = draw_numbers(ROWS * n, 3);
    void *alone = memcpy(memory_allocate(bytes, 1), c.at, bytes);
    void *both = memcpy(memory_allocate(bytes, 1), c.at, bytes);
    gemm_problem p = {.m = ROWS,
                      .n = n,
                      .k = k,
                      .a = {a.at, DTYPE_F32, k, 1},
                      .b = {b.at, DTYPE_F32, n, 1},
                      .c = alone,
                      .c_type = c_type,
                      .ldc = n,
                      .alpha = 1,
                      .accumulates = accumulates};
    threads_set_count(1);
    gemm_run_regions(&gemm_portable, &p);
    late = pthread_self();
    atomic_store(&late_blocks, 0);
    atomic_store(&blocks, 0);
    p.c = both;
    threads_set_count(2);
    gemm_run_regions(&slow, &p);
    threads_set_count(0);
    assert_memory_equal(alone, both, bytes);
    /* A half is the late thread's without help. */
    assert_true(2 * atomic_load(&late_blocks) < atomic_load(&blocks));
    free(both);
    free(alone);
    free(a.at);
    free(b.at);
    free(c.at);
}

static void strips_of_a_late_thread_are_stolen(void **state) {
    (void)state;
    check(DTYPE_F32, false, 0);
    check(DTYPE_F32, false, 5);
}

static void stolen_strips_are_added_to_what_c_holds(void **state) {
    (void)state;
    check(DTYPE_F32, true, 0);
}

/* Sums between panels are then in a tile of the region's thread. */
static void stolen_strips_of_narrow_results_are_the_same(void **state) {
    (void)state;
    check(DTYPE_BF16, false, 3);
    check(DTYPE_F16, true, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_of_a_late_thread_are_stolen),
        cmocka_unit_test(stolen_strips_are_added_to_what_c_holds),
        cmocka_unit_test(stolen_strips_of_narrow_results_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
