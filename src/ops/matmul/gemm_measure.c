/* gemm_measure.c - which ways to multiply others beat: by a measurement here, and by those of
 * bench_gemm.
 *
 * Planning and running must agree on it, so a process measures once, whatever the level of the
 * code that asks. */
#include "base/clock.h"
#include "ops/matmul/gemm_engine.h"

#if defined(__x86_64__)

/* Seconds, in effect, for one multiplication of an engine, its strips in L1. */
static double time_of(const gemm_engine *e, const void *a, const void *b, float *sum) {
    enum { DEPTH = 256, REPEATS = 4 };
    int64_t begin = clock_now_ns();
    gemm_block block = {.depth = DEPTH,
                        .a = a,
                        .b = b,
                        .rows = e->rows,
                        .width = e->rows,
                        .columns = e->columns,
                        .sum = sum,
                        .sum_ld = e->columns};
    for (int i = 0; i < REPEATS; i++)
        e->multiply(&block);
    return (double)(clock_now_ns() - begin) / (e->rows * e->columns);
}

/* AMD gives dot products of bf16 twice the rate of FMAs, Intel half of it. The two are far apart,
 * and the best of several short turns is taken: the answer is the same at every start. */
static bool dots_are_slower(void) {
    static bool is_known, are_slower;
    if (!is_known) {
        _Alignas(64) static const float strips[2][256 * 32]; /* zeros do */
        _Alignas(64) float sum[32 * 32];
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

static bool may_pass_dots_over(void) {
    const target *here = target_this_cpu();
    return target_has(here, ISA_AVX512) && target_has(here, ISA_AVX512_BF16) && dots_are_slower();
}

#else

static bool may_pass_dots_over(void) { return false; }

#endif

/* dnnl_sgemm reads B', and a transposed A', in place. Rows at a multiple of 4 KiB, the size of a way of most L1
 * caches, map to one set and evict each other. */
static bool has_conflicting_strides(const gemm_problem *p) {
    enum { APART = 4096 / sizeof(float) };
    int64_t b_stride = p->b.row_stride > 1 ? p->b.row_stride : p->b.column_stride;
    int64_t a_stride = p->a.row_stride == 1 ? p->a.column_stride : 0;
    return (b_stride > 0 && b_stride % APART == 0) || (a_stride > 0 && a_stride % APART == 0);
}

/* Few columns of a transposed A': each number of A' is used so seldom that packing it waits for memory. */
static bool has_few_columns_of_transposed_a(const gemm_problem *p) {
    enum { FEW_COLUMNS = 128 };
    return p->n <= FEW_COLUMNS && p->m > 1 && p->a.row_stride == 1;
}

/* Why our FMAs come before dnnl_sgemm, cut into tiles, with AVX-512; NULL where they do not. On two cores of a
 * Zen 4 ours are 0.98 to 1.3 times as fast, with few columns of a transposed A' 0.8 to 0.98. On a Xeon with 2 MiB of L2 they
 * are 0.99 to 1.17 times as fast over nine large products by turns, and were slower with the products of heads: there the
 * library stays first, but for conflicting strides (docs/decisions/0029). */
static const char *pass_over_onednn_avx512(const gemm_problem *p, const target *chip) {
    enum { MEASURED_L2_BYTES = 1 << 20 };
    if (has_few_columns_of_transposed_a(p))
        return NULL;
    if (chip->l2_bytes > MEASURED_L2_BYTES && p->batches > 1 && !has_conflicting_strides(p))
        return NULL;
    return "our own products are faster with AVX-512, as measured";
}

/* The same with AVX2. With few columns of a transposed A' whose strides do not conflict the library, held to AVX2, is 1.03 to
 * 1.14 times as fast on two cores of a Zen 5, elsewhere 0.5 to 1.0 times. */
static const char *pass_over_onednn_avx2(const gemm_problem *p) {
    if (has_few_columns_of_transposed_a(p) && !has_conflicting_strides(p))
        return NULL;
    return "our own products are faster with AVX2, as measured";
}

const char *gemm_pass_over(gemm_method method, const gemm_problem *p) {
    const target *chip = p->target ? p->target : target_this_cpu();
    const char *why = NULL;
    if (method == GEMM_ONEDNN && target_has(chip, ISA_AVX512))
        why = pass_over_onednn_avx512(p, chip);
    else if (method == GEMM_ONEDNN && target_has(chip, ISA_AVX2))
        why = pass_over_onednn_avx2(p);
    if (why)
        return why;
    if (method == GEMM_ONEDNN && chip->cores > GEMM_ONEDNN_TILES)
        return "its products are cut into too few tiles for so many cores";
    if (method == GEMM_ONEDNN && target_has(chip, ISA_NEON))
        return "dnnl_sgemm has no kernel for aarch64, only plain loops";
    if (method == GEMM_AVX512_BF16 && may_pass_dots_over())
        return "this CPU multiplies f32 faster than pairs of bf16, as measured";
    return NULL;
}
