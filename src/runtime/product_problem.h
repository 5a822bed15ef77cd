/* product_problem.h - a matrix product in the terms of a library that knows strided batches of
 * column-major matrices. Pure arithmetic, so that it can be tested without a GPU.
 *
 * Row-major C[m, n] = A[m, k] B[k, n] is column-major C^T[n, m] = B^T[n, k] A^T[k, m]: what the
 * library multiplies first is our B. A matrix whose rows lie dense is its own transpose in
 * column-major terms and is taken as it is; one whose columns do is taken transposed. */
#ifndef RUNTIME_PRODUCT_PROBLEM_H
#define RUNTIME_PRODUCT_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

enum { PRODUCT_A, PRODUCT_B, PRODUCT_C, PRODUCT_MATRICES };

/* The product as the caller has it; strides in elements. */
typedef struct product_request {
    int64_t m, n, k;
    int64_t outer_batches, inner_batches;
    struct {
        const void *data;
        int64_t element_bytes;
        int64_t row, column, outer, inner;
    } matrix[PRODUCT_MATRICES];
} product_request;

/* One matrix of a strided batch. There is no padding: it is compared byte by byte. */
typedef struct problem_matrix {
    int64_t rows, columns; /* of the column-major matrix that lies there */
    int64_t leading, batch_stride;
    int is_transposed; /* before it is multiplied; never C */
    int alignment;     /* of every address it is found at: a power of two, at most 256 */
} problem_matrix;

/* `loops` times a strided batch of `count`; from loop to loop each matrix is `step` further. */
typedef struct product_batches {
    int64_t loops, count;
    int64_t step[PRODUCT_MATRICES];
} product_batches;

/* False when a matrix has neither dense rows nor dense columns, or C no dense rows. */
bool product_describe(const product_request *asked, product_batches *batches,
                      problem_matrix matrices[PRODUCT_MATRICES]);

/* Elements from the first to the last that a strided batch touches. */
int64_t product_extent(const problem_matrix *m, int64_t batches);

#endif
