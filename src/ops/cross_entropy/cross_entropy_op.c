#include <assert.h>
#include <math.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/add/add.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/exp/exp.h"
#include "ops/kernel.h"
#include "ops/multiply/multiply.h"
#include "ops/reshape/reshape.h"
#include "ops/subtract/subtract.h"

extern const op op_cross_entropy_gradient; /* cross_entropy_gradient_op.c */

static dyno_status infer(const node *n, value_type *outputs) {
    const value *logits = n->inputs[0], *targets = n->inputs[1];
    if (logits->shape.rank != 2 || targets->shape.rank != 1 || targets->type != DTYPE_I32 ||
        logits->shape.dim[0] != targets->shape.dim[0])
        return dyno_fail(DYNO_INVALID, "logits are [%s] and targets %s[%s]; want [N,V] and i32[N]",
                         shape_format(&logits->shape).text, dtype_name(targets->type),
                         shape_format(&targets->shape).text);
    outputs[0] = outputs[1] = (value_type){logits->type, targets->shape};
    return DYNO_OK;
}

/* softmax * dy: for a loss on the log-sum-exp itself, too rare for an op of its own. */
static value *log_sum_exp_gradient(graph *g, const node *n, value *dy) {
    const shape *s = &n->inputs[0]->shape;
    const shape column = SHAPE(s->dim[0], 1);
    value *lse = build_broadcast(g, build_reshape(g, n->outputs[1], &column), s);
    value *softmax = build_exp(g, build_subtract(g, n->inputs[0], lse));
    return build_multiply(g, softmax, build_broadcast(g, build_reshape(g, dy, &column), s));
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (!wanted[0])
        return;
    value *loss = NULL, *lse = NULL;
    if (dy[0])
        loss = graph_add_node(g, &op_cross_entropy_gradient,
                              (value *[]){n->inputs[0], n->inputs[1], n->outputs[1], dy[0]}, 4,
                              NULL, 0);
    if (dy[1])
        lse = log_sum_exp_gradient(g, n, dy[1]);
    dx[0] = loss && lse ? build_add(g, loss, lse) : loss ? loss : lse;
}

/* Per logit: compare, subtract, exponentiate, add. */
static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    cost.flops = 4 * (double)shape_elements(&n->inputs[0]->shape);
    return cost;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    int64_t rows = n->inputs[0]->shape.dim[0], width = n->inputs[0]->shape.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        const double *row = inputs[0] + i * width;
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < width; j++)
            largest = fmax(largest, row[j]);
        for (int64_t j = 0; j < width; j++)
            sum += exp(row[j] - largest);
        outputs[1][i] = largest + log(sum);
        outputs[0][i] = outputs[1][i] - row[(int64_t)inputs[1][i]];
    }
}

static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const int32_t *targets = args->inputs[1].data;
    float *loss = args->outputs[0].data, *log_sum_exp = args->outputs[1].data;
    int64_t width = args->inputs[0].shape.dim[1];
    for (int64_t i = begin; i < end; i++) {
        assert(targets[i] >= 0 && targets[i] < width);
        const float *row = (const float *)args->inputs[0].data + i * width;
        double lse = cross_entropy_log_sum_exp(width, row);
        log_sum_exp[i] = (float)lse;
        loss[i] = (float)(lse - row[targets[i]]);
    }
}

static dyno_status run(const kernel_args *args) {
    threads_for(args->inputs[0].shape.dim[0], 1, run_rows, (void *)args);
    return DYNO_OK;
}

static const char *reject_layout(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[0]) && tensor_is_contiguous(&args->inputs[1])
               ? NULL
               : "logits and targets must be dense";
}

static const char *reject(const kernel_args *args) {
    return args->inputs[0].type == DTYPE_F32 ? reject_layout(args) : "computes in f32 only";
}

static const char *reject_cuda(const kernel_args *args) {
    dtype type = args->inputs[0].type;
    if (!dtype_is_f32_or_low(type))
        return "logits must be f32, bf16 or f16";
    return reject_layout(args);
}

static const kernel cross_entropy_f32 = {
    .name = "cross_entropy_f32", .target = TARGET_CPU, .reject = reject, .run = run};

static const kernel cross_entropy_cuda = {
    .name = "cross_entropy_cuda", .target = TARGET_CUDA, .reject = reject_cuda};

const op op_cross_entropy = {
    .name = "cross_entropy",
    .summary = "softmax cross-entropy of each row, and its log-sum-exp",
    .class = OP_CLASS_LOSS,
    .input_count = 2,
    .output_count = 2,
    .infer = infer,
    .gradient = gradient,
    .cost = cost,
    .reference = reference,
    .kernels = (const kernel *const[]){&cross_entropy_f32, &cross_entropy_cuda, NULL}};

value *build_cross_entropy(graph *g, value *logits, value *targets) {
    return graph_add_node(g, &op_cross_entropy, (value *[]){logits, targets}, 2, NULL, 0);
}
