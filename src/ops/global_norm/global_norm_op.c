#include <math.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/cast/convert.h"
#include "ops/elementwise.h"
#include "ops/global_norm/global_norm.h"
#include "ops/global_norm/global_norm_blocks.h"

static dyno_status infer(const node *n, value_type *outputs) {
    for (int i = 0; i < n->input_count; i++)
        if (!dtype_is_float(n->inputs[i]->type))
            return dyno_fail(DYNO_INVALID, "input %d is %s, not a float", i,
                             dtype_name(n->inputs[i]->type));
    outputs[0] = (value_type){DTYPE_F32, SHAPE_SCALAR};
    return DYNO_OK;
}

static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    for (int i = 0; i < n->input_count; i++)
        cost.flops += 2 * (double)shape_elements(&n->inputs[i]->shape);
    return cost;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    double sum = 0;
    for (int i = 0; i < n->input_count; i++)
        for (int64_t j = 0; j < shape_elements(&n->inputs[i]->shape); j++)
            sum += inputs[i][j] * inputs[i][j];
    outputs[0][0] = sqrt(sum);
}

/* Every input is divided into blocks of this length by its shape alone; the sum of each block has a
 * slot in the workspace, and they are added in order. */
enum { BLOCK = 16384, LANES = 32 };

static int64_t blocks_of(const tensor *t) {
    return (shape_elements(&t->shape) + BLOCK - 1) / BLOCK;
}

typedef struct norm_context {
    const tensor *in;
    double *sums;
} norm_context;

static double sum_squares(int64_t n, const float *x) {
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] * x[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += x[i] * x[i];
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

static void sum_blocks(void *context, int64_t begin, int64_t end) {
    const norm_context *c = context;
    int64_t elements = shape_elements(&c->in->shape);
    float wide[BLOCK];
    for (int64_t block = begin; block < end; block++) {
        int64_t start = block * BLOCK, left = elements - start, n = left < BLOCK ? left : BLOCK;
        const float *x = wide;
        if (c->in->type == DTYPE_F32)
            x = (const float *)c->in->data + start;
        else
            convert_low_to_f32(c->in->type, n, (const uint16_t *)c->in->data + start, wide);
        c->sums[block] = sum_squares(n, x);
    }
}

static dyno_status run(const kernel_args *args) {
    double total = 0, *sums = args->workspace;
    for (int i = 0; i < args->input_count; i++) {
        norm_context c = {&args->inputs[i], sums};
        int64_t blocks = blocks_of(&args->inputs[i]);
        threads_for(blocks, 1, sum_blocks, &c);
        for (int64_t b = 0; b < blocks; b++)
            total += sums[b];
    }
    *(float *)args->outputs[0].data = (float)sqrt(total);
    return DYNO_OK;
}

static size_t workspace_bytes(const kernel_args *args) {
    int64_t most = 0;
    for (int i = 0; i < args->input_count; i++)
        if (blocks_of(&args->inputs[i]) > most)
            most = blocks_of(&args->inputs[i]);
    return (size_t)most * sizeof(double);
}

static const char *reject(const kernel_args *args) {
    for (int i = 0; i < args->input_count; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "inputs must be dense";
        else if (args->inputs[i].type == DTYPE_F64)
            return "inputs must be f32, bf16 or f16";
    return NULL;
}

static const kernel global_norm_f32 = {.name = "global_norm_f32",
                                       .target = TARGET_CPU,
                                       .reject = reject,
                                       .workspace_bytes = workspace_bytes,
                                       .run = run};

static size_t workspace_bytes_cuda(const kernel_args *args) {
    int64_t blocks = 0;
    for (int i = 0; i < args->input_count; i++)
        blocks += global_norm_blocks(shape_elements(&args->inputs[i].shape));
    return (size_t)blocks * sizeof(double);
}

static const kernel global_norm_cuda = {.name = "global_norm_cuda",
                                        .target = TARGET_CUDA,
                                        .reject = reject,
                                        .workspace_bytes = workspace_bytes_cuda};

const op op_global_norm = {.name = "global_norm",
                           .summary = "Euclidean norm of all inputs together",
                           .class = OP_CLASS_OPTIMIZER,
                           .input_count = OP_ANY_COUNT,
                           .output_count = 1,
                           .infer = infer,
                           .cost = cost,
                           .reference = reference,
                           .kernels =
                               (const kernel *const[]){&global_norm_f32, &global_norm_cuda, NULL}};

value *build_global_norm(graph *g, value *const *values, int count) {
    return graph_add_node(g, &op_global_norm, values, count, NULL, 0);
}

ELEMENTWISE_OP_SCALAR(clip_coefficient, "min(1, s / (a + 1e-6)), the factor that clips a norm a", 3,
                      NULL, s >= a + 1e-6f ? 1 : s / (a + 1e-6f)) /* NaN stays NaN */

value *build_clip_coefficient(graph *g, value *norm, double max_norm) {
    return elementwise_build_scalar(g, &op_clip_coefficient, norm, max_norm);
}

/* a: the scaled norm, b: the loss scale, s: the limit. Adding a - a makes it NaN unless a is
 * finite. */
#define UNSCALE (s > 0 && s < a / b + 1e-6f ? s / (a / b + 1e-6f) : 1) / b + (a - a)
#define TEXT_OF(EXPRESSION) #EXPRESSION
#define EXPANDED_TEXT_OF(EXPRESSION) TEXT_OF(EXPRESSION)

ELEMENTWISE_LOOP_2(unscale_coefficient, float, float, float, UNSCALE)
ELEMENTWISE_REFERENCE(unscale_coefficient, UNSCALE)
ELEMENTWISE_KERNEL_F32(unscale_coefficient)
ELEMENTWISE_DESCRIBE(unscale_coefficient, 2,
                     "factor that undoes a loss scale b and clips a norm a; NaN for overflow", 6,
                     elementwise_infer_same_with_scalar, NULL, EXPANDED_TEXT_OF(UNSCALE))

value *build_unscale_coefficient(graph *g, value *norm, value *loss_scale, double max_norm) {
    return graph_add_node(g, &op_unscale_coefficient, (value *[]){norm, loss_scale}, 2,
                          &ATTR_REAL("s", max_norm), 1);
}
