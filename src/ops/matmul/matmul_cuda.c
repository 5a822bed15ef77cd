/* matmul_cuda.c - what cuBLASLt takes: the descriptor of matmul_cublas, whose code is in the CUDA
 * module, so that plans for a GPU can be made without one. */
#include "ops/matmul/matmul.h"
#include "ops/matmul/product_workspace.h"

static bool is_same_layout(const tensor *a, const tensor *b) {
    bool is_same = a->type == b->type && shape_equal(&a->shape, &b->shape);
    for (int i = 0; is_same && i < a->shape.rank; i++)
        is_same = a->shape.dim[i] == 1 || a->stride[i] == b->stride[i];
    return is_same;
}

static const char *reject(const kernel_args *args) {
    const tensor *a = &args->inputs[0], *c = &args->outputs[0];
    if (!dtype_is_f32_or_low(a->type))
        return "multiplies f32, bf16 and f16 only";
    matmul_strided s;
    matmul_leading found;
    if (!matmul_describe_strided(args, &s))
        return "the batches do not fold into two levels";
    if (!matmul_find_leading(s.m, s.k, s.row[0], s.column[0], &found) ||
        !matmul_find_leading(s.k, s.n, s.row[1], s.column[1], &found))
        return "an operand has dense rows no more than dense columns";
    if (s.n > 1 && s.column[2] != 1)
        return "the output's rows are not dense";
    if (s.m > 1 && s.row[2] < s.n)
        return "the output's rows overlap";
    if (args->input_count == 3 && !is_same_layout(&args->inputs[2], c))
        return "what is added lies differently from the output";
    return NULL;
}

static size_t workspace_bytes(const kernel_args *args) {
    return (size_t)product_workspace_bytes(shape_elements(&args->outputs[0].shape));
}

const kernel matmul_cublas = {.name = "matmul_cublas",
                              .target = TARGET_CUDA,
                              .reject = reject,
                              .workspace_bytes = workspace_bytes,
                              .writes_strided = true};
