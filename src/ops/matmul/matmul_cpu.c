/* matmul_cpu.c - products on a CPU: a kernel for each way to compute them, of every type it takes.
 *
 * Narrow types are widened while they are packed and summed in f32: a product of two f16 or two bf16
 * numbers is exact there, so this is what hardware with such operands and f32 sums computes. */
#include "ops/matmul/gemm_engine.h"
#include "ops/matmul/matmul.h"

const char *matmul_onednn_version(const char **why) { return gemm_onednn_version(why); }

static const char *reject(const kernel_args *args, gemm_method method) {
    gemm_problem p = matmul_gemm_problem(args);
    const char *why = gemm_reject(method, &p);
    return why ? why : gemm_pass_over(method, &p);
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
    const kernel matmul_##NAME = {.name = "matmul_" #NAME,                                         \
                                  .target = TARGET_CPU,                                            \
                                  .reject = NAME##_reject,                                         \
                                  .workspace_bytes = NAME##_bytes,                                 \
                                  .run = NAME##_run,                                               \
                                  .writes_strided = true};

KERNEL(amx, GEMM_AMX)
KERNEL(avx512_bf16, GEMM_AVX512_BF16)
KERNEL(onednn, GEMM_ONEDNN)
KERNEL(avx512, GEMM_AVX512)
KERNEL(avx2, GEMM_AVX2)
KERNEL(portable, GEMM_PORTABLE)
