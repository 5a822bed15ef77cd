/* gemm.c - the ways to compute a product, and which of them is taken. */
#include "ops/matmul/gemm.h"

#include <assert.h>

#include "ops/matmul/gemm_engine.h"

static const gemm_engine *engine_of(gemm_method method) {
    switch (method) {
#if defined(__x86_64__)
    case GEMM_AMX:
        return &gemm_amx;
    case GEMM_AVX512_BF16:
        return &gemm_avx512_bf16;
    case GEMM_AVX512:
        return &gemm_avx512;
    case GEMM_AVX2:
        return &gemm_avx2;
#endif
    default:
        return &gemm_portable;
    }
}

const char *gemm_method_name(gemm_method method) {
    static const char *const name[GEMM_METHOD_COUNT] = {"AMX",     "AVX-512 BF16", "oneDNN",
                                                        "AVX-512", "AVX2",         "portable"};
    return name[method];
}

static const char *reject_isa(gemm_method method, const target *chip) {
    static const isa needed[GEMM_METHOD_COUNT][3] = {
        [GEMM_AMX] = {ISA_AVX512, ISA_AVX512_BF16, ISA_AMX_BF16},
        [GEMM_AVX512_BF16] = {ISA_AVX512, ISA_AVX512_BF16, ISA_AVX512},
        [GEMM_AVX512] = {ISA_AVX512, ISA_AVX512, ISA_AVX512},
        [GEMM_AVX2] = {ISA_AVX2, ISA_AVX2, ISA_AVX2}};
    const char *why = NULL;
    for (int i = 0; i < 3 && method != GEMM_PORTABLE && !why; i++)
        why = target_reject(chip ? chip : target_this_cpu(), needed[method][i]);
    return why;
}

const char *gemm_reject(gemm_method method, const gemm_problem *p) {
    bool is_bf16 = p->a.type == DTYPE_BF16;
    if (p->b.type != p->a.type || (p->a.type != DTYPE_F32 && !dtype_is_low(p->a.type)))
        return "multiplies f32 by f32, bf16 by bf16 and f16 by f16 only";
    if (p->c_type != DTYPE_F32 && !dtype_is_low(p->c_type))
        return "gives f32, bf16 and f16 only";
    if (method == GEMM_ONEDNN)
        return gemm_onednn_reject(p);
    if ((method == GEMM_AMX || method == GEMM_AVX512_BF16) && !(is_bf16 && p->c_type != DTYPE_F16))
        return "multiplies bf16 only, to f32 or bf16";
    return reject_isa(method, p->target);
}

gemm_method gemm_pick(const gemm_problem *p) {
    gemm_method method = 0;
    while (method < GEMM_PORTABLE && (gemm_reject(method, p) || gemm_pass_over(method, p)))
        method++;
    return method;
}

size_t gemm_workspace_bytes_by(gemm_method method, const gemm_problem *p) {
    if (method == GEMM_ONEDNN)
        return 0;
    const gemm_engine *e = engine_of(method);
    return e->shares_packing ? gemm_shared_workspace_bytes(e, p) : 0;
}

size_t gemm_workspace_bytes(const gemm_problem *p) {
    return gemm_workspace_bytes_by(gemm_pick(p), p);
}

void gemm_run_by(gemm_method method, const gemm_problem *p, void *workspace) {
    assert(!gemm_reject(method, p));
    if (method == GEMM_ONEDNN)
        gemm_onednn_run(p);
    else if (engine_of(method)->shares_packing)
        gemm_run_shared(engine_of(method), p, workspace);
    else
        gemm_run_regions(engine_of(method), p);
}

void gemm_run(const gemm_problem *p, void *workspace) { gemm_run_by(gemm_pick(p), p, workspace); }
