/* Sums of ranks, and the conversions they make, against the element-wise functions of tensor/dtype.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/sums.h"
#include "support/expect.h"

enum { HALVES = 65536 };

/* Every bit pattern alone: its sum is itself, and what is not a number stays so. */
static void expect_every_half_is_kept(dtype type) {
    static uint16_t from[HALVES], to[HALVES];
    for (int i = 0; i < HALVES; i++)
        from[i] = (uint16_t)i;
    const void *sources[] = {from};
    void *results[] = {to};
    sums_write(type, sources, 1, results, 1, HALVES);
    for (int i = 0; i < HALVES; i++) {
        if (isnan(dtype_load(type, from, i)))
            assert_true(isnan(dtype_load(type, to, i)));
        else
            assert_int_equal(to[i], from[i]);
    }
}

static void sixteen_bit_numbers_keep_their_value(void **state) {
    (void)state;
    expect_every_half_is_kept(DTYPE_BF16);
    expect_every_half_is_kept(DTYPE_F16);
}

/* Pairs whose sums need rounding, overflow and underflow, against a sum in f32 that is rounded once. */
static void expect_sums_are_rounded_once(dtype type) {
    enum { COUNT = 200003 };
    uint16_t *a = malloc(COUNT * sizeof *a), *b = malloc(COUNT * sizeof *b);
    uint16_t *to = malloc(COUNT * sizeof *to);
    uint32_t seed = 12345;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        a[i] = (uint16_t)(seed >> 16);
        seed = seed * 1664525u + 1013904223u;
        b[i] = (uint16_t)(i % 3 ? seed >> 16 : a[i] ^ 1u);
    }
    const void *from[] = {a, b, a};
    void *results[] = {to};
    sums_write(type, from, 3, results, 1, COUNT);
    for (int i = 0; i < COUNT; i++) {
        float sum = (float)dtype_load(type, a, i);
        sum += (float)dtype_load(type, b, i);
        sum += (float)dtype_load(type, a, i);
        uint16_t expected = type == DTYPE_BF16 ? dtype_f32_to_bf16(sum) : dtype_f32_to_f16(sum);
        if (isnan(sum))
            assert_true(isnan(dtype_load(type, to, i)));
        else if (to[i] != expected)
            fail_msg("%s %d: %g is %04x, not %04x", dtype_name(type), i, (double)sum, to[i],
                     expected);
    }
    free(a);
    free(b);
    free(to);
}

static void sums_of_sixteen_bit_numbers_are_rounded_once(void **state) {
    (void)state;
    expect_sums_are_rounded_once(DTYPE_BF16);
    expect_sums_are_rounded_once(DTYPE_F16);
}

static void sums_may_go_on_elsewhere_with_the_same_bits(void **state) {
    (void)state;
    enum { COUNT = 5003, RANKS = 5 };
    static float data[RANKS][COUNT], whole[COUNT], total[COUNT], rounded[COUNT];
    const void *from[RANKS];
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++)
            data[r][i] = sinf((float)(i * 7 + r)) * expf((float)(r * 3));
        from[r] = data[r];
    }
    void *results[] = {whole};
    sums_write(DTYPE_F32, from, RANKS, results, 1, COUNT);
    sums_accumulate(DTYPE_F32, total, true, from, 2, COUNT);
    sums_accumulate(DTYPE_F32, total, false, from + 2, 3, COUNT);
    sums_round(DTYPE_F32, total, rounded, COUNT);
    assert_memory_equal(whole, rounded, sizeof whole);
}

static void copies_past_the_caches_are_of_any_size_and_alignment(void **state) {
    (void)state;
    enum { BYTES = 400 };
    char from[BYTES], to[BYTES];
    for (int i = 0; i < BYTES; i++)
        from[i] = (char)i;
    for (int offset = 0; offset < 70; offset++)
        for (int count = 0; count < 200; count += 7) {
            memset(to, 'x', sizeof to);
            sums_copy_through(to + offset, from + 3, count);
            assert_memory_equal(to + offset, from + 3, (size_t)count);
            assert_int_equal(to[offset + count], 'x');
            assert_true(offset == 0 || to[offset - 1] == 'x');
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bit_numbers_keep_their_value),
        cmocka_unit_test(sums_of_sixteen_bit_numbers_are_rounded_once),
        cmocka_unit_test(sums_may_go_on_elsewhere_with_the_same_bits),
        cmocka_unit_test(copies_past_the_caches_are_of_any_size_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
