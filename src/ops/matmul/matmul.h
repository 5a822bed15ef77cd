/* matmul.h - products of matrices, one or a batch of them.
 *
 * C[..., M, N] = alpha A' B' with A' = A[..., M, K], or A[..., K, M] if it is taken transposed; B
 * likewise. Batch dimensions are equal; a broadcast view gives one operand to many. C has the
 * operands' type, or f32 where they are narrower; sums are f32 at the least. */
#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H

#include "graph/graph.h"
#include "ops/kernel.h"
#include "ops/matmul/gemm.h"

value *build_matmul(graph *g, value *a, value *b, bool transpose_a, bool transpose_b);
/* The same, scaled by alpha and given as `type`. */
value *build_matmul_scaled(graph *g, value *a, value *b, bool transpose_a, bool transpose_b,
                           dtype type, double alpha);
/* The attribute "alpha", 1 where there is none. */
double matmul_alpha(const attributes *list);

/* How a kernel sees it: for each batch, row-major sgemm with leading dimensions. An operand's
 * matrix may lie any way round (a transposed view costs nothing), but one of its two strides
 * must be 1 for `has_unit_strides`. */
typedef struct matmul_problem {
    int64_t batches, m, n, k;
    bool has_unit_strides;
    bool transpose_a, transpose_b; /* as stored: after views were folded in */
    int64_t lda, ldb, ldc;
    int64_t row_a, column_a, row_b, column_b; /* strides of A' and B' */
} matmul_problem;

matmul_problem matmul_describe(const kernel_args *args);

/* Offsets, in elements, of one batch's matrices. */
typedef gemm_offsets matmul_offsets;
matmul_offsets matmul_batch_offsets(const kernel_args *args, int64_t batch);

/* How cuBLASLt sees it: strides of A', B' and C, in that order, and the batches in two levels. */
typedef struct matmul_strided {
    int64_t m, n, k;
    int64_t row[3], column[3];
    int64_t outer, inner; /* batches */
    int64_t outer_stride[3], inner_stride[3];
} matmul_strided;

/* False when the batches do not fold into two levels. */
bool matmul_describe_strided(const kernel_args *args, matmul_strided *out);

/* A matrix as a library takes it: rows or columns lie dense, from one to the next it is `leading`
 * elements. False when neither does. */
typedef struct matmul_leading {
    bool has_dense_rows; /* else dense columns */
    int64_t leading;
} matmul_leading;
bool matmul_find_leading(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                         matmul_leading *out);

/* The whole launch for gemm.h; borrows `args`. */
gemm_problem matmul_gemm_problem(const kernel_args *args);

/* A CPU's, fastest first for the types each takes (gemm.h). */
extern const kernel matmul_amx, matmul_avx512_bf16, matmul_onednn, matmul_avx512, matmul_avx2;
extern const kernel matmul_portable;

/* CUDA: f32, bf16, f16; output rows at any distance; an optional third input is added */
extern const kernel matmul_cublas;

/* The version of oneDNN that was found, "3.5.0"; NULL and the reason in *why otherwise. */
const char *matmul_onednn_version(const char **why);

#endif
