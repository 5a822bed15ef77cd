/* products_tune.c - which algorithm of cuBLASLt for a problem.
 *
 * The library proposes up to MOST_CANDIDATES in the order it believes in, and runtime/autotune.h
 * chooses. Repeats are timed back to back behind a pause, so that the GPU never waits for the host,
 * as in a replayed graph. Operands are random: multipliers use less power on zeros and run faster
 * than they would.
 *
 * Sums split over blocks and added up in the output's type, or in place, are masked off: what is
 * added up in f32 in the workspace has one order, and loses nothing. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/products_internal.h"

enum {
    MOST_CANDIDATES = 32,
    LAUNCH_NS = 12000 /* more than the host needs to enqueue a product */
};

/* ---- the cache ---- */

static void describe_matrix(text *out, char name, const problem_matrix *m) {
    text_format(out, ",%c%c%lld+%lld@%d", name, m->is_transposed ? 't' : 'n', (long long)m->leading,
                (long long)m->batch_stride, m->alignment);
}

static void describe_key(text *out, const products *p, const problem *k) {
    text_format(out, "product,cublaslt%zu,m%lld,n%lld,k%lld,x%lld,t%d>%d%s%s,w%lld",
                p->library->version(), (long long)k->m, (long long)k->n, (long long)k->k,
                (long long)k->batches, k->type, k->c_type, k->tf32 ? ",tf32" : "",
                k->accumulates ? ",add" : "", (long long)k->workspace_bytes);
    for (int i = 0; i < PRODUCT_MATRICES; i++)
        describe_matrix(out, "ABC"[i], &k -> matrix[i]);
}

static void write_hexadecimal(text *out, const cublasLtMatmulAlgo_t *algorithm) {
    const unsigned char *bytes = (const unsigned char *)algorithm;
    for (size_t i = 0; i < sizeof *algorithm; i++)
        text_format(out, "%02x", bytes[i]);
}

static bool read_hexadecimal(const char *digits, cublasLtMatmulAlgo_t *algorithm) {
    unsigned char *bytes = (unsigned char *)algorithm;
    if (strlen(digits) != 2 * sizeof *algorithm)
        return false;
    for (size_t i = 0; i < sizeof *algorithm; i++) {
        unsigned byte;
        if (sscanf(digits + 2 * i, "%2x", &byte) != 1)
            return false;
        bytes[i] = (unsigned char)byte;
    }
    return true;
}

/* The library itself says whether what was read is an algorithm for this problem. */
static bool find_cached(const products *p, product_plan *chosen, const char *key) {
    const char *digits = autotune_find(p->tuned, key);
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t answer;
    if (!digits || !read_hexadecimal(digits, &algorithm) ||
        p->library->algorithm_check(p->handle, chosen->operation, chosen->first, chosen->second,
                                    chosen->result, chosen->result, &algorithm,
                                    &answer) != CUBLAS_STATUS_SUCCESS ||
        answer.workspaceSize > (size_t)chosen->key.workspace_bytes)
        return false;
    chosen->algorithm = algorithm;
    return true;
}

/* ---- candidates ---- */

static cublasStatus_t set_preferences(const cublaslt_functions *l, const problem *k,
                                      cublasLtMatmulPreference_t preference) {
    uint64_t workspace = (uint64_t)k->workspace_bytes;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t first = (uint32_t)k->matrix[PRODUCT_B].alignment;
    uint32_t second = (uint32_t)k->matrix[PRODUCT_A].alignment;
    uint32_t result = (uint32_t)k->matrix[PRODUCT_C].alignment;
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        const void *to;
        size_t bytes;
    } settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &result, sizeof result},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result},
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == CUBLAS_STATUS_SUCCESS;
         i++)
        status =
            l->preference_set(preference, settings[i].which, settings[i].to, settings[i].bytes);
    return status;
}

static dyno_status find_candidates(const products *p, const product_plan *chosen,
                                   cublasLtMatmulHeuristicResult_t *found, int *count) {
    const cublaslt_functions *l = p->library;
    cublasLtMatmulPreference_t preference;
    *count = 0;
    cublasStatus_t status = l->preference_create(&preference);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = set_preferences(l, &chosen->key, preference);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = l->heuristic(p->handle, chosen->operation, chosen->first, chosen->second,
                                  chosen->result, chosen->result, preference, MOST_CANDIDATES,
                                  found, count);
        l->preference_destroy(preference);
    }
    RETURN_IF_FAILED(cublaslt_status(status, "asking for algorithms"));
    int usable = 0;
    for (int i = 0; i < *count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS &&
            found[i].workspaceSize <= (size_t)chosen->key.workspace_bytes)
            found[usable++] = found[i];
    *count = usable;
    if (usable == 0)
        return dyno_fail(DYNO_UNSUPPORTED, "cuBLASLt has no algorithm for it");
    return DYNO_OK;
}

/* ---- operands ---- */

/* At an address that is aligned as the real one is, and not better. */
static char *place(char **next, int64_t bytes, int alignment) {
    enum { ALIGNMENT = 256 };
    char *at = *next + (alignment < ALIGNMENT ? alignment : 0);
    *next += (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static dyno_status make_operands(cuda_device *d, products *p, const problem *k,
                                 product_operands *o) {
    int64_t elements[PRODUCT_MATRICES], bytes[PRODUCT_MATRICES], total = k->workspace_bytes;
    int type[PRODUCT_MATRICES] = {k->type, k->type, k->c_type};
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        elements[i] = product_extent(&k->matrix[i], k->batches);
        bytes[i] = elements[i] * product_element_bytes(type[i]);
        total += bytes[i];
    }
    char *next, *at[PRODUCT_MATRICES];
    RETURN_IF_FAILED(cuda_scratch(d, total + 4096, &next));
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        at[i] = place(&next, bytes[i], k->matrix[i].alignment);
        cuda_fill_random(at[i], elements[i], type[i], (unsigned)i, p->stream);
    }
    *o = (product_operands){.a = at[PRODUCT_A],
                            .b = at[PRODUCT_B],
                            .c = at[PRODUCT_C],
                            .workspace = place(&next, k->workspace_bytes, 256)};
    return cuda_status(cudaStreamSynchronize(p->stream), "making operands to tune with");
}

/* ---- timing ---- */

typedef struct trial {
    const products *p;
    const product_plan *chosen;
    const cublasLtMatmulHeuristicResult_t *found;
    product_operands operands;
} trial;

static bool time_products(void *context, int candidate, int repeats, double *ns) {
    const trial *t = context;
    const products *p = t->p;
    float beta = t->chosen->key.accumulates ? 1 : 0, ms = 0;
    if (repeats > 1)
        cuda_hold((int64_t)repeats * LAUNCH_NS, p->stream);
    bool is_good = cudaEventRecord(p->begin, p->stream) == cudaSuccess;
    for (int i = 0; i < repeats && is_good; i++)
        is_good = product_multiply(p, t->chosen, &t->found[candidate].algo, 1, beta, &t->operands,
                                   p->stream) == CUBLAS_STATUS_SUCCESS;
    is_good = is_good && cudaEventRecord(p->end, p->stream) == cudaSuccess;
    is_good = cudaStreamSynchronize(p->stream) == cudaSuccess && is_good;
    is_good = is_good && cudaEventElapsedTime(&ms, p->begin, p->end) == cudaSuccess;
    if (!is_good)
        (void)cudaGetLastError();
    *ns = (double)ms * 1e6 / repeats;
    return is_good;
}

/* A product that is done before its launch is over is as fast by any algorithm. */
static bool is_worth_timing(const problem *k) {
    double flops = 2.0 * (double)k->m * (double)k->n * (double)k->k * (double)k->batches;
    return flops > 8e6;
}

/* Times nothing of other streams' along: what runs there is waited for, unless it is captured, when
 * it does not run. */
static void quiet(cuda_device *d) {
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(d->stream, &capturing) == cudaSuccess &&
        capturing == cudaStreamCaptureStatusNone)
        cuda_device_check(d, cudaStreamSynchronize(d->stream), "waiting before tuning");
}

/* Keeps the fastest. Without room to time in, the library's first choice is taken, for this time. */
static void time_candidates(cuda_device *d, products *p, product_plan *chosen,
                            const cublasLtMatmulHeuristicResult_t *found, int count,
                            const char *key) {
    trial t = {.p = p, .chosen = chosen, .found = found};
    quiet(d);
    if (make_operands(d, p, &chosen->key, &t.operands) != DYNO_OK)
        return;
    autotune_candidates candidates = {.count = count, .context = &t, .time = time_products};
    int best = autotune_choose(&candidates);
    if (best < 0)
        return;
    chosen->algorithm = found[best].algo;
    text digits = {0};
    write_hexadecimal(&digits, &chosen->algorithm);
    autotune_keep(p->tuned, key, text_string(&digits));
    text_release(&digits);
}

dyno_status product_choose(cuda_device *d, products *p, product_plan *chosen) {
    text key = {0};
    describe_key(&key, p, &chosen->key);
    cublasLtMatmulHeuristicResult_t found[MOST_CANDIDATES];
    int count = 0;
    dyno_status status = DYNO_OK;
    if (!find_cached(p, chosen, text_string(&key))) {
        status = find_candidates(p, chosen, found, &count);
        if (status == DYNO_OK)
            chosen->algorithm = found[0].algo;
        if (status == DYNO_OK && count > 1 && is_worth_timing(&chosen->key))
            time_candidates(d, p, chosen, found, count, text_string(&key));
    }
    text_release(&key);
    return status;
}
