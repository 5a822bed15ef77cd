/* matmul_onednn.c - products through oneDNN's dnnl_sgemm, found at run time.
 *
 * We cut the result into tiles by its shape alone and run each tile on one thread. oneDNN would
 * split K over threads where it likes to, and then the sum's order would depend on their number;
 * this way every thread count gives the same bits, and attention's many small products run side
 * by side. */
#include "ops/matmul/matmul.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/threads.h"

typedef int sgemm_function(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                           const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                           float *c, int64_t ldc);

typedef struct dnnl_version_record {
    int major, minor, patch;
    const char *hash;
} dnnl_version_record;

typedef struct library {
    sgemm_function *sgemm;
    char version[32];
    const char *why; /* it cannot be used */
} library;

static library load(void) {
    library lib = {0};
    void *handle = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        lib.why = "oneDNN (libdnnl.so.2 or .3) is not installed";
        return lib;
    }
    *(void **)&lib.sgemm = dlsym(handle, "dnnl_sgemm");
    if (!lib.sgemm)
        lib.why = "the libdnnl found has no dnnl_sgemm";
    dnnl_version_record *(*version)(void);
    *(void **)&version = dlsym(handle, "dnnl_version");
    if (version)
        snprintf(lib.version, sizeof lib.version, "%d.%d.%d", version()->major, version()->minor,
                 version()->patch);
    return lib;
}

/* Loaded by the first who asks, which is the compiler picking kernels, on one thread. */
static const library *loaded(void) {
    static library lib;
    static bool done;
    if (!done) {
        lib = load();
        done = true;
    }
    return &lib;
}

const char *matmul_onednn_version(const char **why) {
    *why = loaded()->why;
    return loaded()->sgemm ? loaded()->version : NULL;
}

/* A tile should be large enough that packing its operands is small beside multiplying them, and
 * there should be enough tiles for many cores. */
enum { TILE_M = 512, TILE_N = 384 };

typedef struct gemm_context {
    const kernel_args *args;
    matmul_problem p;
    sgemm_function *sgemm;
    int64_t tiles_m, tiles_n, tile_m, tile_n;
} gemm_context;

static void run_tile(const gemm_context *g, int64_t task) {
    const matmul_problem *p = &g->p;
    int64_t batch = task / (g->tiles_m * g->tiles_n), tile = task % (g->tiles_m * g->tiles_n);
    int64_t row = tile / g->tiles_n * g->tile_m, column = tile % g->tiles_n * g->tile_n;
    int64_t rows = p->m - row < g->tile_m ? p->m - row : g->tile_m;
    int64_t columns = p->n - column < g->tile_n ? p->n - column : g->tile_n;
    if (rows <= 0 || columns <= 0)
        return;
    matmul_offsets at = matmul_batch_offsets(g->args, batch);
    const float *a = (const float *)g->args->inputs[0].data + at.a +
                     row * (p->transpose_a ? 1 : p->lda);
    const float *b = (const float *)g->args->inputs[1].data + at.b +
                     column * (p->transpose_b ? p->ldb : 1);
    float *c = (float *)g->args->outputs[0].data + at.c + row * p->ldc + column;
    g->sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', rows, columns, p->k, 1.0f, a,
             p->lda, b, p->ldb, 0.0f, c, p->ldc);
}

static void run_tiles(void *context, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++)
        run_tile(context, task);
}

/* Even tiles, at most `most` long, in multiples of 16. */
static int64_t even_tile(int64_t size, int64_t most, int64_t *count) {
    *count = (size + most - 1) / most;
    int64_t tile = ((size + *count - 1) / *count + 15) / 16 * 16;
    *count = (size + tile - 1) / tile;
    return tile;
}

static void run(const kernel_args *args) {
    gemm_context g = {.args = args, .p = matmul_describe(args), .sgemm = loaded()->sgemm};
    g.tile_m = even_tile(g.p.m, TILE_M, &g.tiles_m);
    g.tile_n = even_tile(g.p.n, TILE_N, &g.tiles_n);
    threads_for_each(g.p.batches * g.tiles_m * g.tiles_n, run_tiles, &g);
}

static const char *reject(const kernel_args *args) {
    if (loaded()->why)
        return loaded()->why;
    if (!matmul_describe(args).has_unit_strides)
        return "an operand has no dense dimension";
    return kernel_reject_unless_f32(args);
}

const kernel matmul_onednn = {
    .name = "matmul_onednn", .backend = BACKEND_CPU, .reject = reject, .run = run};
