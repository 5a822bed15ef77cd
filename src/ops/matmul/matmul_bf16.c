/* matmul_bf16.c - products of bf16, a kernel for each way to compute them. */
#include "ops/matmul/matmul.h"

static const char *reject(const kernel_args *args, gemm_method method) {
    gemm_problem p = matmul_gemm_problem(args);
    if (p.a.type != DTYPE_BF16)
        return "multiplies bf16 only";
    const char *why = gemm_reject(method, &p);
    return why ? why : gemm_pass_over(method);
}

static size_t workspace_bytes(const kernel_args *args, gemm_method method) {
    gemm_problem p = matmul_gemm_problem(args);
    return gemm_workspace_bytes_by(method, &p);
}

static dyno_status run(const kernel_args *args, gemm_method method) {
    gemm_problem p = matmul_gemm_problem(args);
    gemm_run_by(method, &p, args->workspace);
    return DYNO_OK;
}

#define KERNEL(NAME, METHOD)                                                                       \
    static const char *NAME##_reject(const kernel_args *args) { return reject(args, METHOD); }     \
    static size_t NAME##_bytes(const kernel_args *args) { return workspace_bytes(args, METHOD); }  \
    static dyno_status NAME##_run(const kernel_args *args) { return run(args, METHOD); }           \
    const kernel matmul_bf16_##NAME = {.name = "matmul_bf16_" #NAME,                               \
                                       .target = TARGET_CPU,                                       \
                                       .reject = NAME##_reject,                                    \
                                       .workspace_bytes = NAME##_bytes,                            \
                                       .run = NAME##_run,                                          \
                                       .writes_strided = true};

KERNEL(amx, GEMM_AMX)
KERNEL(dot, GEMM_AVX512_BF16)
KERNEL(fma, GEMM_AVX512)
KERNEL(portable, GEMM_PORTABLE)
