/* fused_kernel.h - a fused group, ready to be rendered in any language.
 *
 * The kernel processes rows of columns. A row is computed in stages: each stage is one loop over
 * the columns; between stages are the row's scalars (its sum, its maximum, and what is computed
 * from them).
 *
 *   for each row:
 *     stage 0: x = a + b; sum += x * x            the loop, with its reductions
 *     r = 1 / sqrt(sum / C + eps)                 scalars of the row
 *     stage 1: y = x * r * w                      the next loop
 *
 * Full values needed in a later stage are kept in the row they are stored to, or in a row buffer.
 * */
#ifndef COMPILER_CODEGEN_FUSED_KERNEL_H
#define COMPILER_CODEGEN_FUSED_KERNEL_H

#include "base/target.h"
#include "base/text.h"
#include "compiler/passes/fusion_space.h"
#include "graph/op.h"
#include "tensor/tensor.h"

enum { FUSED_MAX_READS = 3 };

typedef enum fused_source { FUSED_MEMBER, FUSED_OPERAND, FUSED_LITERAL } fused_source;

typedef struct fused_read {
    fused_source source;
    int index;      /* of the member or operand */
    double literal; /* FUSED_LITERAL */
} fused_read;

typedef struct fused_member {
    const char *op_name;
    fusion_kind kind;
    const char *expression; /* element-wise: over a, b, c and s */
    double s;
    op_reduction reduction;
    dtype type;
    bool is_row;  /* one number a row */
    int stage;    /* the loop it is computed in; of a row's number: the loop it must precede */
    int output;   /* where it is stored, or -1 */
    bool is_kept; /* read in a later stage, and not stored: needs a row buffer */
    int read_count;
    fused_read reads[FUSED_MAX_READS];
} fused_member;

/* Memory that is read: element (r, c) lies at sum_i (r / below_i % dim_i) * stride_i +
 * c * column_stride, below_i being the product of the dims after i. */
typedef struct fused_operand {
    dtype type;
    int row_rank;
    int64_t row_dim[SHAPE_MAX_RANK], row_stride[SHAPE_MAX_RANK];
    int64_t column_stride;
    int alignment; /* of the memory's first byte: a power of two, at most 16 */
} fused_operand;

/* Memory that is written: rows lie as an operand's do, the columns of a row side by side. A dense
 * full output has one row dimension of stride `columns`, a row's numbers one of stride 1. Partial
 * sums of columns (FUSION_BLOCK_REDUCE) are always dense, a row of columns for each unit. */
typedef struct fused_output {
    dtype type;
    int member;
    int row_rank;
    int64_t row_dim[SHAPE_MAX_RANK], row_stride[SHAPE_MAX_RANK];
    int alignment;
} fused_output;

typedef struct fused_kernel {
    int64_t rows, columns;
    int64_t rows_per_unit; /* threads are given whole units; block sums are over one */
    int stage_count;
    fused_member *members;
    int member_count;
    fused_operand *operands;
    int operand_count;
    fused_output *outputs;
    int output_count;
} fused_kernel;

/* Fills in stages, what is kept, and the rows of a unit (unless block sums fixed it). */
void fused_kernel_arrange(fused_kernel *k);

typedef struct fused_launch {
    int64_t units;
    int threads; /* of a GPU's block */
    /* Operands are read again in later stages than the first that reads them: only what the last
     * stage stores may lie over one. */
    bool reads_again;
} fused_launch;

/* A renderer: the language that fused kernels are written in. */
typedef struct renderer {
    const char *(*prelude)(void); /* what a module of kernels begins with */
    void (*render)(const fused_kernel *k, const char *name, text *out);
    fused_launch (*describe_launch)(const fused_kernel *k);
    bool takes_long_rows; /* rows may be longer than a row buffer */
    bool takes_each_node; /* element-wise nodes that are not fused are generated as well */
} renderer;

/* C: void NAME(void *const *p, int64_t begin, int64_t end) does units [begin, end); p holds the
 * operands' and then the outputs' memory. */
extern const renderer renderer_c;
/* CUDA C: extern "C" __global__ void NAME(const T0 *in0, ..., U0 *out0, ...) of the operands and
 * then the outputs, run by `units` blocks of `threads` threads. */
extern const renderer renderer_cuda;

const renderer *renderer_of(const target *chip);

#endif
