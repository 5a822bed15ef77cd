/* matmul_onednn.c - f32 products by the library, where it is installed. */
#include "ops/matmul/gemm_engine.h"
#include "ops/matmul/matmul.h"

const char *matmul_onednn_version(const char **why) { return gemm_onednn_version(why); }

static const char *reject(const kernel_args *args) {
    gemm_problem p = matmul_gemm_problem(args);
    return gemm_reject(GEMM_ONEDNN, &p);
}

static dyno_status run(const kernel_args *args) {
    gemm_problem p = matmul_gemm_problem(args);
    gemm_run_by(GEMM_ONEDNN, &p, NULL);
    return DYNO_OK;
}

const kernel matmul_onednn = {.name = "matmul_onednn",
                              .target = TARGET_CPU,
                              .reject = reject,
                              .run = run,
                              .writes_strided = true};
