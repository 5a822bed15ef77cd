/* gemm.c - our matrix products beside dnnl_sgemm alone, on every shape of a training step.
 *
 *   build/bench_gemm [PRESET] [CONTEXT] [ROUNDS] [fp32|bf16|fp16] [METHOD,...] [cold]   default: small 128 15 fp32
 *
 * The shapes are read from the plan of the step. The two sides alternate, round by round; the
 * table gives the median of each and the median ratio of the rounds. The library runs with all
 * its threads; a batch is a loop of calls. With bf16 our side multiplies bf16, giving bf16; the
 * library still multiplies fp32. Ours is the fastest way this CPU has, or METHOD: a name that the
 * table prints, such as AVX2, or auto. To hold the library to the same instructions set
 * ONEDNN_MAX_CPU_ISA=AVX2 (DNNL_MAX_CPU_ISA for version 2).
 *
 * Several methods, as in oneDNN,AVX-512, are compared with each other instead: product by product, in an order drawn
 * anew each round, so that all meet the same states of the machine. The ratio is the median over rounds of the time of
 * the first method over that of the other.
 *
 * A product is repeated on the same operands, which stay in the caches if they fit. With `cold` it is repeated on so
 * many copies of them that they come from memory, as weights do in a training step. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "measure/machine.h"
#include "ops/matmul/matmul.h"
#include "report/table.h"
#include "train/step_plan.h"

typedef int sgemm_function(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                           const float *, int64_t, float, float *, int64_t);

typedef struct shape_case {
    const plan_launch *launch;
    matmul_problem problem;
    int count; /* launches of the step that have this shape */
} shape_case;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[count / 2];
}

static kernel_args layouts_of(const plan_launch *l, tensor *operands) {
    operands[0] = l->inputs[0].layout;
    operands[1] = l->inputs[1].layout;
    operands[2] = l->outputs[0].layout;
    return (kernel_args){.input_count = 2,
                         .output_count = 1,
                         .inputs = operands,
                         .outputs = operands + 2,
                         .attributes = &l->attributes};
}

static bool same_problem(const matmul_problem *a, const matmul_problem *b) {
    return a->batches == b->batches && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->lda == b->lda && a->ldb == b->ldb;
}

static int collect(const plan *p, shape_case *cases, int most) {
    int count = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (strcmp(l->op_name, "matmul") != 0)
            continue;
        tensor operands[3];
        kernel_args args = layouts_of(l, operands);
        matmul_problem problem = matmul_describe(&args);
        int at = 0;
        while (at < count && !same_problem(&cases[at].problem, &problem))
            at++;
        if (at == count && count < most)
            cases[count++] = (shape_case){.launch = l, .problem = problem};
        if (at < count)
            cases[at].count++;
    }
    return count;
}

static void run_library(sgemm_function *sgemm, const kernel_args *args, const matmul_problem *p) {
    for (int64_t batch = 0; batch < p->batches; batch++) {
        matmul_offsets at = matmul_batch_offsets(args, batch);
        sgemm(p->transpose_a ? 'T' : 'N', p->transpose_b ? 'T' : 'N', p->m, p->n, p->k, 1.0f,
              (const float *)args->inputs[0].data + at.a, p->lda,
              (const float *)args->inputs[1].data + at.b, p->ldb, 0.0f,
              (float *)args->outputs[0].data + at.c, p->ldc);
    }
}

/* Copies of operands that no cache holds together, but not more than so many. */
enum { COLD_BYTES = 96 << 20, MOST_COPIES = 64 };

typedef struct operand_copy {
    tensor operands[3];
    kernel_args args;
    gemm_problem problem;
} operand_copy;

/* One of the two sides of a case: its operands, filled, and what it runs. */
typedef struct side_of_case {
    operand_copy copies[MOST_COPIES];
    int copy_count;
    int turn;
    gemm_method method;
    void *workspace;
    sgemm_function *sgemm; /* of the library's side */
    matmul_problem shape;
} side_of_case;

/* In large pages where there are some, as the memory of a step is. */
static void *allocate(size_t bytes) {
    enum { PAGE = 2 << 20 };
    size_t whole = (bytes + PAGE) / PAGE * PAGE;
    void *block = aligned_alloc(PAGE, whole);
    if (block)
        madvise(block, whole, MADV_HUGEPAGE);
    if (!block) {
        fprintf(stderr, "bench_gemm: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

/* Fills the first copy; the others are copied from it. Gives the bytes of its operands. */
static int64_t copy_init(operand_copy *copy, const plan_launch *l, dtype type,
                         const operand_copy *first) {
    int64_t bytes = 0;
    copy->args = layouts_of(l, copy->operands);
    for (int i = 0; i < 3; i++) {
        tensor *t = &copy->operands[i];
        t->type = type;
        t->data = allocate((size_t)tensor_bytes(t));
        bytes += tensor_bytes(t);
        if (first)
            memcpy(t->data, first->operands[i].data, (size_t)tensor_bytes(t));
        for (int64_t j = 0; !first && j < shape_elements(&t->shape); j++)
            dtype_store(type, t->data, j, (double)(j % 17) * 0.1 - 0.8);
    }
    copy->problem = matmul_gemm_problem(&copy->args);
    return bytes;
}

static void side_init(side_of_case *side, const plan_launch *l, dtype type, int method,
                      bool is_cold) {
    int64_t bytes = copy_init(&side->copies[0], l, type, NULL);
    int64_t copies = is_cold ? COLD_BYTES / bytes + 1 : 1;
    side->copy_count = (int)(copies < MOST_COPIES ? copies : MOST_COPIES);
    for (int i = 1; i < side->copy_count; i++)
        copy_init(&side->copies[i], l, type, &side->copies[0]);
    const gemm_problem *problem = &side->copies[0].problem;
    side->method = method < 0 ? gemm_pick(problem) : (gemm_method)method;
    side->workspace = allocate(gemm_workspace_bytes_by(side->method, problem));
    side->turn = 0;
}

static void side_release(side_of_case *side) {
    for (int i = 0; i < side->copy_count; i++)
        for (int j = 0; j < 3; j++)
            free(side->copies[i].operands[j].data);
    free(side->workspace);
}

/* The library's OpenMP threads spin for a while when their work is done, on the cores of the other
 * side's. */
static void settle(void) { nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); }

typedef void run_product(side_of_case *side);

/* One turn of a side: the time of a product, in ns. The first products are not timed: a thread that was
 * asleep may be woken on the core of the one that wakes it and stay there for some milliseconds, while
 * the threads of a step that is under way are awake and have a core each. */
static double time_turn(side_of_case *side, run_product *run, int repeats) {
    enum { PLACING_NS = 10000000 };
    settle();
    int64_t woken = clock_now_ns();
    do
        run(side);
    while (clock_now_ns() - woken < PLACING_NS);
    int64_t begin = clock_now_ns();
    for (int i = 0; i < repeats; i++)
        run(side);
    return (double)(clock_now_ns() - begin) / repeats;
}

/* Over all rounds: the next copy was last used long ago. */
static operand_copy *next_copy(side_of_case *side) {
    return &side->copies[side->turn++ % side->copy_count];
}

static void run_ours(side_of_case *side) {
    gemm_run_by(side->method, &next_copy(side)->problem, side->workspace);
}

static void run_theirs(side_of_case *side) {
    run_library(side->sgemm, &next_copy(side)->args, &side->shape);
}

static int find_method(const char *name) {
    int method = 0;
    while (method < GEMM_METHOD_COUNT && strcmp(gemm_method_name((gemm_method)method), name) != 0)
        method++;
    return method;
}

/* What a given way to multiply is judged by: the peak of the instruction sets that it uses. */
static const target *find_chip(int method) {
    const target *held;
    if (method == GEMM_AVX2 && target_find("avx2", &held) == DYNO_OK)
        return held;
    return target_this_cpu();
}

static void add_shape(report_table *t, const shape_case *c) {
    const matmul_problem *q = &c->problem;
    char how[8];
    snprintf(how, sizeof how, "%c%c", q->transpose_a ? 'T' : 'N', q->transpose_b ? 'T' : 'N');
    table_add_row(t);
    table_add_integer(t, q->batches);
    table_add_integer(t, q->m);
    table_add_integer(t, q->n);
    table_add_integer(t, q->k);
    table_add_text(t, how);
    table_add_integer(t, c->count);
}

static void add_shape_columns(report_table *t) {
    static const char *const headers[] = {"batch", "M", "N", "K", "operands", "per step"};
    for (int i = 0; i < 6; i++)
        table_add_column(t, headers[i], headers[i], i == 4 ? TABLE_LEFT : TABLE_RIGHT);
}

static double flops_of(const matmul_problem *q) {
    return 2.0 * (double)(q->batches * q->m * q->n) * (double)q->k;
}

static void print_table(report_table *t) {
    text out = {0};
    table_render(t, TABLE_TERMINAL, false, &out);
    fputs(text_string(&out), stdout);
    text_release(&out);
    table_destroy(t);
}

/* ---- several methods, product by product ---- */

enum { MOST_METHODS = 6 };

typedef struct method_list {
    int methods[MOST_METHODS], count;
} method_list;

/* False where one of the names is of no method. */
static bool parse_methods(const char *names, method_list *out) {
    char rest[128];
    snprintf(rest, sizeof rest, "%s", names);
    out->count = 0;
    for (char *save, *name = strtok_r(rest, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        if (out->count == MOST_METHODS || find_method(name) == GEMM_METHOD_COUNT)
            return false;
        out->methods[out->count++] = find_method(name);
    }
    return out->count > 0;
}

static void shuffle(int *order, int count) {
    static unsigned seed = 1;
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        seed = seed * 1103515245u + 12345u;
        int other = (int)((seed >> 16) % (unsigned)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* times[method][round], of one product each. */
static void time_by_turns(side_of_case *sides, int count, int rounds, double **times) {
    int order[MOST_METHODS];
    for (int r = -1; r < rounds; r++) {
        shuffle(order, count);
        for (int i = 0; i < count; i++) {
            int64_t begin = clock_now_ns();
            run_ours(&sides[order[i]]);
            if (r >= 0)
                times[order[i]][r] = (double)(clock_now_ns() - begin);
        }
    }
}

static void compare_methods(const shape_case *cases, int count, const method_list *list, dtype type,
                            int rounds, bool is_cold) {
    static side_of_case sides[MOST_METHODS];
    double *times[MOST_METHODS], total[MOST_METHODS] = {0}, log_sum[MOST_METHODS] = {0};
    double flops = 0;
    report_table *t = table_create("matrix products of a step, by turns product by product");
    add_shape_columns(t);
    for (int i = 0; i < list->count; i++) {
        const char *name = gemm_method_name((gemm_method)list->methods[i]);
        char header[64];
        snprintf(header, sizeof header, "%s GFLOP/s", name);
        table_add_column(t, header, header, TABLE_RIGHT);
        if (i) {
            snprintf(header, sizeof header, "%s ratio", name);
            table_add_column(t, header, header, TABLE_RIGHT);
        }
        times[i] = memory_allocate((size_t)rounds, sizeof *times[i]);
    }
    for (int c = 0; c < count; c++) {
        for (int i = 0; i < list->count; i++) {
            side_init(&sides[i], cases[c].launch, type, list->methods[i], is_cold);
            const char *why = gemm_reject(sides[i].method, &sides[i].copies[0].problem);
            if (why) {
                fprintf(stderr, "bench_gemm: %s cannot be compared: %s\n",
                        gemm_method_name(sides[i].method), why);
                exit(2);
            }
        }
        time_by_turns(sides, list->count, rounds, times);
        add_shape(t, &cases[c]);
        flops += flops_of(&cases[c].problem) * cases[c].count;
        for (int i = 1; i < list->count; i++)
            for (int r = 0; r < rounds; r++)
                times[i][r] = times[0][r] / times[i][r];
        double first = median(times[0], rounds);
        total[0] += first * cases[c].count;
        table_add_real(t, flops_of(&cases[c].problem) / first, 1);
        for (int i = 1; i < list->count; i++) {
            double speedup = median(times[i], rounds);
            log_sum[i] += log(speedup);
            total[i] += first / speedup * cases[c].count;
            table_add_real(t, flops_of(&cases[c].problem) / first * speedup, 1);
            table_add_real(t, speedup, 3);
        }
        for (int i = 0; i < list->count; i++)
            side_release(&sides[i]);
    }
    for (int i = 0; i < list->count; i++) {
        table_add_note(t, "%s: all products of a step %.1f ms (%.1f GFLOP/s), geometric mean %.3f",
                       gemm_method_name((gemm_method)list->methods[i]), total[i] / 1e6,
                       flops / total[i], exp(log_sum[i] / count));
        free(times[i]);
    }
    table_add_note(
        t,
        "%s, %d threads, %d rounds%s; ratio: the median of the first's time over it; GFLOP/s of "
        "the others are the first's median times that",
        dtype_name(type), threads_count(), rounds, is_cold ? ", operands from memory" : "");
    print_table(t);
}

int main(int argc, char **argv) {
    step_options options = {
        .batch = 4,
        .context = argc > 2 ? atoll(argv[2]) : 128,
        .pipeline = {.extent = STEP_FULL, .optimizer = step_default_optimizer()}};
    int rounds = argc > 3 ? atoi(argv[3]) : 15;
    const char *type_name = argc > 4 ? argv[4] : "fp32";
    dtype type = strcmp(type_name, "bf16") == 0   ? DTYPE_BF16
                 : strcmp(type_name, "fp16") == 0 ? DTYPE_F16
                                                  : DTYPE_F32;
    if (type == DTYPE_F32 && strcmp(type_name, "fp32") != 0) {
        fprintf(stderr, "bench_gemm: precision is '%s', it can be fp32, bf16 or fp16\n", type_name);
        return 2;
    }
    const char *wanted = argc > 5 && strcmp(argv[5], "auto") != 0 ? argv[5] : NULL;
    method_list list = {0};
    if (wanted && !parse_methods(wanted, &list)) {
        fprintf(stderr, "bench_gemm: '%s' is no method, nor several of them with commas\n", wanted);
        return 2;
    }
    int chosen = wanted ? list.methods[0] : -1;
    bool is_cold = argc > 6 && strcmp(argv[6], "cold") == 0;
    if (argc > 6 && !is_cold) {
        fprintf(stderr, "bench_gemm: the sixth argument is '%s', it can be cold\n", argv[6]);
        return 2;
    }
    plan *p;
    if (model_config_from_preset(argc > 1 ? argv[1] : "small", &options.config) != DYNO_OK ||
        step_plan_create(&options, &p) != DYNO_OK || rounds < 1) {
        fprintf(stderr, "bench_gemm: %s\n", dyno_error_message());
        return 2;
    }
    void *library = dlopen("libdnnl.so.3", RTLD_NOW);
    if (!library)
        library = dlopen("libdnnl.so.2", RTLD_NOW);
    sgemm_function *sgemm = NULL;
    if (library)
        *(void **)&sgemm = dlsym(library, "dnnl_sgemm");
    if (!sgemm)
        fprintf(stderr, "bench_gemm: oneDNN is not installed, there is nothing to compare with\n");
    enum { MOST = 64 };
    shape_case cases[MOST];
    int count = collect(p, cases, MOST);
    if (list.count > 1) {
        compare_methods(cases, count, &list, type, rounds, is_cold);
        plan_destroy(p);
        return 0;
    }
    report_table *t = table_create("matrix products of a step: ours against dnnl_sgemm alone");
    add_shape_columns(t);
    table_add_column(t, "ours by", "ours by", TABLE_LEFT);
    static const char *const headers[] = {"ours GFLOP/s", "library GFLOP/s", "ours/library"};
    for (int i = 0; i < 3; i++)
        table_add_column(t, headers[i], headers[i], TABLE_RIGHT);
    double log_sum = 0, worst = INFINITY, our_total = 0, library_total = 0, flops_total = 0;
    double best_total = 0; /* of our fastest rounds: the peak is that of the fastest, too */
    omp_set_num_threads(threads_count());
    for (int c = 0; c < count; c++) {
        const matmul_problem *q = &cases[c].problem;
        static side_of_case us, library_side;
        side_init(&us, cases[c].launch, type, chosen, is_cold);
        side_init(&library_side, cases[c].launch, DTYPE_F32, GEMM_ONEDNN, is_cold);
        double flops = flops_of(q);
        double *ours = memory_allocate((size_t)rounds, sizeof *ours);
        double *theirs = memory_allocate((size_t)rounds, sizeof *theirs);
        double *ratio = memory_allocate((size_t)rounds, sizeof *ratio);
        int repeats = (int)(4e9 / flops) + 1; /* tens of milliseconds a side */
        library_side.sgemm = sgemm;
        library_side.shape = *q;
        for (int r = -1; r < rounds; r++) {
            double our_ns = time_turn(&us, run_ours, repeats);
            double library_ns = sgemm ? time_turn(&library_side, run_theirs, repeats) : NAN;
            if (r < 0)
                continue; /* both warmed up */
            ours[r] = our_ns;
            theirs[r] = library_ns;
            ratio[r] = library_ns / our_ns;
        }
        double our_ns = median(ours, rounds), library_ns = median(theirs, rounds);
        double speedup = median(ratio, rounds);
        log_sum += log(speedup);
        worst = fmin(worst, speedup);
        our_total += our_ns * cases[c].count;
        best_total += ours[0] * cases[c].count; /* they are sorted by now */
        library_total += library_ns * cases[c].count;
        flops_total += flops * cases[c].count;
        add_shape(t, &cases[c]);
        table_add_text(t, gemm_method_name(us.method));
        table_add_real(t, flops / our_ns, 1);
        table_add_real(t, sgemm ? flops / library_ns : NAN, 1);
        table_add_real(t, sgemm ? speedup : NAN, 3);
        side_release(&us);
        side_release(&library_side);
        free(ours);
        free(theirs);
        free(ratio);
    }
    table_add_note(
        t, "ours %s, %d threads, %d rounds%s; all products of a step %.1f ms (%.1f GFLOP/s)",
        type_name, threads_count(), rounds, is_cold ? ", operands from memory" : "",
        our_total / 1e6, flops_total / our_total);
    if (sgemm)
        table_add_note(
            t, "library %.1f ms (%.1f GFLOP/s); geometric mean of ours/library %.3f, worst %.3f",
            library_total / 1e6, flops_total / library_total, exp(log_sum / count), worst);
    const target *chip = find_chip(chosen);
    double peak = machine_measure_peak_flops_f32(chip, 0);
    table_add_note(
        t,
        "the fp32 peak of FMAs with %s is %.1f GFLOP/s; ours reach %.1f %% of it, in their "
        "fastest rounds %.1f %%",
        chip == target_this_cpu() ? "this CPU's widest vectors" : chip->name, peak,
        100 * flops_total / our_total / peak, 100 * flops_total / best_total / peak);
    print_table(t);
    plan_destroy(p);
    return 0;
}
