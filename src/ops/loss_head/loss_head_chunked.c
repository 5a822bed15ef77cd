/* loss_head_chunked.c - workspace:
 *
 *   logits of a chunk, f32 | f16 only: W, x and dx of the chunk in f32 | the products' own
 *
 * dlogits overwrite the logits row by row; in bf16 a row takes the first half of where it was in
 * f32, so that the next products read rows of twice the length. f16 is multiplied as f32, and
 * there dlogits stay in f32. Chunks follow one another: dW is added up in their order, whatever
 * the number of threads. dx comes last: it may lie where x does. */
#include <assert.h>

#include "base/threads.h"
#include "ops/cast/convert.h"
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/loss_head/loss_head.h"
#include "ops/matmul/gemm.h"

enum { ALIGNMENT = 64 };
enum { LOGITS, WEIGHT, X, DX, PARTS }; /* of the workspace */

typedef struct head {
    const kernel_args *args;
    int64_t N, V, D, chunk;
    bool has_gradient;
    dtype type;       /* of x and W */
    dtype multiplied; /* what they are multiplied in */
    size_t offset[PARTS + 1];
} head;

static size_t part_bytes(const head *h, int part) {
    int64_t rows = h->chunk < h->N ? h->chunk : h->N;
    bool is_widened = h->type != h->multiplied;
    bool has_dx = is_widened && h->has_gradient && h->args->outputs[1].type != DTYPE_F32;
    const int64_t elements[PARTS] = {[LOGITS] = rows * h->V,
                                     [WEIGHT] = is_widened ? h->V * h->D : 0,
                                     [X] = is_widened ? rows * h->D : 0,
                                     [DX] = has_dx ? rows * h->D : 0};
    return ((size_t)elements[part] * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static head describe(const kernel_args *args) {
    dtype type = args->inputs[0].type;
    head h = {.args = args,
              .N = args->inputs[0].shape.dim[0],
              .V = args->inputs[1].shape.dim[0],
              .D = args->inputs[1].shape.dim[1],
              .chunk = attribute_integer(args->attributes, "chunk"),
              .has_gradient = args->output_count > 1,
              .type = type,
              .multiplied = type == DTYPE_F16 ? DTYPE_F32 : type};
    for (int i = 0; i < PARTS; i++)
        h.offset[i + 1] = h.offset[i] + part_bytes(&h, i);
    return h;
}

static void *part(const head *h, int index) {
    return h->args->workspace ? (char *)h->args->workspace + h->offset[index] : NULL;
}

/* Element `index` of an operand, or NULL when only layouts are known. */
static void *at(const tensor *t, int64_t index) {
    return t->data ? (char *)t->data + index * dtype_bytes(t->type) : NULL;
}

static gemm_operand x_rows(const head *h, int64_t first) {
    const void *data =
        h->type == h->multiplied ? at(&h->args->inputs[0], first * h->D) : part(h, X);
    return (gemm_operand){data, h->multiplied, h->D, 1};
}

static gemm_operand weight(const head *h, bool is_transposed) {
    const void *data = h->type == h->multiplied ? h->args->inputs[1].data : part(h, WEIGHT);
    return (gemm_operand){data, h->multiplied, is_transposed ? 1 : h->D, is_transposed ? h->D : 1};
}

/* dx leaves in f16 by way of the workspace. */
static bool dx_is_rounded_later(const head *h) {
    return h->type != h->multiplied && h->args->outputs[1].type != DTYPE_F32;
}

static gemm_problem logits_problem(const head *h, int64_t first, int64_t rows) {
    return (gemm_problem){.m = rows,
                          .n = h->V,
                          .k = h->D,
                          .a = x_rows(h, first),
                          .b = weight(h, true),
                          .c = part(h, LOGITS),
                          .c_type = DTYPE_F32,
                          .ldc = h->V,
                          .alpha = 1,
                          .target = h->args->target};
}

/* Elements from one row of dlogits to the next. */
static int64_t gradient_stride(const head *h) {
    return h->V * (int64_t)sizeof(float) / dtype_bytes(h->multiplied);
}

static gemm_problem dx_problem(const head *h, int64_t first, int64_t rows) {
    const tensor *dx = &h->args->outputs[1];
    bool is_later = dx_is_rounded_later(h);
    return (gemm_problem){.m = rows,
                          .n = h->D,
                          .k = h->V,
                          .a = {part(h, LOGITS), h->multiplied, gradient_stride(h), 1},
                          .b = weight(h, false),
                          .c = is_later ? part(h, DX) : at(dx, first * h->D),
                          .c_type = is_later ? DTYPE_F32 : dx->type,
                          .ldc = h->D,
                          .alpha = 1,
                          .target = h->args->target};
}

static gemm_problem dw_problem(const head *h, int64_t first, int64_t rows) {
    return (gemm_problem){.m = h->V,
                          .n = h->D,
                          .k = rows,
                          .a = {part(h, LOGITS), h->multiplied, 1, gradient_stride(h)},
                          .b = x_rows(h, first),
                          .c = h->args->outputs[2].data,
                          .c_type = h->args->outputs[2].type,
                          .ldc = h->D,
                          .alpha = 1,
                          .accumulates = first > 0,
                          .target = h->args->target};
}

typedef struct rows_context {
    const head *h;
    int64_t first;
} rows_context;

static void run_rows(void *context, int64_t begin, int64_t end) {
    const rows_context *c = context;
    const head *h = c->h;
    const int32_t *targets = (const int32_t *)h->args->inputs[2].data + c->first;
    float *losses = (float *)h->args->outputs[0].data + c->first;
    for (int64_t i = begin; i < end; i++) {
        float *row = (float *)part(h, LOGITS) + i * h->V;
        assert(targets[i] >= 0 && targets[i] < h->V);
        double lse = cross_entropy_log_sum_exp(h->V, row);
        losses[i] = (float)(lse - row[targets[i]]);
        if (!h->has_gradient)
            continue;
        const tensor *dy = &h->args->inputs[3];
        float upstream = ((const float *)dy->data)[(c->first + i) * dy->stride[0]];
        cross_entropy_gradient_in_place(h->V, row, targets[i], (float)lse, upstream);
        if (h->multiplied != DTYPE_F32)
            convert_f32_to_low(h->multiplied, h->V, row, (uint16_t *)(void *)row);
    }
}

static void multiply(const head *h, gemm_problem product) { gemm_run(&product, part(h, PARTS)); }

static dyno_status run(const kernel_args *args) {
    head h = describe(args);
    bool is_widened = h.type != h.multiplied;
    if (is_widened)
        convert_low_to_f32(h.type, h.V * h.D, args->inputs[1].data, part(&h, WEIGHT));
    for (int64_t first = 0; first < h.N; first += h.chunk) {
        int64_t rows = h.N - first < h.chunk ? h.N - first : h.chunk;
        if (is_widened)
            convert_low_to_f32(h.type, rows * h.D, at(&args->inputs[0], first * h.D), part(&h, X));
        multiply(&h, logits_problem(&h, first, rows));
        rows_context c = {&h, first};
        threads_for(rows, 1, run_rows, &c);
        if (!h.has_gradient)
            continue;
        multiply(&h, dw_problem(&h, first, rows));
        multiply(&h, dx_problem(&h, first, rows));
        if (dx_is_rounded_later(&h))
            convert_f32_to_low(h.type, rows * h.D, part(&h, DX),
                               at(&args->outputs[1], first * h.D));
    }
    return DYNO_OK;
}

static size_t most_scratch(const head *h, int64_t first, int64_t rows) {
    gemm_problem product = logits_problem(h, first, rows);
    size_t most = gemm_workspace_bytes(&product);
    for (int i = 0; h->has_gradient && i < 2; i++) {
        product = i ? dw_problem(h, first, rows) : dx_problem(h, first, rows);
        size_t bytes = gemm_workspace_bytes(&product);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The last chunk may be of another length, and need more for its products than a full one. */
static size_t workspace_bytes(const kernel_args *args) {
    head h = describe(args);
    int64_t full = h.chunk < h.N ? h.chunk : h.N, last = h.N % full;
    size_t most = most_scratch(&h, 0, full);
    size_t at_end = last ? most_scratch(&h, h.N - last, last) : 0;
    return h.offset[PARTS] + (most > at_end ? most : at_end);
}

static const char *reject(const kernel_args *args) {
    if (dtype_bytes(args->inputs[0].type) > (int)sizeof(float))
        return "multiplies f32, bf16 and f16 only";
    for (int i = 0; i < 3; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "x, the weight and targets must be dense";
    bool is_added_up = attribute_integer(args->attributes, "chunk") < args->inputs[0].shape.dim[0];
    dtype dw = args->output_count > 1 ? args->outputs[2].type : DTYPE_F32;
    if (dw != DTYPE_F32 && (is_added_up || dw != DTYPE_BF16))
        return "gives dW in f32, or of one chunk in bf16";
    return NULL;
}

const kernel loss_head_chunked = {.name = "loss_head_chunked",
                                  .target = TARGET_CPU,
                                  .reject = reject,
                                  .workspace_bytes = workspace_bytes,
                                  .run = run,
                                  .overwrites_input = 2};

const kernel loss_head_forward_chunked = {.name = "loss_head_forward_chunked",
                                          .target = TARGET_CPU,
                                          .reject = reject,
                                          .workspace_bytes = workspace_bytes,
                                          .run = run};
