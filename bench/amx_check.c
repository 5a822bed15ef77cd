/* amx_check.c - the bf16 products on a machine that has little more than a compiler.
 *
 * From the root of the repository:
 *
 *   gcc -O3 -fopenmp -D_DEFAULT_SOURCE -Isrc -Iinclude bench/amx_check.c src/ops/matmul/gemm*.c \
 *       src/base/threads.c src/base/isa.c src/tensor/dtype.c -o amx_check -lm -ldl
 *   ./amx_check [THREADS] [ROUNDS]      default: all cores the process may use, 7
 *
 * First every way to multiply that this CPU has, against products in double: random and odd
 * sizes, every layout, both result types, alpha, adding to C, the same bits for 1, 2 and 5
 * threads. Then the shapes of training in GFLOP/s: the ways take turns, round by round, and the
 * table gives each one's median. Exits with 1 when a check failed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/threads.h"
#include "ops/matmul/gemm.h"

static int passed, failed;

static uint64_t state = 88172645463325252u;
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static int64_t below(int64_t limit) { return (int64_t)(next_random() % (uint64_t)limit); }
static double uniform(void) { return (double)(next_random() >> 11) * 0x1p-52 - 1; }

/* In huge pages where they are to be had, as dyno's own memory is. */
static void *take(size_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    size_t alignment = bytes < HUGE_PAGE ? 64 : HUGE_PAGE;
    void *block = aligned_alloc(alignment, (bytes + 64 + alignment - 1) / alignment * alignment);
    if (!block) {
        fprintf(stderr, "amx_check: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    if (alignment == HUGE_PAGE)
        madvise(block, bytes, MADV_HUGEPAGE);
    return block;
}

/* A dense or padded matrix, K dense or not, or every other element of one. */
typedef enum layout { BY_ROWS, BY_COLUMNS, PADDED_ROWS, PADDED_COLUMNS, SPREAD, LAYOUTS } layout;

static gemm_operand make_operand(dtype type, int64_t rows, int64_t columns, layout how) {
    int64_t gap = how == PADDED_ROWS || how == PADDED_COLUMNS ? 1 + below(7) : 0;
    int64_t step = how == SPREAD ? 2 : 1;
    bool by_rows = how == BY_ROWS || how == PADDED_ROWS || how == SPREAD;
    gemm_operand o = {.type = type,
                      .row_stride = by_rows ? columns * step + gap : step,
                      .column_stride = by_rows ? step : rows * step + gap};
    int64_t last = (rows - 1) * o.row_stride + (columns - 1) * o.column_stride;
    void *data = take((size_t)(last + 1) * (size_t)dtype_bytes(type));
    for (int64_t i = 0; i <= last; i++)
        dtype_store(type, data, i, NAN); /* what lies between must not be read as a number */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            dtype_store(type, data, i * o.row_stride + j * o.column_stride, uniform());
    o.data = data;
    return o;
}

static double element(const gemm_operand *o, int64_t row, int64_t column) {
    return dtype_load(o->type, o->data, row * o->row_stride + column * o->column_stride);
}

/* The largest error of C as a part of what is allowed for its element. */
static double check_values(const gemm_problem *p, const double *before) {
    double worst = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, size = 0;
            for (int64_t l = 0; l < p->k; l++) {
                double term = element(&p->a, i, l) * element(&p->b, l, j);
                sum += term;
                size += fabs(term);
            }
            double want = p->alpha * sum + (p->accumulates ? before[i * p->ldc + j] : 0);
            double got = dtype_load(p->c_type, p->c, i * p->ldc + j);
            double allowed = 1e-6 * fabs(p->alpha) * size + 2e-7 * fabs(want) + 1e-30;
            if (p->c_type == DTYPE_BF16)
                allowed += fabs(want) * 0x1p-8;
            double part = fabs(got - want) / allowed;
            if (!(part <= worst)) /* NaN is the worst */
                worst = part;
        }
    return worst;
}

static void check_problem(gemm_method method, gemm_problem *p) {
    size_t elements = (size_t)(p->m * p->ldc), bytes = elements * (size_t)dtype_bytes(p->c_type);
    void *first = take(bytes), *begin = take(bytes);
    double *before = take(elements * sizeof *before);
    for (size_t i = 0; i < elements; i++) {
        dtype_store(p->c_type, begin, (int64_t)i, uniform());
        before[i] = dtype_load(p->c_type, begin, (int64_t)i);
    }
    p->c = take(bytes);
    bool is_right = true;
    static const int counts[] = {1, 2, 5};
    for (int t = 0; t < 3; t++) {
        threads_set_count(counts[t]);
        memcpy(p->c, begin, bytes);
        size_t scratch = gemm_workspace_bytes_by(method, p);
        void *workspace = take(scratch);
        memset(workspace, 0xa5, scratch);
        gemm_run_by(method, p, workspace);
        free(workspace);
        double worst = t ? 0 : check_values(p, before);
        bool same = !t || memcmp(first, p->c, bytes) == 0;
        bool kept = true; /* what lies between the rows */
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = p->n; j < p->ldc; j++)
                kept =
                    kept && dtype_load(p->c_type, p->c, i * p->ldc + j) == before[i * p->ldc + j];
        if (!t)
            memcpy(first, p->c, bytes);
        if (!(worst <= 1) || !same || !kept) {
            printf("FAILED %s %lld x %lld x %lld, A by (%lld,%lld), B by (%lld,%lld), C %s, alpha "
                   "%g%s, %d threads: error %.2f of the limit%s%s\n",
                   gemm_method_name(method), (long long)p->m, (long long)p->n, (long long)p->k,
                   (long long)p->a.row_stride, (long long)p->a.column_stride,
                   (long long)p->b.row_stride, (long long)p->b.column_stride, dtype_name(p->c_type),
                   (double)p->alpha, p->accumulates ? ", added" : "", counts[t], worst,
                   same ? "" : ", other bits than with 1 thread",
                   kept ? "" : ", wrote between the rows");
            is_right = false;
        }
    }
    passed += is_right;
    failed += !is_right;
    free(first);
    free(begin);
    free(before);
    free(p->c);
}

static void check_method(gemm_method method, dtype type) {
    static const int64_t sizes[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 64, 65, 96, 127, 130};
    static const int64_t depths[] = {1, 2, 3, 31, 32, 33, 63, 64, 100, 319, 320, 321, 640, 700};
    enum { SIZES = sizeof sizes / sizeof *sizes, DEPTHS = sizeof depths / sizeof *depths };
    for (int round = 0; round < 300; round++) {
        bool is_large = round % 30 == 29; /* several tiles */
        gemm_problem p = {.m = is_large ? 200 + below(900) : sizes[below(SIZES)],
                          .n = is_large ? 200 + below(900) : sizes[below(SIZES)],
                          .k = is_large ? 1 + below(90) : depths[below(DEPTHS)],
                          .c_type = round & 1 ? DTYPE_F32 : DTYPE_BF16,
                          .alpha = round % 3 ? 1.0f : 0.125f,
                          .accumulates = round % 5 == 0};
        p.ldc = p.n + (round % 7 ? 0 : below(9));
        p.a = make_operand(type, p.m, p.k, (layout)below(LAYOUTS));
        p.b = make_operand(type, p.k, p.n, (layout)below(LAYOUTS));
        check_problem(method, &p);
        free((void *)(uintptr_t)p.a.data);
        free((void *)(uintptr_t)p.b.data);
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { MAX_ROUNDS = 101 };

/* Y = X W^T, dX = dY W, dW = dY^T X, for `tokens` rows of X and a weight [out, in]. */
static gemm_problem training_product(int which, int64_t tokens, int64_t in, int64_t out) {
    gemm_problem p = {.alpha = 1, .a.type = DTYPE_BF16, .b.type = DTYPE_BF16};
    static const dtype result[3] = {DTYPE_BF16, DTYPE_BF16, DTYPE_F32};
    p.c_type = result[which];
    p.m = which == 2 ? out : tokens;
    p.n = which == 0 ? out : in;
    p.k = which == 0 ? in : which == 1 ? out : tokens;
    p.ldc = p.n;
    p.a.row_stride = which == 2 ? 1 : p.k;
    p.a.column_stride = which == 2 ? out : 1;
    p.b.row_stride = which == 0 ? 1 : p.n;
    p.b.column_stride = which == 0 ? in : 1;
    return p;
}

static void time_product(int which, int64_t tokens, int64_t in, int64_t out, int rounds,
                         double *all, int *count) {
    static const char *const name[] = {"Y=XW'", "dX=dYW", "dW=dY'X"};
    gemm_problem p = training_product(which, tokens, in, out);
    size_t bytes_a = (size_t)(p.m * p.k) * 2, bytes_b = (size_t)(p.k * p.n) * 2;
    uint16_t *a = take(bytes_a), *b = take(bytes_b);
    for (size_t i = 0; i < bytes_a / 2; i++)
        a[i] = dtype_f32_to_bf16((float)(i % 17) * 0.1f - 0.8f);
    for (size_t i = 0; i < bytes_b / 2; i++)
        b[i] = dtype_f32_to_bf16((float)(i % 19) * 0.1f - 0.9f);
    p.a.data = a;
    p.b.data = b;
    p.c = take((size_t)(p.m * p.n) * (size_t)dtype_bytes(p.c_type));
    static double ns[GEMM_METHOD_COUNT][MAX_ROUNDS];
    void *workspace[GEMM_METHOD_COUNT] = {0};
    double flops = 2.0 * (double)(p.m * p.n) * (double)p.k;
    int repeats = (int)(2e10 / flops) + 1;
    for (int round = -1; round < rounds; round++)
        for (gemm_method method = GEMM_AMX; method <= GEMM_AVX512; method++) {
            if (gemm_reject(method, &p))
                continue;
            if (!workspace[method])
                workspace[method] = take(gemm_workspace_bytes_by(method, &p));
            int now = method == GEMM_AMX ? repeats : (repeats + 7) / 8;
            int64_t begin = clock_now_ns();
            for (int i = 0; i < now; i++)
                gemm_run_by(method, &p, workspace[method]);
            if (round >= 0)
                ns[method][round] = (double)(clock_now_ns() - begin) / now;
        }
    printf("%6lld %6lld %6lld  %-8s", (long long)tokens, (long long)in, (long long)out,
           name[which]);
    for (gemm_method method = GEMM_AMX; method <= GEMM_AVX512; method++) {
        if (gemm_reject(method, &p)) {
            printf("%14s", "-");
            continue;
        }
        qsort(ns[method], (size_t)rounds, sizeof(double), compare_doubles);
        double median = flops / ns[method][rounds / 2];
        printf("%14.1f", median);
        if (method == gemm_pick(&p))
            all[(*count)++] = median;
        free(workspace[method]);
    }
    printf("   %s\n", gemm_method_name(gemm_pick(&p)));
    fflush(stdout);
    free(a);
    free(b);
    free(p.c);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 7;
    if (threads < 0 || rounds < 0 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: amx_check [THREADS] [ROUNDS, 0 to %d]\n", MAX_ROUNDS);
        return 2;
    }
    for (isa which = 0; which < ISA_COUNT; which++) {
        isa_answer answer = isa_check(which);
        printf("%-22s%s\n", isa_name(which), answer.is_usable ? "usable" : answer.why_not);
    }
    for (gemm_method method = GEMM_AMX; method < GEMM_METHOD_COUNT; method++) {
        gemm_problem p = {.m = 1, .n = 1, .k = 1, .c_type = DTYPE_F32};
        p.a.type = p.b.type = DTYPE_BF16;
        const char *why = gemm_reject(method, &p);
        const char *passed_over = gemm_pass_over(method, NULL);
        printf("%-22s%s\n", gemm_method_name(method),
               why           ? why
               : passed_over ? passed_over
                             : "will do bf16");
        if (!why)
            check_method(method, DTYPE_BF16);
        p.a.type = p.b.type = DTYPE_F32;
        if (!gemm_reject(method, &p))
            check_method(method, DTYPE_F32);
    }
    printf("%d passed, %d failed\n", passed, failed);
    threads_set_count(threads);
    static const int64_t weights[][2] = {{768, 3072}, {3072, 768}, {768, 10000}, {2560, 10240}};
    static double all[64];
    int count = 0;
    if (rounds)
        printf(
            "\nGFLOP/s, %d threads, median of %d rounds\n%6s %6s %6s  %-8s%14s%14s%14s   picked\n",
            threads_count(), rounds, "tokens", "in", "out", "product", "AMX", "AVX-512 BF16",
            "AVX-512");
    for (int64_t tokens = 512; rounds && tokens <= 2048; tokens *= 4)
        for (int w = 0; w < 4; w++)
            for (int which = 0; which < 3; which++)
                time_product(which, tokens, weights[w][0], weights[w][1], rounds, all, &count);
    if (count) {
        qsort(all, (size_t)count, sizeof *all, compare_doubles);
        printf("picked: median %.1f, least %.1f GFLOP/s\n", all[count / 2], all[0]);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
