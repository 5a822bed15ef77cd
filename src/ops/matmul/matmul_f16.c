/* matmul_f16.c - products of f16 operands: made f32, multiplied, rounded.
 *
 * A product of two f16 numbers is exact in f32, so this is what hardware with f16 operands and
 * f32 sums computes. It is here for fp16's numbers, not for its speed: no CPU we know is faster in
 * f16 than in bf16, which is there for that.
 *
 * Workspace: [A in f32 | B in f32 | C in f32, unless that is the result | the product's own]. */
#include "ops/cast/convert.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/matmul.h"

enum { A, B, C, PARTS, ALIGNMENT = 64 };

/* The operands in f32, dense, without data; the product of them; where they lie. */
typedef struct widened {
    tensor operand[PARTS];
    size_t offset[PARTS + 1];
} widened;

static widened widen(const kernel_args *args) {
    const tensor *given[PARTS] = {&args->inputs[0], &args->inputs[1], &args->outputs[0]};
    widened w = {0};
    for (int i = 0; i < PARTS; i++) {
        bool is_wide = given[i]->type == DTYPE_F32; /* C may be */
        w.operand[i] = is_wide ? *given[i] : tensor_contiguous(NULL, DTYPE_F32, &given[i]->shape);
        size_t bytes = is_wide ? 0 : (size_t)tensor_bytes(&w.operand[i]);
        w.offset[i + 1] = w.offset[i] + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return w;
}

static kernel_args inner_args(const kernel_args *args, const widened *w) {
    return (kernel_args){.input_count = 2,
                         .output_count = 1,
                         .inputs = w->operand,
                         .outputs = &w->operand[C],
                         .attributes = args->attributes,
                         .target = args->target};
}

static size_t workspace_bytes(const kernel_args *args) {
    widened w = widen(args);
    kernel_args inner = inner_args(args, &w);
    gemm_problem product = matmul_gemm_problem(&inner);
    return w.offset[PARTS] + gemm_workspace_bytes(&product);
}

static dyno_status run(const kernel_args *args) {
    widened w = widen(args);
    char *workspace = args->workspace;
    bool is_wide = args->outputs[0].type == DTYPE_F32;
    for (int i = 0; i < PARTS; i++)
        w.operand[i].data = i == C && is_wide ? args->outputs[0].data : workspace + w.offset[i];
    for (int i = A; i <= B; i++) {
        kernel_args conversion = {.input_count = 1,
                                  .output_count = 1,
                                  .inputs = &args->inputs[i],
                                  .outputs = &w.operand[i],
                                  .attributes = args->attributes};
        RETURN_IF_FAILED(convert_run_f16_to_f32(&conversion));
    }
    kernel_args inner = inner_args(args, &w);
    gemm_problem product = matmul_gemm_problem(&inner);
    gemm_run(&product, workspace + w.offset[PARTS]);
    if (!is_wide) {
        kernel_args conversion = *args;
        conversion.input_count = 1;
        conversion.inputs = &w.operand[C];
        return convert_run_f32_to_f16(&conversion);
    }
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    return args->inputs[0].type == DTYPE_F16 ? NULL : "multiplies f16 only";
}

const kernel matmul_f16_widened = {.name = "matmul_f16_widened",
                                   .target = TARGET_CPU,
                                   .reject = reject,
                                   .workspace_bytes = workspace_bytes,
                                   .run = run,
                                   .writes_strided = true};
