/* matmul_cublas.c - matmul on a GPU, by the CUDA module's products. */
#include "base/status.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/product_workspace.h"
#include "runtime/cuda/cuda_call.h"
#include "runtime/cuda/products.h"

cuda_run dyno_matmul_cublas;

static cuda_matrix matrix(const cuda_tensor *t, const matmul_strided *s, int which) {
    return (cuda_matrix){.data = t->data,
                         .type = t->type,
                         .row = s->row[which],
                         .column = s->column[which],
                         .outer = s->outer_stride[which],
                         .inner = s->inner_stride[which]};
}

dyno_status dyno_matmul_cublas(const cuda_args *args) {
    matmul_strided s;
    if (!matmul_describe_strided((const kernel_args *)args, &s))
        return dyno_fail(DYNO_INVALID, "an operand has neither dense rows nor columns");
    int64_t workspace = product_workspace_bytes(s.m * s.n * s.outer * s.inner);
    cuda_product p = {.m = s.m,
                      .n = s.n,
                      .k = s.k,
                      .outer_batches = s.outer,
                      .inner_batches = s.inner,
                      .a = matrix(&args->inputs[0], &s, 0),
                      .b = matrix(&args->inputs[1], &s, 1),
                      .c = matrix(&args->outputs[0], &s, 2),
                      .alpha = (float)cuda_real_or(args, "alpha", 1),
                      .tf32 = cuda_integer_or(args, "tf32", 0) != 0,
                      .workspace = args->workspace,
                      .workspace_bytes = args->workspace ? (size_t)workspace : 0};
    return cuda_product_run(&p, args->context);
}
