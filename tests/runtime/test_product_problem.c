/* test_product_problem.c - products as a column-major library is asked for them: multiplying as it
 * would gives what was wanted. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ops/matmul/matmul.h"
#include "runtime/product_problem.h"
#include "support/draw.h"

enum { ROOM = 1 << 16 };

typedef struct stage {
    int64_t a[ROOM], b[ROOM], c[ROOM], wanted[ROOM];
} stage;

/* What cuBLASLt does: for each batch, op(first) op(second), all column-major. */
static void multiply_column_major(const problem_matrix *first, const int64_t *x,
                                  const problem_matrix *second, const int64_t *y,
                                  const problem_matrix *result, int64_t *z, int64_t batches) {
    int64_t rows = first->is_transposed ? first->columns : first->rows;
    int64_t inner = first->is_transposed ? first->rows : first->columns;
    int64_t columns = second->is_transposed ? second->rows : second->columns;
    assert_int_equal(inner, second->is_transposed ? second->columns : second->rows);
    assert_int_equal(rows, result->rows);
    assert_int_equal(columns, result->columns);
    assert_false(result->is_transposed);
    assert_true(first->leading >= first->rows && second->leading >= second->rows &&
                result->leading >= result->rows);
    for (int64_t batch = 0; batch < batches; batch++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                int64_t sum = 0;
                for (int64_t l = 0; l < inner; l++) {
                    int64_t at_x =
                        first->is_transposed ? l + i * first->leading : i + l * first->leading;
                    int64_t at_y =
                        second->is_transposed ? j + l * second->leading : l + j * second->leading;
                    sum += x[at_x + batch * first->batch_stride] *
                           y[at_y + batch * second->batch_stride];
                }
                z[i + j * result->leading + batch * result->batch_stride] = sum;
            }
}

static void multiply_as_asked(const product_request *r, const int64_t *a, const int64_t *b,
                              int64_t *c) {
    for (int64_t o = 0; o < r->outer_batches; o++)
        for (int64_t q = 0; q < r->inner_batches; q++)
            for (int64_t i = 0; i < r->m; i++)
                for (int64_t j = 0; j < r->n; j++) {
                    int64_t at[PRODUCT_MATRICES], sum = 0;
                    for (int x = 0; x < PRODUCT_MATRICES; x++)
                        at[x] = o * r->matrix[x].outer + q * r->matrix[x].inner;
                    for (int64_t l = 0; l < r->k; l++)
                        sum += a[at[PRODUCT_A] + i * r->matrix[PRODUCT_A].row +
                                 l * r->matrix[PRODUCT_A].column] *
                               b[at[PRODUCT_B] + l * r->matrix[PRODUCT_B].row +
                                 j * r->matrix[PRODUCT_B].column];
                    c[at[PRODUCT_C] + i * r->matrix[PRODUCT_C].row +
                      j * r->matrix[PRODUCT_C].column] = sum;
                }
}

static void expect_right(stage *s, product_request *r) {
    const void *data[] = {s->a, s->b, s->c};
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        r->matrix[i].data = data[i];
        r->matrix[i].element_bytes = sizeof(int64_t);
    }
    product_batches batches;
    problem_matrix m[PRODUCT_MATRICES];
    assert_true(product_describe(r, &batches, m));
    assert_int_equal(batches.loops * batches.count, r->outer_batches * r->inner_batches);
    memset(s->c, 0, sizeof s->c);
    memset(s->wanted, 0, sizeof s->wanted);
    multiply_as_asked(r, s->a, s->b, s->wanted);
    for (int64_t i = 0; i < batches.loops; i++)
        multiply_column_major(&m[PRODUCT_B], s->b + i * batches.step[PRODUCT_B], &m[PRODUCT_A],
                              s->a + i * batches.step[PRODUCT_A], &m[PRODUCT_C],
                              s->c + i * batches.step[PRODUCT_C], batches.count);
    assert_memory_equal(s->c, s->wanted, sizeof s->c);
}

/* Dense rows or dense columns, with room to spare between them. */
static void lay_out(draw *d, int64_t rows, int64_t columns, bool is_output, product_request *r,
                    int which) {
    bool has_dense_rows = is_output || draw_chance(d, 0.5);
    int64_t dense = has_dense_rows ? columns : rows, other = has_dense_rows ? rows : columns;
    int64_t leading = dense + draw_below(d, 4);
    r->matrix[which].row = has_dense_rows ? leading : 1;
    r->matrix[which].column = has_dense_rows ? 1 : leading;
    int64_t bytes = leading * other + draw_below(d, 3);
    bool is_swapped = draw_chance(d, 0.5); /* heads inside tokens, say */
    r->matrix[which].inner = is_swapped ? bytes * r->outer_batches : bytes;
    r->matrix[which].outer = is_swapped ? bytes : bytes * r->inner_batches;
    if (!is_output && draw_chance(d, 0.2)) /* one matrix for all */
        r->matrix[which].inner = r->matrix[which].outer = 0;
}

static void any_layout_is_multiplied_right(void **state) {
    (void)state;
    stage *s = calloc(1, sizeof *s);
    draw d = draw_create(11, 100);
    for (int64_t i = 0; i < ROOM; i++) {
        s->a[i] = draw_below(&d, 19) - 9;
        s->b[i] = draw_below(&d, 19) - 9;
    }
    for (int round = 0; round < 300; round++) {
        product_request r = {.m = 1 + draw_below(&d, 7),
                             .n = 1 + draw_below(&d, 7),
                             .k = 1 + draw_below(&d, 7),
                             .outer_batches = 1 + draw_below(&d, 4),
                             .inner_batches = 1 + draw_below(&d, 4)};
        lay_out(&d, r.m, r.k, false, &r, PRODUCT_A);
        lay_out(&d, r.k, r.n, false, &r, PRODUCT_B);
        lay_out(&d, r.m, r.n, true, &r, PRODUCT_C);
        expect_right(s, &r);
    }
    free(s);
}

static product_request dense(int64_t m, int64_t n, int64_t k) {
    product_request r = {.m = m, .n = n, .k = k, .outer_batches = 1, .inner_batches = 1};
    const int64_t columns[] = {k, n, n};
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        r.matrix[i].row = columns[i];
        r.matrix[i].column = 1;
        r.matrix[i].element_bytes = 2;
    }
    return r;
}

static void batches_that_follow_each_other_are_one_batch(void **state) {
    (void)state;
    product_batches batches;
    problem_matrix m[PRODUCT_MATRICES];
    product_request r = dense(4, 4, 4);
    r.outer_batches = 3;
    r.inner_batches = 5;
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        r.matrix[i].inner = 16;
        r.matrix[i].outer = 80;
    }
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(batches.loops, 1);
    assert_int_equal(batches.count, 15);
    r.matrix[PRODUCT_B].outer = 0; /* no longer */
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(batches.loops, 3);
    r.outer_batches = 7; /* looped over the fewer */
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(batches.loops, 5);
    assert_int_equal(m[PRODUCT_B].batch_stride, 0);
    assert_int_equal(m[PRODUCT_A].batch_stride, 80);
}

static void alignment_is_that_of_the_worst_address(void **state) {
    (void)state;
    product_batches batches;
    problem_matrix m[PRODUCT_MATRICES];
    product_request r = dense(4, 4, 4);
    r.matrix[PRODUCT_A].data = (const void *)(uintptr_t)0x10000;
    r.matrix[PRODUCT_B].data = (const void *)(uintptr_t)0x10010;
    r.matrix[PRODUCT_C].data = (const void *)(uintptr_t)0x10100;
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(m[PRODUCT_A].alignment, 256);
    assert_int_equal(m[PRODUCT_B].alignment, 16);
    assert_int_equal(m[PRODUCT_C].alignment, 256);
    r.matrix[PRODUCT_C].data = (const void *)(uintptr_t)0x10002;
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(m[PRODUCT_C].alignment, 2);
    r.outer_batches = r.inner_batches = 2; /* loops: steps count as well */
    r.matrix[PRODUCT_A].inner = 32;
    r.matrix[PRODUCT_A].outer = 20;
    assert_true(product_describe(&r, &batches, m));
    assert_int_equal(batches.loops, 2);
    assert_int_equal(m[PRODUCT_A].alignment, 8); /* 20 elements of 2 bytes */
}

static void what_a_library_cannot_take_is_refused(void **state) {
    (void)state;
    product_batches batches;
    problem_matrix m[PRODUCT_MATRICES];
    product_request r = dense(4, 5, 6);
    r.matrix[PRODUCT_A].row = 12;
    r.matrix[PRODUCT_A].column = 2;
    assert_false(product_describe(&r, &batches, m));
    r = dense(4, 5, 6);
    r.matrix[PRODUCT_A].row = 0; /* one row for all: no leading dimension says that */
    assert_false(product_describe(&r, &batches, m));
    r = dense(4, 5, 6);
    r.matrix[PRODUCT_C].row = 1;
    r.matrix[PRODUCT_C].column = 4;
    assert_false(product_describe(&r, &batches, m));
}

/* The whole way from a launch: matmul's layouts, transposed views, three batch dimensions. */
static void the_descriptor_takes_what_transformers_multiply(void **state) {
    (void)state;
    const attribute none[] = {ATTR_INTEGER("transpose_a", 0), ATTR_INTEGER("transpose_b", 1)};
    attributes list = {2, (attribute *)(uintptr_t)none};
    shape q = SHAPE(4, 12, 128, 64), scores = SHAPE(4, 12, 128, 128);
    tensor in[3] = {tensor_contiguous(NULL, DTYPE_BF16, &q),
                    tensor_contiguous(NULL, DTYPE_BF16, &q)};
    tensor out = tensor_contiguous(NULL, DTYPE_BF16, &scores);
    for (int i = 0; i < 2;
         i++) { /* [batch, token, head, size] seen as [batch, head, token, size] */
        in[i].stride[1] = 64;
        in[i].stride[2] = 12 * 64;
    }
    kernel_args args = {.input_count = 2,
                        .output_count = 1,
                        .inputs = in,
                        .outputs = &out,
                        .attributes = &list,
                        .target = target_this_cpu()};
    matmul_strided s;
    assert_null(matmul_cublas.reject(&args));
    assert_true(matmul_describe_strided(&args, &s));
    assert_true(s.m == 128 && s.n == 128 && s.k == 64 && s.outer == 4 && s.inner == 12);
    assert_true(s.row[0] == 768 && s.column[0] == 1 && s.row[1] == 1 && s.column[1] == 768);
    assert_true(s.inner_stride[0] == 64 && s.outer_stride[0] == 128 * 768);
    assert_true(s.inner_stride[2] == 128 * 128 && s.row[2] == 128);
    in[2] = out;
    args.input_count = 3;
    assert_null(matmul_cublas.reject(&args));
    in[2].stride[0] = 0;
    assert_non_null(matmul_cublas.reject(&args));
    args.input_count = 2;
    out.stride[2] = 200; /* rows apart */
    out.stride[1] = 200 * 128;
    out.stride[0] = 200 * 128 * 12;
    assert_null(matmul_cublas.reject(&args));
    out.stride[3] = 2;
    assert_non_null(matmul_cublas.reject(&args));
    in[0].type = in[1].type = DTYPE_F64;
    assert_non_null(matmul_cublas.reject(&args));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_is_multiplied_right),
        cmocka_unit_test(batches_that_follow_each_other_are_one_batch),
        cmocka_unit_test(alignment_is_that_of_the_worst_address),
        cmocka_unit_test(what_a_library_cannot_take_is_refused),
        cmocka_unit_test(the_descriptor_takes_what_transformers_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
