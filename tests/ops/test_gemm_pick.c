/* test_gemm_pick.c - which way to multiply is taken: what it rejects, and what measurements pass over. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "ops/matmul/gemm.h"

static void the_method_picked_rejects_nothing(void **state) {
    (void)state;
    gemm_problem p = {.m = 4, .n = 4, .k = 4, .ldc = 4, .alpha = 1, .c_type = DTYPE_F32};
    p.a = p.b = (gemm_operand){.type = DTYPE_BF16, .row_stride = 4, .column_stride = 1};
    gemm_method picked = gemm_pick(&p);
    assert_int_not_equal(picked, GEMM_ONEDNN);
    assert_null(gemm_reject(picked, &p));
    assert_null(gemm_pass_over(picked, &p));
    assert_int_equal(gemm_pick(&p), picked);
    p.b.type = DTYPE_F32;
    assert_non_null(gemm_reject(GEMM_PORTABLE, &p));
}

/* Where our products and the library's were each measured faster. */
static target two_cores(unsigned instruction_sets, int64_t l2_bytes) {
    target chip = *target_this_cpu();
    chip.cores = 2;
    chip.l2_bytes = l2_bytes;
    chip.instruction_sets = instruction_sets;
    return chip;
}

static target two_cores_with_avx512(int64_t l2_bytes) {
    return two_cores(1u << ISA_AVX2 | 1u << ISA_AVX512, l2_bytes);
}

static void
with_a_large_l2_the_library_is_first_for_batches_whose_rows_do_not_conflict(void **state) {
    (void)state;
    target wide = two_cores_with_avx512(2 << 20);
    gemm_problem p = {.m = 512, .n = 768, .k = 768, .batches = 48, .target = &wide};
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 3072, .column_stride = 1};
    p.b = (gemm_operand){.type = DTYPE_F32, .row_stride = 768, .column_stride = 1};
    assert_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.b = (gemm_operand){.type = DTYPE_F32, .row_stride = 1, .column_stride = 3072};
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
    assert_null(gemm_pass_over(GEMM_AVX512, &p));
    p.b.column_stride = 768;
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 1, .column_stride = 1024};
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
}

static void with_a_large_l2_ours_are_first_for_single_products(void **state) {
    (void)state;
    target wide = two_cores_with_avx512(2 << 20);
    gemm_problem p = {.m = 512, .n = 768, .k = 768, .target = &wide};
    p.a = p.b = (gemm_operand){.type = DTYPE_F32, .row_stride = 768, .column_stride = 1};
    for (p.batches = 0; p.batches <= 1; p.batches++) {
        assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
        assert_null(gemm_pass_over(GEMM_AVX512, &p));
    }
}

static void the_library_is_first_for_few_columns_of_a_transposed_operand(void **state) {
    (void)state;
    target wide = two_cores_with_avx512(1 << 20);
    gemm_problem p = {.m = 512, .n = 64, .k = 512, .target = &wide};
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 1, .column_stride = 512};
    p.b = (gemm_operand){.type = DTYPE_F32, .row_stride = 64, .column_stride = 1};
    assert_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.n = 768;
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.n = 64;
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 512, .column_stride = 1};
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
}

static void with_avx2_the_library_is_first_where_such_rows_do_not_conflict(void **state) {
    (void)state;
    target narrow = two_cores(1u << ISA_AVX2, 1 << 20);
    gemm_problem p = {.m = 512, .n = 64, .k = 512, .target = &narrow};
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 1, .column_stride = 512};
    p.b = (gemm_operand){.type = DTYPE_F32, .row_stride = 64, .column_stride = 1};
    assert_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.b.row_stride = 1024;
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.b.row_stride = 64;
    p.a.column_stride = 1024;
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
    p.a = (gemm_operand){.type = DTYPE_F32, .row_stride = 512, .column_stride = 1};
    assert_non_null(gemm_pass_over(GEMM_ONEDNN, &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_method_picked_rejects_nothing),
        cmocka_unit_test(
            with_a_large_l2_the_library_is_first_for_batches_whose_rows_do_not_conflict),
        cmocka_unit_test(with_a_large_l2_ours_are_first_for_single_products),
        cmocka_unit_test(the_library_is_first_for_few_columns_of_a_transposed_operand),
        cmocka_unit_test(with_avx2_the_library_is_first_where_such_rows_do_not_conflict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
