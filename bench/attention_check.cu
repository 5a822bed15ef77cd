/* attention_check.cu - attention's CUDA kernels on a GPU, without the rest of dyno: first against
 * sums in double on the host, over odd and large shapes, layouts and numbers; then their times.
 *
 *   nvcc -O3 -std=c++17 -arch=sm_90a -Isrc bench/attention_check.cu src/ops/attention/[a-z]*.cu \
 *       -o attention_check && ./attention_check
 *
 * Arguments: "probe" (tiny problems of known shape, each difference printed: for finding what a
 * kernel for one chip does wrong), "check", "time" or "ways" (the two kernels for gradients on
 * sm_90, by turns) for one part only; "check-quick" (few and short problems, for
 * compute-sanitizer); "check-wide" (head sizes above 128 only); "check-few" (few heads only);
 * "time 129": of head sizes above 128 only, "time 0 1024": of no more than 1024 queries. Exit code
 * 1 when a check failed. With -DATTENTION_WATCHDOG a kernel that waits for ever ends and says for
 * what. */
#include <limits.h>

#include "attention_problem.cuh"

/* ---- the same in double ---- */

static double dot(const operand *x, int b, int h, int i, const operand *y, int h2, int j) {
    double sum = 0;
    for (int64_t d = 0; d < x->t.shape.dim[3]; d++)
        sum += number(x, b, h, i, d) * number(y, b, h2, j, d);
    return sum;
}
static bool sees(const problem *p, int i, int j) { return !p->is_causal || j <= i + p->T2 - p->T; }

/* How far an output is off: the largest difference over the largest number, among rows looked at.
 */
typedef struct deviation {
    double difference, size;
} deviation;
static void compare(deviation *d, double got, double want) {
    double off = fabs(got - want);
    if (!(off <= d->difference)) /* NaN stays */
        d->difference = off;
    if (fabs(want) > d->size)
        d->size = fabs(want);
}

typedef struct deviations {
    deviation of[OPERANDS], lse;
} deviations;

/* O and LSE of one query; dQ from the LSE the kernel gave. */
static void check_query(const instance *in, int b, int h, int i, double *work, deviations *out) {
    const problem *p = &in->p;
    int kv = h / (p->H / p->K), S = p->S;
    double scale = in->attributes.scale, top = -INFINITY, sum = 0, mean = 0;
    double *s = work, *o = work + p->T2, *dq = o + S;
    for (int j = 0; j < p->T2; j++) {
        s[j] = sees(p, i, j) ? scale * dot(&in->x[Q], b, h, i, &in->x[K], kv, j) : -INFINITY;
        top = fmax(top, s[j]);
    }
    for (int d = 0; d < S; d++)
        o[d] = dq[d] = 0;
    for (int j = 0; j < p->T2; j++)
        sum += s[j] == -INFINITY ? 0 : exp(s[j] - top);
    for (int j = 0; j < p->T2; j++)
        for (int d = 0; d < S && s[j] != -INFINITY; d++)
            o[d] += exp(s[j] - top) / sum * number(&in->x[V], b, kv, j, d);
    double want = sum == 0 ? -INFINITY : top + log(sum), lse = number(&in->lse, b, h, i, 0);
    if (want == -INFINITY && lse == -INFINITY)
        want = lse = 0;
    compare(&out->lse, lse, want);
    for (int d = 0; d < S; d++) {
        compare(&out->of[O], number(&in->x[O], b, h, i, d), o[d]);
        mean += number(&in->x[O], b, h, i, d) * number(&in->x[DO], b, h, i, d);
    }
    for (int j = 0; j < p->T2; j++) {
        if (s[j] == -INFINITY)
            continue;
        double weight = exp(s[j] - lse);
        double ds = scale * weight * (dot(&in->x[DO], b, h, i, &in->x[V], kv, j) - mean);
        for (int d = 0; d < S; d++)
            dq[d] += ds * number(&in->x[K], b, kv, j, d);
    }
    turn_back(in, i, p->T, dq);
    for (int d = 0; d < S; d++)
        compare(&out->of[DQ], number(&in->x[DQ], b, h, i, d), dq[d]);
}

static void check_key(const instance *in, int b, int kv, int j, double *work, deviations *out) {
    const problem *p = &in->p;
    int S = p->S, group = p->H / p->K;
    double scale = in->attributes.scale, *dk = work, *dv = work + S;
    for (int d = 0; d < S; d++)
        dk[d] = dv[d] = 0;
    for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int i = 0; i < p->T; i++) {
            double lse = number(&in->lse, b, h, i, 0), mean = 0;
            if (!sees(p, i, j) || lse == -INFINITY)
                continue;
            for (int d = 0; d < S; d++)
                mean += number(&in->x[O], b, h, i, d) * number(&in->x[DO], b, h, i, d);
            double weight = exp(scale * dot(&in->x[Q], b, h, i, &in->x[K], kv, j) - lse);
            double ds = scale * weight * (dot(&in->x[DO], b, h, i, &in->x[V], kv, j) - mean);
            for (int d = 0; d < S; d++) {
                dk[d] += ds * number(&in->x[Q], b, h, i, d);
                dv[d] += weight * number(&in->x[DO], b, h, i, d);
            }
        }
    turn_back(in, j, p->T2, dk);
    for (int d = 0; d < S; d++) {
        compare(&out->of[DK], number(&in->x[DK], b, kv, j, d), dk[d]);
        compare(&out->of[DV], number(&in->x[DV], b, kv, j, d), dv[d]);
    }
}

/* Every row of small problems, some rows of large ones. */
static void check_rows(const instance *in, int most, deviations *out) {
    const problem *p = &in->p;
    double *work = (double *)malloc(sizeof(double) * (size_t)(p->T2 + 2 * p->S));
    int queries = p->B * p->H * p->T, keys = p->B * p->K * p->T2;
    for (int n = 0; n < queries && n < most; n++) {
        int at = queries <= most ? n : below(queries);
        check_query(in, at / p->T / p->H, at / p->T % p->H, at % p->T, work, out);
    }
    for (int n = 0; n < keys && n < most; n++) {
        int at = keys <= most ? n : below(keys);
        check_key(in, at / p->T2 / p->K, at / p->T2 % p->K, at % p->T2, work, out);
    }
    free(work);
}

/* Gaps between strided rows must be what they were: 0xff. */
static int gaps_are_whole(const operand *o) {
    char *seen = (char *)calloc(o->bytes, 1);
    const int64_t *n = o->t.shape.dim;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                memset(seen + (element(o, b, h, i, 0) - o->host), 1,
                       (size_t)(n[3] * bytes_of(o->t.type)));
    int is_whole = 1;
    for (size_t i = 0; i < o->bytes; i++)
        is_whole = is_whole && (seen[i] || (unsigned char)o->host[i] == 0xff);
    free(seen);
    return is_whole;
}

static const char *const type_names[] = {"f64", "f32", "bf16", "f16"};
static const char *type_name(const problem *p) { return p->is_tf32 ? "tf32" : type_names[p->type]; }
static const char *const layout_names[] = {"dense", "tokens", "padded"};
static const char *const operand_names[] = {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"};

static void print_problem(const problem *p) {
    printf("b%d h%d/%d n%dx%d d%d %s %s %s size %g%s", p->B, p->H, p->K, p->T, p->T2, p->S,
           p->is_causal ? "causal" : "full", type_name(p), layout_names[p->layout], p->size,
           p->is_turned ? " rotated back" : "");
}

/* Runs and compares, twice. */
static int check_instance(instance *with, int most_rows) {
    instance in = *with;
    const problem *p = &in.p;
    /* What was never written is no number. */
    cudaMemset(in.workspace, 0xff, in.workspace_bytes);
    run_forward(&in, NULL);
    cudaMemset(in.workspace, 0xff, in.workspace_bytes);
    run_backward(&in, NULL);
    expect_cuda(cudaDeviceSynchronize(), "running the kernels");
    fetch(&in.lse);
    deviations off = {};
    for (int i = 0; i < OPERANDS; i++)
        fetch(&in.x[i]);
    check_rows(&in, most_rows, &off);
    /* Rounding of P and dS to the type, relative to the largest number. Scores of hundreds make
     * LSE's own rounding show, and gradients vanish but for it. */
    double floor = 0.2 * p->size;
    if (p->T2 ==
        1) /* dS is 0 but for the rounding of dO V^T and of rowsum(O dO), which are large */
        floor = p->size;
    double limit = p->is_tf32                  ? 5e-3
                   : p->type == CUDA_DTYPE_F32 ? 2e-5
                   : p->type == CUDA_DTYPE_F16 ? 3e-3
                                               : 1.5e-2;
    if (p->size > 3)
        limit *= p->type == CUDA_DTYPE_F32 ? 100 : 2;
    int failures = 0;
    for (int i = O; i < OPERANDS; i++) {
        if (i == DO)
            continue;
        double error = off.of[i].difference / fmax(off.of[i].size, floor);
        if (error <= limit && gaps_are_whole(&in.x[i]))
            continue;
        print_problem(p);
        printf(": %s is off by %g (limit %g)%s\n", operand_names[i], error, limit,
               gaps_are_whole(&in.x[i]) ? "" : ", and memory beside it was written");
        failures++;
    }
    if (!(off.lse.difference <= (p->is_tf32 ? 1e-3 : 1e-5) * fmax(off.lse.size, 10))) {
        print_problem(p);
        printf(": LSE is off by %g of %g\n", off.lse.difference, off.lse.size);
        failures++;
    }
    /* Again: the same bits. */
    char *before[OPERANDS] = {};
    for (int i = O; i < OPERANDS; i++) {
        before[i] = (char *)malloc(in.x[i].bytes);
        memcpy(before[i], in.x[i].host, in.x[i].bytes);
    }
    run_forward(&in, NULL);
    run_backward(&in, NULL);
    for (int i = O; i < OPERANDS; i++) {
        fetch(&in.x[i]);
        if (memcmp(before[i], in.x[i].host, in.x[i].bytes) != 0) {
            print_problem(p);
            printf(": %s has other bits the second time\n", operand_names[i]);
            failures++;
        }
        free(before[i]);
    }
    return failures;
}

static int check(const problem *p, int most_rows) {
    instance in = make_instance(p);
    in.attributes.tile_number = below(8);
    int failures = check_instance(&in, most_rows);
    if (failures)
        printf("    with tile number %d\n", in.attributes.tile_number);
    release_instance(&in);
    return failures;
}

/* ---- tiny problems whose answer tells where a number came from ---- */

/* All of an operand from a function of row and column. */
static void set(operand *o, float (*of)(int row, int column, int columns)) {
    const int64_t *n = o->t.shape.dim;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                for (int64_t d = 0; d < n[3]; d++)
                    store(o->t.type, element(o, b, h, i, d), of((int)i, (int)d, (int)n[3]));
    send(o);
}
static float zero(int, int, int) { return 0; }
static float row_number(int row, int, int) { return (float)row; }
static float column_number(int, int column, int) { return (float)column; }
static float unit(int row, int column, int) { return row == column ? 1.f : 0.f; }
/* Against unit keys: one score of 60 in each row, the others 0. */
static float steep_unit(int row, int column, int columns) {
    return row == column ? 60 * sqrtf((float)columns) : 0.f;
}

enum { MOST_PRINTED = 24 };

static void run_and_fetch(instance *in) {
    run_forward(in, NULL);
    run_backward(in, NULL);
    expect_cuda(cudaDeviceSynchronize(), "running a probe");
    fetch(&in->lse);
    for (int i = 0; i < OPERANDS; i++)
        fetch(&in->x[i]);
}

/* Rows and columns of `got` that are not what `want` says. */
static int report(const char *what, const operand *got, const double *want, int rows, int columns,
                  double limit) {
    int wrong = 0, wrong_rows = 0, wrong_columns = 0;
    for (int i = 0; i < rows; i++) {
        int in_row = 0;
        for (int d = 0; d < columns; d++) {
            double x = number(got, 0, 0, i, d);
            if (fabs(x - want[i * columns + d]) <= limit)
                continue;
            in_row++;
            if (wrong++ < MOST_PRINTED)
                printf("    [%d][%d] is %g, not %g\n", i, d, x, want[i * columns + d]);
        }
        wrong_rows += in_row > 0;
    }
    for (int d = 0; d < columns; d++) {
        int in_column = 0;
        for (int i = 0; i < rows; i++)
            in_column += !(fabs(number(got, 0, 0, i, d) - want[i * columns + d]) <= limit);
        wrong_columns += in_column > 0;
    }
    printf("  %-44s %d of %d wrong, in %d rows and %d columns\n", what, wrong, rows * columns,
           wrong_rows, wrong_columns);
    return wrong > 0;
}

static int probe_forward(int T, int S, int type) {
    problem p = {1, 1, 1, T, T, S, 0, type, DENSE, 1};
    instance in = make_instance(&p);
    double *want = (double *)malloc(sizeof(double) * (size_t)(T * S));
    int wrong = 0;
    print_problem(&p);
    printf("\n");
    /* Q K^T alone shows in LSE. */
    run_and_fetch(&in);
    for (int i = 0; i < T; i++) {
        double sum = 0;
        for (int j = 0; j < T; j++)
            sum += exp(in.attributes.scale * dot(&in.x[Q], 0, 0, i, &in.x[K], 0, j));
        want[i] = log(sum);
    }
    wrong += report("LSE (Q K^T)", &in.lse, want, T, 1, 1e-3);
    /* The same weights for all: O is V's mean, row by row the same. */
    set(&in.x[K], zero);
    run_and_fetch(&in);
    for (int i = 0; i < T * S; i++) {
        want[i] = 0;
        for (int j = 0; j < T; j++)
            want[i] += number(&in.x[V], 0, 0, j, i % S) / T;
    }
    wrong += report("O with all scores 0 (P V)", &in.x[O], want, T, S, 0.02);
    /* Each query takes its own key only: O is V. */
    if (T <= S) {
        set(&in.x[Q], steep_unit);
        set(&in.x[K], unit);
        set(&in.x[V], row_number);
        run_and_fetch(&in);
        for (int i = 0; i < T * S; i++)
            want[i] = i / S;
        wrong += report("O when P = 1 and V holds its row's number", &in.x[O], want, T, S, 0.1);
        set(&in.x[V], column_number);
        run_and_fetch(&in);
        for (int i = 0; i < T * S; i++)
            want[i] = i % S;
        wrong += report("O when P = 1 and V its column's", &in.x[O], want, T, S, 0.1);
    }
    free(want);
    release_instance(&in);
    fflush(stdout);
    return wrong;
}

/* All gradients of a problem of one head, from its own O and LSE: dQ, dK, dV, [T][S] each. */
static void differentiate(const instance *in, double *dq, double *dk, double *dv) {
    int T = in->p.T, S = in->p.S;
    double scale = in->attributes.scale;
    memset(dq, 0, sizeof(double) * (size_t)(T * S));
    memset(dk, 0, sizeof(double) * (size_t)(T * S));
    memset(dv, 0, sizeof(double) * (size_t)(T * S));
    for (int i = 0; i < T; i++) {
        double mean = dot(&in->x[O], 0, 0, i, &in->x[DO], 0, i), lse = number(&in->lse, 0, 0, i, 0);
        for (int j = 0; j < T; j++) {
            if (!sees(&in->p, i, j))
                continue;
            double p = exp(scale * dot(&in->x[Q], 0, 0, i, &in->x[K], 0, j) - lse);
            double ds = scale * p * (dot(&in->x[DO], 0, 0, i, &in->x[V], 0, j) - mean);
            for (int d = 0; d < S; d++) {
                dq[i * S + d] += ds * number(&in->x[K], 0, 0, j, d);
                dk[j * S + d] += ds * number(&in->x[Q], 0, 0, i, d);
                dv[j * S + d] += p * number(&in->x[DO], 0, 0, i, d);
            }
        }
    }
}

/* Runs, and compares all three gradients. */
static int probe_gradients(instance *in, const char *const *what) {
    int T = in->p.T, S = in->p.S, wrong = 0;
    double *want = (double *)malloc(sizeof(double) * (size_t)(3 * T * S));
    run_and_fetch(in);
    differentiate(in, want, want + T * S, want + 2 * T * S);
    for (int i = 0; i < 3; i++) {
        double most = 0;
        for (int n = 0; n < T * S; n++)
            most = fmax(most, fabs(want[i * T * S + n]));
        wrong += report(what[i], &in->x[DQ + i], want + i * T * S, T, S, 0.02 * most + 1e-4);
    }
    free(want);
    return wrong;
}

static int probe_backward(int T, int S, int is_causal, int type) {
    problem p = {1, 1, 1, T, T, S, is_causal, type, DENSE, 1};
    instance in = make_instance(&p);
    int wrong = 0;
    print_problem(&p);
    printf("\n");
    /* Keys of 0: the same weights for all. dV has dO only, dK has dO V^T, and dQ is 0. */
    static const char *const no_keys[] = {"dQ with K = 0", "dK with K = 0 (V dO^T, dS^T Q)",
                                          "dV with K = 0 (P^T dO)"};
    set(&in.x[K], zero);
    wrong += probe_gradients(&in, no_keys);
    fill(&in.x[K], 1);
    static const char *const no_queries[] = {"dQ with Q = 0 (dO V^T, dS K)", "dK with Q = 0",
                                             "dV with Q = 0 (P^T dO)"};
    set(&in.x[Q], zero);
    wrong += probe_gradients(&in, no_queries);
    fill(&in.x[Q], 1);
    /* Each query takes its own key only: dV is dO. */
    if (T <= S) {
        static const char *const own[] = {"dQ when P = 1", "dK when P = 1",
                                          "dV when P = 1 and dO holds its row's number"};
        set(&in.x[Q], steep_unit);
        set(&in.x[K], unit);
        set(&in.x[DO], row_number);
        set(&in.x[V], zero);
        wrong += probe_gradients(&in, own);
        for (int i = Q; i <= V; i++)
            fill(&in.x[i], 1);
        fill(&in.x[DO], 1);
    }
    static const char *const all[] = {"dQ", "dK", "dV"};
    wrong += probe_gradients(&in, all);
    release_instance(&in);
    fflush(stdout);
    return wrong;
}

static int probe_all(void) {
    static const int dims[] = {64, 128, 96, 80, 72, 40, 256, 192, 136};
    int wrong = 0;
    printf("multiprocessors of sm_90: %d\n", hopper_multiprocessors());
    attention_way = ATTENTION_TWICE;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        wrong += probe_forward(64, dims[i], CUDA_DTYPE_BF16);
        wrong += probe_forward(128, dims[i], CUDA_DTYPE_F16);
        wrong += probe_forward(300, dims[i], CUDA_DTYPE_BF16);
    }
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        wrong += probe_backward(64, dims[i], 0, CUDA_DTYPE_BF16);
        wrong += probe_backward(128, dims[i], 0, CUDA_DTYPE_F16);
        wrong += probe_backward(300, dims[i], 1, CUDA_DTYPE_BF16);
        attention_way = ATTENTION_ONCE;
        wrong +=
            attention_sum_columns(dims[i]) ? probe_backward(64, dims[i], 0, CUDA_DTYPE_BF16) : 0;
        wrong +=
            attention_sum_columns(dims[i]) ? probe_backward(300, dims[i], 1, CUDA_DTYPE_BF16) : 0;
        attention_way = ATTENTION_TWICE;
    }
    attention_way = ATTENTION_BEST;
    return wrong;
}

#include "attention_drawn.cuh"

/* ---- time ---- */

static float milliseconds(const instance *in, void (*run)(const instance *, cudaStream_t),
                          cudaStream_t stream) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    float once = 0, all;
    for (int i = 0; i < 3; i++) {
        cudaEventRecord(begin, stream);
        run(in, stream);
        cudaEventRecord(end, stream);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&once, begin, end);
    }
    int reps = (int)(150 / fmax(once, 0.01));
    reps = reps < 5 ? 5 : reps > 1000 ? 1000 : reps;
    cudaEventRecord(begin, stream);
    for (int i = 0; i < reps; i++)
        run(in, stream);
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&all, begin, end);
    return all / (float)reps;
}

static int time_all(int least_head, int longest) {
    static const struct {
        problem p;
        const char *goal;
    } rows[] = {
        {{1, 16, 16, 16384, 16384, 64, 1, CUDA_DTYPE_BF16, DENSE, 1}, "480 / 450"},
        {{2, 16, 16, 8192, 8192, 128, 1, CUDA_DTYPE_BF16, DENSE, 1}, "620 / 520"},
        {{2, 16, 16, 8192, 8192, 128, 0, CUDA_DTYPE_BF16, DENSE, 1}, "660 / 560"},
        {{4, 16, 16, 4096, 4096, 128, 1, CUDA_DTYPE_BF16, DENSE, 1}, "580 / 480"},
        {{4, 32, 32, 4096, 4096, 64, 1, CUDA_DTYPE_BF16, DENSE, 1}, "430 / 400"},
        {{4, 32, 32, 1024, 1024, 80, 1, CUDA_DTYPE_BF16, TOKENS, 1}, "280 / 230"},
        {{4, 12, 12, 512, 512, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1}, "0.020 / 0.050 ms"},
        {{4, 16, 16, 512, 512, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{4, 20, 20, 512, 512, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{4, 25, 25, 512, 512, 64, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{4, 32, 32, 512, 512, 80, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{4, 32, 8, 2048, 2048, 128, 1, CUDA_DTYPE_F16, TOKENS, 1}, ""},
        {{4, 16, 16, 2048, 2048, 256, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{4, 16, 16, 4096, 4096, 256, 1, CUDA_DTYPE_BF16, DENSE, 1}, ""},
        {{4, 16, 16, 4096, 4096, 256, 0, CUDA_DTYPE_BF16, DENSE, 1}, ""},
        {{4, 16, 16, 4096, 4096, 192, 1, CUDA_DTYPE_BF16, DENSE, 1}, ""},
        {{8, 8, 2, 512, 512, 256, 1, CUDA_DTYPE_BF16, TOKENS, 1}, ""},
        {{8, 1, 1, 16384, 16384, 64, 0, CUDA_DTYPE_F32, DENSE, 1}, "12.4 / 30.2 ms"},
        {{8, 1, 1, 16384, 16384, 64, 0, CUDA_DTYPE_F32, DENSE, 1, 1}, ""},
        {{8, 1, 1, 4096, 4096, 128, 0, CUDA_DTYPE_F32, DENSE, 1}, ""},
        {{8, 1, 1, 4096, 4096, 128, 0, CUDA_DTYPE_F32, DENSE, 1, 1}, ""},
        {{8, 1, 1, 4096, 4096, 16, 0, CUDA_DTYPE_F32, DENSE, 1}, ""},
        {{4, 32, 32, 1024, 1024, 80, 1, CUDA_DTYPE_F32, TOKENS, 1}, ""},
        {{4, 32, 32, 1024, 1024, 80, 1, CUDA_DTYPE_F32, TOKENS, 1, 1}, ""},
        {{4, 12, 12, 512, 512, 64, 1, CUDA_DTYPE_F32, TOKENS, 1}, ""},
    };
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int failures = 0;
    printf("%-44s %10s %8s %10s %8s  goal (TFLOP/s forward / backward)\n", "case", "forward ms",
           "TFLOP/s", "back. ms", "TFLOP/s");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const problem *p = &rows[i].p;
        if (p->S < least_head || p->T > longest)
            continue;
        instance in = make_instance(p);
        failures += check_instance(&in, 16);
        double flops = 4.0 * p->B * p->H * p->T * p->T2 * p->S / (p->is_causal ? 2 : 1);
        float forward = milliseconds(&in, run_forward, stream);
        float backward = milliseconds(&in, run_backward, stream);
        char name[96];
        snprintf(name, sizeof name, "b%d h%d/%d n%d d%d %s %s %s", p->B, p->H, p->K, p->T, p->S,
                 p->is_causal ? "causal" : "full", type_name(p), layout_names[p->layout]);
        printf("%-44s %10.4f %8.1f %10.4f %8.1f  %s\n", name, forward, flops / forward * 1e-9,
               backward, 2.5 * flops / backward * 1e-9, rows[i].goal);
        if (p->type != CUDA_DTYPE_F32 && attention_turns_back(p->S)) {
            in.p.is_turned = 1;
            failures += check_instance(&in, 16);
            backward = milliseconds(&in, run_backward, stream);
            in.p.is_turned = 0;
            printf("%-63s %10.4f %8.1f\n", "    rotated back", backward,
                   2.5 * flops / backward * 1e-9);
        }
        if (p->type != CUDA_DTYPE_F32) {
            attention_way = ATTENTION_MMA;
            forward = milliseconds(&in, run_forward, stream);
            backward = milliseconds(&in, run_backward, stream);
            attention_way = ATTENTION_BEST;
            printf("%-44s %10.4f %8.1f %10.4f %8.1f\n", "    by mma.sync", forward,
                   flops / forward * 1e-9, backward, 2.5 * flops / backward * 1e-9);
        }
        fflush(stdout);
        expect_cuda(cudaGetLastError(), "timing");
        release_instance(&in);
    }
    return failures;
}

#include "attention_ways.cuh"

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "all";
    bool is_all = strcmp(part, "all") == 0;
    int failures = 0;
    if (is_all || strcmp(part, "probe") == 0)
        failures += probe_all();
    if (is_all || strcmp(part, "check") == 0)
        failures += argc > 3 ? check_all(atoi(argv[2]), atoi(argv[3]))
                             : check_all(120, 300) + check_few(60, 1000);
    if (strcmp(part, "check-quick") == 0)
        failures += check_all(8, 100) + check_wide(2, 60) + check_few(6, 200);
    if (strcmp(part, "check-wide") == 0)
        failures += argc > 3 ? check_wide(atoi(argv[2]), atoi(argv[3])) : check_wide(40, 300);
    if (strcmp(part, "check-few") == 0)
        failures += argc > 3 ? check_few(atoi(argv[2]), atoi(argv[3])) : check_few(60, 1000);
    if (is_all || strcmp(part, "time") == 0)
        failures += time_all(argc > 2 ? atoi(argv[2]) : 0, argc > 3 ? atoi(argv[3]) : INT_MAX);
    if (is_all || strcmp(part, "ways") == 0)
        failures += argc > 4 ? compare_ways(atoi(argv[2]), atoi(argv[3]), (size_t)atoi(argv[4]))
                             : compare_ways(5, 100, SIZE_MAX);
    printf(failures ? "%d FAILURES\n" : "all right\n", failures);
    return failures != 0;
}
