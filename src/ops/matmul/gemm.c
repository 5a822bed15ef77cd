/* gemm.c - which way to multiply is taken. */
#include "ops/matmul/gemm.h"

#include <assert.h>

#include "base/clock.h"
#include "base/isa.h"
#include "ops/matmul/gemm_engine.h"

enum { ALIGNMENT = 64, MAX_BLOCK = 32 * 32 };

static const gemm_engine *engine_of(gemm_method method) {
    switch (method) {
#if defined(__x86_64__)
    case GEMM_AMX:
        return &gemm_amx;
    case GEMM_AVX512_BF16:
        return &gemm_avx512_bf16;
    case GEMM_AVX512:
        return &gemm_avx512;
#endif
    default:
        return &gemm_portable;
    }
}

const char *gemm_method_name(gemm_method method) {
    static const char *const name[GEMM_METHOD_COUNT] = {"oneDNN", "AMX", "AVX-512 BF16", "AVX-512",
                                                        "portable"};
    return name[method];
}

/* Asked once a process: for AMX the answer takes a system call. */
static const isa_answer *ask_isa(isa which) {
    static isa_answer answer[ISA_COUNT];
    static bool is_known[ISA_COUNT];
    if (!is_known[which]) {
        answer[which] = isa_check(which);
        is_known[which] = true;
    }
    return &answer[which];
}

static const char *reject_isa(gemm_method method) {
    static const isa needed[GEMM_METHOD_COUNT][3] = {
        [GEMM_AMX] = {ISA_AVX512, ISA_AVX512_BF16, ISA_AMX_BF16},
        [GEMM_AVX512_BF16] = {ISA_AVX512, ISA_AVX512_BF16, ISA_AVX512},
        [GEMM_AVX512] = {ISA_AVX512, ISA_AVX512, ISA_AVX512}};
    for (int i = 0; i < 3 && method != GEMM_PORTABLE; i++)
        if (!ask_isa(needed[method][i])->is_usable)
            return ask_isa(needed[method][i])->why_not;
    return NULL;
}

const char *gemm_reject(gemm_method method, const gemm_problem *p) {
    bool is_f32 = p->a.type == DTYPE_F32, is_bf16 = p->a.type == DTYPE_BF16;
    if (p->b.type != p->a.type || (!is_f32 && !is_bf16))
        return "multiplies f32 by f32 and bf16 by bf16 only";
    if (p->c_type != DTYPE_F32 && p->c_type != DTYPE_BF16)
        return "gives f32 and bf16 only";
    if (method == GEMM_ONEDNN)
        return gemm_onednn_reject(p);
    if (is_f32 && (method == GEMM_AMX || method == GEMM_AVX512_BF16))
        return "multiplies bf16 only";
    return reject_isa(method);
}

#if defined(__x86_64__)

/* Seconds, in effect, for one multiplication of an engine, its strips in L1. */
static double time_of(const gemm_engine *e, const void *a, const void *b, float *sum) {
    enum { DEPTH = 256, REPEATS = 4 };
    int64_t begin = clock_now_ns();
    for (int i = 0; i < REPEATS; i++)
        e->multiply(DEPTH, a, b, NULL, 0, sum, e->columns);
    return (double)(clock_now_ns() - begin) / (e->rows * e->columns);
}

/* AMD gives dot products of bf16 twice the rate of FMAs, Intel half of it. The two are far apart,
 * and the best of several short turns is taken: the answer is the same at every start. */
static bool dots_are_slower(void) {
    static bool is_known, are_slower;
    if (!is_known) {
        _Alignas(ALIGNMENT) static const float strips[2][256 * 32]; /* zeros do */
        _Alignas(ALIGNMENT) float sum[MAX_BLOCK];
        double dots = 0, fmas = 0;
        for (int turn = 0; turn < 20; turn++) {
            double x = time_of(&gemm_avx512_bf16, strips[0], strips[1], sum);
            double y = time_of(&gemm_avx512, strips[0], strips[1], sum);
            dots = turn && dots < x ? dots : x;
            fmas = turn && fmas < y ? fmas : y;
        }
        are_slower = dots > fmas;
        is_known = true;
    }
    return are_slower;
}

const char *gemm_pass_over(gemm_method method) {
    if (method == GEMM_AVX512_BF16 && !reject_isa(method) && dots_are_slower())
        return "this CPU multiplies f32 faster than pairs of bf16, as measured";
    return NULL;
}

#else

const char *gemm_pass_over(gemm_method method) {
    (void)method;
    return NULL;
}

#endif

gemm_method gemm_pick(const gemm_problem *p) {
    gemm_method method = 0;
    while (method < GEMM_PORTABLE && (gemm_reject(method, p) || gemm_pass_over(method)))
        method++;
    return method;
}

size_t gemm_workspace_bytes_by(gemm_method method, const gemm_problem *p) {
    if (method == GEMM_ONEDNN)
        return 0;
    return gemm_blocked_workspace_bytes(engine_of(method), p);
}

size_t gemm_workspace_bytes(const gemm_problem *p) {
    return gemm_workspace_bytes_by(gemm_pick(p), p);
}

void gemm_run_by(gemm_method method, const gemm_problem *p, void *workspace) {
    assert(!gemm_reject(method, p));
    if (method == GEMM_ONEDNN)
        gemm_onednn_run(p);
    else
        gemm_blocked_run(engine_of(method), p, workspace);
}

void gemm_run(const gemm_problem *p, void *workspace) { gemm_run_by(gemm_pick(p), p, workspace); }
