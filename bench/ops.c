/* ops.c - how near to the memory's bandwidth the ordinary kernels come, an op a row.
 *
 *   build/bench_ops [TARGET] [ROUNDS] [OP]      default: cpu 15, every op of the list
 *
 * TARGET is this CPU or a lesser one that it can stand in for (avx2). Operands are larger than the
 * caches. The table gives the median time of the rounds, the bytes that the op must move by its own
 * cost over that time, and how many times longer it takes than a copy (memcpy on all threads, bytes
 * read and written) of as many bytes. Op and copy alternate, round by round, and the ratio is the
 * median of the rounds' ratios, because what others leave of the memory's bandwidth changes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "measure/statistics.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/levels.h"
#include "ops/op_list.h"
#include "ops/reduction.h"
#include "ops/rope/rope.h"
#include "ops/scatter_add/scatter_add.h"
#include "report/table.h"

/* Rows and columns of most operands: 64 MiB of f32. */
enum { ROWS = 4096, COLUMNS = 4096, HEADS = 32, HEAD = 128, VOCABULARY = 32768, TOKENS = 512 };
enum { MOST_OPERANDS = 16 };

typedef struct bench_case bench_case;
struct bench_case {
    const char *name;
    value *(*build)(const bench_case *c, graph *g);
    const op *kind;    /* of the families */
    dtype from, to;    /* of casts */
    bool is_by_column; /* of reductions */
};

static value *leaf(graph *g, dtype type, shape s) {
    char name[32];
    snprintf(name, sizeof name, "x%d", g->value_count);
    return graph_add_leaf(g, ROLE_INPUT, type, &s, name);
}

static value *matrix(graph *g) { return leaf(g, DTYPE_F32, SHAPE(ROWS, COLUMNS)); }
static value *scalar(graph *g, dtype type) { return leaf(g, type, (shape){.rank = 0}); }

static value *build_map(const bench_case *c, graph *g) {
    value *inputs[ELEMENTWISE_MAX_INPUTS];
    for (int i = 0; i < c->kind->input_count; i++)
        inputs[i] =
            c->kind == &op_select && i == 0 ? leaf(g, DTYPE_BOOL, SHAPE(ROWS, COLUMNS)) : matrix(g);
    return elementwise_build(g, c->kind, inputs, c->kind->input_count);
}

static value *build_scaled(const bench_case *c, graph *g) {
    return elementwise_build_scalar(g, c->kind, matrix(g), 0.5);
}

static value *build_cast_case(const bench_case *c, graph *g) {
    return build_cast(g, leaf(g, c->from, SHAPE(ROWS, COLUMNS)), c->to);
}

static value *build_reduction(const bench_case *c, graph *g) {
    const shape axis = SHAPE(c->is_by_column ? 0 : 1);
    return reduction_build(g, c->kind, matrix(g), &axis);
}

static value *build_rope_case(const bench_case *c, graph *g) {
    (void)c;
    value *table = leaf(g, DTYPE_F32, SHAPE(TOKENS, HEAD / 2));
    value *other = leaf(g, DTYPE_F32, SHAPE(TOKENS, HEAD / 2));
    value *x = leaf(g, DTYPE_F32, SHAPE(ROWS / TOKENS * HEADS, TOKENS, HEAD));
    return build_rope(g, x, (rope_table){table, other}, false);
}

static value *build_losses(const bench_case *c, graph *g) {
    (void)c;
    return build_cross_entropy(g, leaf(g, DTYPE_F32, SHAPE(TOKENS, VOCABULARY)),
                               leaf(g, DTYPE_I32, SHAPE(TOKENS)));
}

static value *build_losses_gradient(const bench_case *c, graph *g) {
    value *inputs[] = {leaf(g, DTYPE_F32, SHAPE(TOKENS, VOCABULARY)),
                       leaf(g, DTYPE_I32, SHAPE(TOKENS)), leaf(g, DTYPE_F32, SHAPE(TOKENS)),
                       leaf(g, DTYPE_F32, SHAPE(TOKENS))};
    return graph_add_node(g, c->kind, inputs, 4, NULL, 0);
}

static value *build_rows_read(const bench_case *c, graph *g) {
    (void)c;
    return build_gather(g, matrix(g), leaf(g, DTYPE_I32, SHAPE(ROWS)));
}

static value *build_rows_added(const bench_case *c, graph *g) {
    (void)c;
    return build_scatter_add(g, leaf(g, DTYPE_I32, SHAPE(ROWS)), matrix(g), ROWS);
}

static const adamw_options OPTIONS = {
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

static value *build_update(const bench_case *c, graph *g) {
    (void)c;
    adamw_inputs in = {.weight = matrix(g),
                       .gradient = matrix(g),
                       .first_moment = matrix(g),
                       .second_moment = matrix(g),
                       .learning_rate = scalar(g, DTYPE_F64),
                       .step = scalar(g, DTYPE_I64),
                       .gradient_scale = scalar(g, DTYPE_F32)};
    return build_adamw(g, &in, &OPTIONS);
}

/* f32 alone, or a weight in two halves with a gradient in bf16. */
static value *build_updates(const bench_case *c, graph *g) {
    bool is_split = c->from == DTYPE_BF16;
    shape s = SHAPE(ROWS, COLUMNS);
    adamw_parameter p = {.weight = leaf(g, is_split ? DTYPE_U16 : DTYPE_F32, s),
                         .gradient = leaf(g, c->from, s),
                         .first_moment = matrix(g),
                         .second_moment = matrix(g),
                         .low_copy = is_split ? leaf(g, DTYPE_BF16, s) : NULL};
    value *rate = scalar(g, DTYPE_F64), *step = scalar(g, DTYPE_I64);
    return build_adamw_many(g, &p, 1, rate, step, scalar(g, DTYPE_F32), &OPTIONS);
}

static value *build_norm(const bench_case *c, graph *g) {
    return graph_add_node(g, c->kind, (value *[]){matrix(g)}, 1, NULL, 0);
}

static const bench_case CASES[] = {
    {.name = "add", .build = build_map, .kind = &op_add},
    {.name = "multiply", .build = build_map, .kind = &op_multiply},
    {.name = "divide", .build = build_map, .kind = &op_divide},
    {.name = "divide gradient", .build = build_map, .kind = &op_divide_gradient},
    {.name = "scale", .build = build_scaled, .kind = &op_scale},
    {.name = "exp", .build = build_map, .kind = &op_exp},
    {.name = "log", .build = build_map, .kind = &op_log},
    {.name = "rsqrt", .build = build_map, .kind = &op_rsqrt},
    {.name = "rsqrt gradient", .build = build_map, .kind = &op_rsqrt_gradient},
    {.name = "sigmoid", .build = build_map, .kind = &op_sigmoid},
    {.name = "sigmoid gradient", .build = build_map, .kind = &op_sigmoid_gradient},
    {.name = "greater or equal", .build = build_map, .kind = &op_greater_equal},
    {.name = "select", .build = build_map, .kind = &op_select},
    {.name = "cast f32 to bf16", .build = build_cast_case, .from = DTYPE_F32, .to = DTYPE_BF16},
    {.name = "cast bf16 to f32", .build = build_cast_case, .from = DTYPE_BF16, .to = DTYPE_F32},
    {.name = "cast f32 to f16", .build = build_cast_case, .from = DTYPE_F32, .to = DTYPE_F16},
    {.name = "cast f16 to f32", .build = build_cast_case, .from = DTYPE_F16, .to = DTYPE_F32},
    {.name = "sum of rows", .build = build_reduction, .kind = &op_sum},
    {.name = "sum of columns", .build = build_reduction, .kind = &op_sum, .is_by_column = true},
    {.name = "mean of rows", .build = build_reduction, .kind = &op_mean},
    {.name = "max of rows", .build = build_reduction, .kind = &op_max},
    {.name = "max of columns", .build = build_reduction, .kind = &op_max, .is_by_column = true},
    {.name = "global norm", .build = build_norm, .kind = &op_global_norm},
    {.name = "gather", .build = build_rows_read},
    {.name = "scatter add", .build = build_rows_added},
    {.name = "RoPE", .build = build_rope_case},
    {.name = "cross-entropy", .build = build_losses},
    {.name = "cross-entropy gradient",
     .build = build_losses_gradient,
     .kind = &op_cross_entropy_gradient},
    {.name = "AdamW", .build = build_update},
    {.name = "AdamW, many", .build = build_updates, .from = DTYPE_F32},
    {.name = "AdamW, many, bf16", .build = build_updates, .from = DTYPE_BF16},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* One op with its operands. */
typedef struct prepared {
    graph *g;
    const node *n;
    const kernel *k; /* NULL: none takes the operands */
    tensor inputs[MOST_OPERANDS], outputs[MOST_OPERANDS];
    kernel_args args;
    size_t workspace_bytes;
    double bytes, *times_ns, *copies_ns;
} prepared;

/* Huge pages where the system gives them, as the runtime's memory has. */
static void *map_bytes(size_t bytes) {
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        fprintf(stderr, "bench_ops: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    madvise(block, bytes, MADV_HUGEPAGE);
    return block;
}

/* Positive numbers below one, ids of rows, and a first step. */
static void fill_operand(tensor *t) {
    t->data = map_bytes((size_t)tensor_bytes(t) + 1);
    for (int64_t i = 0; i < shape_elements(&t->shape); i++)
        dtype_store(t->type, t->data, i,
                    t->type == DTYPE_I32      ? (double)(i * 7919 % TOKENS)
                    : dtype_is_float(t->type) ? (double)(i % 1021 + 1) / 1024
                                              : 1);
}

static prepared prepare(const bench_case *c, const target *chip, int rounds) {
    prepared p = {.g = graph_create("one op")};
    p.n = c->build(c, p.g)->producer;
    p.args = (kernel_args){.input_count = p.n->input_count,
                           .output_count = p.n->output_count,
                           .inputs = p.inputs,
                           .outputs = p.outputs,
                           .attributes = &p.n->attributes,
                           .target = chip};
    for (int i = 0; i < p.n->input_count; i++)
        p.inputs[i] = tensor_contiguous(NULL, p.n->inputs[i]->type, &p.n->inputs[i]->shape);
    for (int i = 0; i < p.n->output_count; i++)
        p.outputs[i] = tensor_contiguous(NULL, p.n->outputs[i]->type, &p.n->outputs[i]->shape);
    p.k = p.n->op->kernels ? kernel_pick(p.n->op->kernels, &p.args, NULL) : NULL;
    if (!p.k)
        return p;
    p.workspace_bytes = p.k->workspace_bytes ? p.k->workspace_bytes(&p.args) : 0;
    p.args.workspace = p.workspace_bytes ? map_bytes(p.workspace_bytes) : NULL;
    p.k = level_kernel(p.k, chip);
    for (int i = 0; i < p.n->input_count; i++)
        fill_operand(&p.inputs[i]);
    for (int i = 0; i < p.n->output_count; i++) {
        int taken = op_inplace_input(p.n, i);
        p.outputs[i].data = taken >= 0 ? p.inputs[taken].data
                                       : memset(map_bytes((size_t)tensor_bytes(&p.outputs[i])), 0,
                                                (size_t)tensor_bytes(&p.outputs[i]));
    }
    op_cost cost = p.n->op->cost(p.n);
    p.bytes = cost.bytes_read + cost.bytes_written;
    p.times_ns = memory_allocate((size_t)rounds, sizeof *p.times_ns);
    p.copies_ns = memory_allocate((size_t)rounds, sizeof *p.copies_ns);
    return p;
}

static void release(prepared *p) {
    for (int i = 0; p->k && i < p->n->output_count; i++)
        if (op_inplace_input(p->n, i) < 0)
            munmap(p->outputs[i].data, (size_t)tensor_bytes(&p->outputs[i]));
    for (int i = 0; p->k && i < p->n->input_count; i++)
        munmap(p->inputs[i].data, (size_t)tensor_bytes(&p->inputs[i]) + 1);
    if (p->args.workspace)
        munmap(p->args.workspace, p->workspace_bytes);
    free(p->times_ns);
    free(p->copies_ns);
    graph_destroy(p->g);
}

enum { COPY_BYTES = 64 << 20 };

static void copy_range(void *context, int64_t begin, int64_t end) {
    char *block = context;
    memcpy(block + begin, block + COPY_BYTES + begin, (size_t)(end - begin));
}

/* The first round, which is not counted, touches what was mapped. */
static void time_rounds(prepared *p, int rounds, char *copied) {
    for (int round = -1; round < rounds; round++) {
        int64_t copy_begin = clock_now_ns();
        threads_for(COPY_BYTES, COPY_BYTES / threads_count(), copy_range, copied);
        int64_t begin = clock_now_ns();
        if (p->k->run(&p->args) != DYNO_OK) {
            fprintf(stderr, "bench_ops: %s: %s\n", p->k->name, dyno_error_message());
            exit(1);
        }
        if (round < 0)
            continue;
        p->times_ns[round] = (double)(clock_now_ns() - begin);
        p->copies_ns[round] = (double)(begin - copy_begin) * p->bytes / (2.0 * COPY_BYTES);
    }
}

static void add_row(report_table *t, const bench_case *c, prepared *p, int rounds) {
    table_add_row(t);
    table_add_text(t, c->name);
    if (!p->k) {
        table_add_text(t, "none for these operands");
        return;
    }
    statistics times = statistics_of_reals(p->times_ns, rounds);
    table_add_text(t, p->k->name);
    table_add_real(t, p->bytes / 0x1p20, 0);
    table_add_real(t, times.median / 1e6, 2);
    table_add_real(t, p->bytes / times.median, 1);
    table_add_real(t, p->bytes / times.min, 1);
    table_add_real(t, p->bytes / statistics_of_reals(p->copies_ns, rounds).median, 1);
    for (int i = 0; i < rounds; i++)
        p->times_ns[i] /= p->copies_ns[i];
    table_add_real(t, statistics_of_reals(p->times_ns, rounds).median, 2);
}

int main(int argc, char **argv) {
    const target *chip;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    if (target_find(argc > 1 ? argv[1] : "cpu", &chip) != DYNO_OK ||
        target_check_is_runnable(chip) != DYNO_OK || target_is_cuda(chip) || rounds < 1) {
        fprintf(stderr, "bench_ops: %s\nusage: bench_ops [TARGET] [ROUNDS] [OP]\n",
                dyno_error_message());
        return 2;
    }
    char *copied = memset(map_bytes(2 * COPY_BYTES), 1, 2 * COPY_BYTES);
    report_table *t = table_create("kernels beside a copy of as many bytes");
    static const char *const headers[] = {"op",   "kernel",    "MiB",       "ms",
                                          "GB/s", "best GB/s", "copy GB/s", "x of copy"};
    for (int i = 0; i < 8; i++)
        table_add_column(t, headers[i], headers[i], i < 2 ? TABLE_LEFT : TABLE_RIGHT);
    for (int i = 0; i < CASE_COUNT; i++) {
        if (argc > 3 && strcmp(argv[3], CASES[i].name) != 0)
            continue;
        prepared p = prepare(&CASES[i], chip, rounds);
        if (p.k)
            time_rounds(&p, rounds, copied);
        add_row(t, &CASES[i], &p, rounds);
        release(&p);
    }
    table_add_note(t, "target %s, %d threads, %d rounds", chip->name, threads_count(), rounds);
    text out = {0};
    table_render(t, TABLE_TERMINAL, false, &out);
    fputs(text_string(&out), stdout);
    text_release(&out);
    table_destroy(t);
    munmap(copied, 2 * COPY_BYTES);
    return 0;
}
