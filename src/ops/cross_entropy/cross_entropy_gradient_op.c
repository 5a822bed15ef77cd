/* cross_entropy_gradient_op.c - inputs: logits[N, V], targets i32[N], log-sum-exp[N] and the
 * losses' gradient dy[N]; result: (softmax(logits) - onehot(targets)) * dy. */
#include <math.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/kernel.h"
#include "ops/scalar_math.h"

static dyno_status infer(const node *n, value_type *outputs) {
    const value *logits = n->inputs[0];
    for (int i = 1; i < 4; i++)
        if (logits->shape.rank != 2 || n->inputs[i]->shape.rank != 1 ||
            n->inputs[i]->shape.dim[0] != logits->shape.dim[0])
            return dyno_fail(DYNO_INVALID,
                             "input %d is [%s]; it must have one entry for each row "
                             "of [%s]",
                             i, shape_format(&n->inputs[i]->shape).text,
                             shape_format(&logits->shape).text);
    outputs[0] = (value_type){logits->type, logits->shape};
    return DYNO_OK;
}

/* Per logit: subtract, exponentiate, multiply. */
static op_cost cost(const node *n) { return op_cost_streaming(n, 3); }

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *s = &n->inputs[0]->shape;
    for (int64_t i = 0; i < s->dim[0]; i++)
        for (int64_t j = 0; j < s->dim[1]; j++) {
            double p = exp(inputs[0][i * s->dim[1] + j] - inputs[2][i]);
            outputs[0][i * s->dim[1] + j] = (p - (j == (int64_t)inputs[1][i])) * inputs[3][i];
        }
}

static void softmax_row(int64_t n, const float *restrict row, float lse, float dy,
                        float *restrict out) {
    for (int64_t j = 0; j < n; j++)
        out[j] = exp_f32(row[j] - lse) * dy;
}

static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const int32_t *targets = args->inputs[1].data;
    const float *lse = args->inputs[2].data, *dy = args->inputs[3].data;
    int64_t width = args->inputs[0].shape.dim[1];
    for (int64_t i = begin; i < end; i++) {
        const float *row = (const float *)args->inputs[0].data + i * width;
        float *out = (float *)args->outputs[0].data + i * width;
        float upstream = dy[i * args->inputs[3].stride[0]];
        softmax_row(width, row, lse[i], upstream, out);
        /* Not p * dy - dy: where p is near 1 that would cancel. */
        out[targets[i]] = (exp_f32(row[targets[i]] - lse[i]) - 1.0f) * upstream;
    }
}

static dyno_status run(const kernel_args *args) {
    threads_for(args->inputs[0].shape.dim[0], 1, run_rows, (void *)args);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    if (args->inputs[0].type != DTYPE_F32 || args->inputs[1].type != DTYPE_I32)
        return "computes in f32 with i32 targets only";
    for (int i = 0; i < 3; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "logits, targets and log-sum-exp must be dense";
    return NULL;
}

static const char *reject_cuda(const kernel_args *args) {
    if (!dtype_is_f32_or_low(args->inputs[0].type) || args->inputs[1].type != DTYPE_I32 ||
        !dtype_is_f32_or_low(args->inputs[2].type) || !dtype_is_f32_or_low(args->inputs[3].type))
        return "computes from f32, bf16 and f16 with i32 targets only";
    return tensor_is_contiguous(&args->inputs[0]) && tensor_is_contiguous(&args->inputs[1])
               ? NULL
               : "logits and targets must be dense";
}

static const kernel cross_entropy_gradient_f32 = {
    .name = "cross_entropy_gradient_f32", .target = TARGET_CPU, .reject = reject, .run = run};

static const kernel cross_entropy_gradient_cuda = {
    .name = "cross_entropy_gradient_cuda", .target = TARGET_CUDA, .reject = reject_cuda};

const op op_cross_entropy_gradient = {
    .name = "cross_entropy_gradient",
    .summary = "(softmax - onehot) * dy, cross_entropy's gradient",
    .class = OP_CLASS_LOSS,
    .input_count = 4,
    .output_count = 1,
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .kernels =
        (const kernel *const[]){&cross_entropy_gradient_f32, &cross_entropy_gradient_cuda, NULL}};
