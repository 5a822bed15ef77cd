/* matmul_blocked.c - f32 products without a library, for operands of any strides. */
#include "ops/matmul/matmul.h"

static gemm_method method_for(const gemm_problem *p) {
    return gemm_reject(GEMM_AVX512, p) ? GEMM_PORTABLE : GEMM_AVX512;
}

static size_t workspace_bytes(const kernel_args *args) {
    gemm_problem p = matmul_gemm_problem(args);
    return gemm_workspace_bytes_by(method_for(&p), &p);
}

static dyno_status run(const kernel_args *args) {
    gemm_problem p = matmul_gemm_problem(args);
    gemm_run_by(method_for(&p), &p, args->workspace);
    return DYNO_OK;
}

const kernel matmul_blocked = {.name = "matmul_blocked",
                               .target = TARGET_CPU,
                               .reject = kernel_reject_unless_f32,
                               .workspace_bytes = workspace_bytes,
                               .run = run,
                               .writes_strided = true};
