#include "ops/accumulate/accumulate.h"

#include <string.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/cast/convert.h"
#include "ops/kernel.h"

enum { SUM, TERM, BLOCK = 4096, BLOCKS_PER_GRAIN = 4 };

static dyno_status infer(const node *n, value_type *outputs) {
    const value *sum = n->inputs[SUM], *term = n->inputs[TERM];
    if (sum->type != DTYPE_F32 || !dtype_is_float(term->type) || term->type == DTYPE_F64)
        return dyno_fail(DYNO_INVALID,
                         "the sum is %s and the term %s; it must be f32 += f32, bf16 or f16",
                         dtype_name(sum->type), dtype_name(term->type));
    if (!shape_equal(&sum->shape, &term->shape))
        return dyno_fail(DYNO_INVALID, "the sum is [%s], the term [%s]",
                         shape_format(&sum->shape).text, shape_format(&term->shape).text);
    outputs[0] = (value_type){DTYPE_F32, sum->shape};
    return DYNO_OK;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 1); }

/* The first micro-batch's. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    memcpy(outputs[0], inputs[TERM],
           (size_t)shape_elements(&n->outputs[0]->shape) * sizeof(double));
}

typedef struct accumulation {
    const tensor *term;
    float *sum;
    int64_t count;
    bool is_first;
} accumulation;

static void add(int64_t count, const float *restrict term, float *restrict sum) {
    for (int64_t i = 0; i < count; i++)
        sum[i] += term[i];
}

static void add_blocks(void *context, int64_t begin, int64_t end) {
    const accumulation *a = context;
    float wide[BLOCK];
    for (int64_t block = begin; block < end; block++) {
        int64_t start = block * BLOCK, left = a->count - start, n = left < BLOCK ? left : BLOCK;
        const float *term = (const float *)a->term->data + start;
        float *sum = a->sum + start;
        if (a->term->type != DTYPE_F32) {
            float *to = a->is_first ? sum : wide;
            convert_low_to_f32(a->term->type, n, (const uint16_t *)a->term->data + start, to);
            term = wide;
        } else if (a->is_first) {
            memcpy(sum, term, (size_t)n * sizeof *sum);
        }
        if (!a->is_first)
            add(n, term, sum);
    }
}

static dyno_status run(const kernel_args *args) {
    accumulation a = {.term = &args->inputs[TERM],
                      .sum = args->outputs[0].data,
                      .count = shape_elements(&args->outputs[0].shape),
                      .is_first = !args->context || args->context->repetition == 0};
    threads_for((a.count + BLOCK - 1) / BLOCK, BLOCKS_PER_GRAIN, add_blocks, &a);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[SUM]) && tensor_is_contiguous(&args->inputs[TERM])
               ? NULL
               : "the sum and the term must be dense";
}

static const kernel accumulate_f32 = {
    .name = "accumulate_f32", .target = TARGET_CPU, .reject = reject, .run = run};
static const kernel accumulate_cuda = {
    .name = "accumulate_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_accumulate = {.name = "accumulate",
                          .summary = "adds to a sum over micro-batches, in place",
                          .class = OP_CLASS_ELEMENTWISE,
                          .input_count = 2,
                          .output_count = 1,
                          .infer = infer,
                          .cost = cost,
                          .reference = reference,
                          .inplace = {1 + SUM},
                          .kernels =
                              (const kernel *const[]){&accumulate_f32, &accumulate_cuda, NULL}};

value *build_accumulate(graph *g, value *sum, value *term) {
    return graph_add_node(g, &op_accumulate, (value *[]){sum, term}, 2, NULL, 0);
}
