/* gemm_onednn.c - products through oneDNN's dnnl_sgemm, found at run time.
 *
 * We cut the result into tiles by its shape alone and run each tile on one thread. oneDNN would
 * split K over threads where it likes to, and then the sum's order would depend on their number;
 * this way every thread count gives the same bits, and attention's many small products run side
 * by side. */
#include <dlfcn.h>
#include <stdio.h>

#include "base/threads.h"
#include "ops/matmul/gemm_engine.h"

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

const char *gemm_onednn_version(const char **why) {
    *why = loaded()->why;
    return loaded()->sgemm ? loaded()->version : NULL;
}

/* An operand as sgemm takes it: dense along its rows, or along its columns if transposed. */
typedef struct sgemm_operand {
    bool is_dense, is_transposed;
    int64_t ld;
} sgemm_operand;

static sgemm_operand describe(const gemm_operand *o, int64_t rows, int64_t columns) {
    /* A dimension of size 1 is walked by no stride; let it not stand in the way. */
    int64_t row = rows == 1 ? columns * o->column_stride : o->row_stride;
    int64_t column = columns == 1 && o->row_stride != 1 ? 1 : o->column_stride;
    sgemm_operand s = {.is_transposed = column != 1};
    s.ld = s.is_transposed ? column : row;
    s.is_dense = (column == 1 || o->row_stride == 1) && s.ld >= (s.is_transposed ? rows : columns);
    return s;
}

const char *gemm_onednn_reject(const gemm_problem *p) {
    if (loaded()->why)
        return loaded()->why;
    if (p->target && p->target->instruction_sets != target_this_cpu()->instruction_sets)
        return "oneDNN uses the instruction sets of this CPU, not those of the target";
    if (p->a.type != DTYPE_F32 || p->c_type != DTYPE_F32)
        return "computes in f32 only";
    if (!describe(&p->a, p->m, p->k).is_dense || !describe(&p->b, p->k, p->n).is_dense)
        return "an operand has no dense dimension";
    return NULL;
}

/* A tile should be large enough that packing its operands is small beside multiplying them, and
 * there should be enough tiles for many cores: the first of these sizes that gives enough tiles, by
 * the shape alone. Over the products of small@128 the smallest is 3 % slower than the largest. */
static const struct { int64_t m, n; } TILES[] = {{512, 384}, {256, 384}, {256, 192}, {128, 192}};
enum { TILE_SIZES = sizeof TILES / sizeof *TILES };

typedef struct gemm_context {
    const gemm_problem *p;
    sgemm_function *sgemm;
    sgemm_operand a, b;
    int64_t tiles_m, tiles_n, tile_m, tile_n;
} gemm_context;

static void run_tile(const gemm_context *g, int64_t task) {
    const gemm_problem *p = g->p;
    int64_t batch = task / (g->tiles_m * g->tiles_n), tile = task % (g->tiles_m * g->tiles_n);
    int64_t row = tile / g->tiles_n * g->tile_m, column = tile % g->tiles_n * g->tile_n;
    int64_t rows = p->m - row < g->tile_m ? p->m - row : g->tile_m;
    int64_t columns = p->n - column < g->tile_n ? p->n - column : g->tile_n;
    if (rows <= 0 || columns <= 0)
        return;
    gemm_offsets at = p->locate ? p->locate(p->locate_context, batch) : (gemm_offsets){0};
    const float *a = (const float *)p->a.data + at.a + row * (g->a.is_transposed ? 1 : g->a.ld);
    const float *b = (const float *)p->b.data + at.b + column * (g->b.is_transposed ? g->b.ld : 1);
    float *c = (float *)p->c + at.c + row * p->ldc + column;
    g->sgemm(g->a.is_transposed ? 'T' : 'N', g->b.is_transposed ? 'T' : 'N', rows, columns, p->k,
             p->alpha, a, g->a.ld, b, g->b.ld, p->accumulates ? 1.0f : 0.0f, c, p->ldc);
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

void gemm_onednn_run(const gemm_problem *p) {
    gemm_context g = {.p = p,
                      .sgemm = loaded()->sgemm,
                      .a = describe(&p->a, p->m, p->k),
                      .b = describe(&p->b, p->k, p->n)};
    int64_t batches = p->batches > 1 ? p->batches : 1;
    for (int i = 0; i < TILE_SIZES && batches * g.tiles_m * g.tiles_n < GEMM_ONEDNN_TILES; i++) {
        g.tile_m = even_tile(p->m, TILES[i].m, &g.tiles_m);
        g.tile_n = even_tile(p->n, TILES[i].n, &g.tiles_n);
    }
    threads_for_each(batches * g.tiles_m * g.tiles_n, run_tiles, &g);
}
