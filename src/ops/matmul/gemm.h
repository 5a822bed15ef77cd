/* gemm.h - one matrix product, or a batch of them, for any kernel that needs one.
 *
 *   C[m,n] = alpha * A' B'  (+ C)
 *
 * A' is m x k and B' is k x n, both f32, both bf16 or both f16, lying in memory with any strides; C
 * is f32, bf16 or f16 with dense rows. Sums are f32, and their order depends on the shape alone: the same bits
 * for every number of threads. Runs on all threads of base/threads.h. Allocates nothing: the
 * workspace is the caller's, of gemm_workspace_bytes() and any alignment. */
#ifndef OPS_GEMM_H
#define OPS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/target.h"
#include "tensor/dtype.h"

typedef struct gemm_operand {
    const void *data; /* NULL where only the layout is asked about */
    dtype type;
    int64_t row_stride, column_stride; /* in elements, of A' or B' as multiplied */
} gemm_operand;

/* Where one product of a batch begins, in elements from the data pointers. */
typedef struct gemm_offsets {
    int64_t a, b, c;
} gemm_offsets;

typedef struct gemm_problem {
    int64_t m, n, k; /* each at least 1 */
    gemm_operand a, b;
    void *c;
    dtype c_type;
    int64_t ldc; /* elements from one row of C to the next */
    float alpha;
    bool accumulates;     /* adds to what C holds */
    const target *target; /* NULL: this CPU */

    /* A batch: 0 and 1 are one product. `locate` says where each one's operands are. */
    int64_t batches;
    gemm_offsets (*locate)(const void *context, int64_t batch);
    const void *locate_context;
} gemm_problem;

/* The ways to compute it, fastest first for the types each takes. */
typedef enum gemm_method {
    GEMM_AMX,         /* bf16: tiles */
    GEMM_AVX512_BF16, /* bf16: dot products of pairs */
    GEMM_ONEDNN,      /* f32: dnnl_sgemm, found at run time */
    GEMM_AVX512,      /* f32, bf16, f16: made f32 while packing, then FMAs */
    GEMM_AVX2,        /* the same */
    GEMM_PORTABLE,    /* f32, bf16, f16 in plain C */
    GEMM_METHOD_COUNT
} gemm_method;

const char *gemm_method_name(gemm_method method); /* "AVX-512 BF16" */

/* NULL when the target can compute it this way; else the reason why not. */
const char *gemm_reject(gemm_method method, const gemm_problem *p);
/* NULL, or the reason why a method that could is passed over: another was measured faster. */
const char *gemm_pass_over(gemm_method method, const gemm_problem *p);
/* The first method that can and is not passed over. */
gemm_method gemm_pick(const gemm_problem *p);

size_t gemm_workspace_bytes(const gemm_problem *p);
void gemm_run(const gemm_problem *p, void *workspace);

/* The same by a given method, which must not reject the problem. */
size_t gemm_workspace_bytes_by(gemm_method method, const gemm_problem *p);
void gemm_run_by(gemm_method method, const gemm_problem *p, void *workspace);

#endif
