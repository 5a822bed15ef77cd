#include "experiments/precision_study.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "graph/graph_parameter.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/add_scalar/add_scalar.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/fill/fill.h"
#include "ops/greater_equal/greater_equal.h"
#include "ops/matmul/matmul.h"
#include "ops/mean/mean.h"
#include "ops/multiply/multiply.h"
#include "ops/reshape/reshape.h"
#include "ops/rsqrt/rsqrt.h"
#include "ops/select/select.h"
#include "ops/subtract/subtract.h"
#include "runtime/executor.h"

enum { BATCH = 8, INPUTS = 20, HIDDEN = 10, CLASSES = 5, LOSS_SCALE = 1024, MEMORY = 1 << 20 };
enum { LARGEST = INPUTS * HIDDEN }; /* elements of anything that is filled or looked at */

static const char *const parameters[] = {"fc1.weight", "ln.weight", "ln.bias", "fc2.weight"};

/* Outputs of the graph that stand for an item. */
static const char *const outputs[STUDY_ITEM_COUNT] = {[STUDY_FC1] = "fc1",
                                                      [STUDY_RELU] = "relu",
                                                      [STUDY_LAYERNORM] = "ln",
                                                      [STUDY_LOGITS] = "logits",
                                                      [STUDY_LOSS] = "loss"};

const char *study_item_name(study_item item) {
    static const char *const names[STUDY_ITEM_COUNT] = {
        "parameters",       "fc1 weight in the product", "fc1 output", "ReLU output",
        "LayerNorm output", "logits (fc2 output)",       "loss",       "gradients"};
    return names[item];
}

static value *parameter(graph *g, int index, shape s) {
    return graph_add_parameter(g, DTYPE_F32, &s, parameters[index]);
}

static value *linear(graph *g, const char *scope, value *x, value *weight) {
    int outer = graph_enter_scope(g, scope);
    value *y = build_matmul(g, x, weight, false, true);
    graph_leave_scope(g, outer);
    return y;
}

static value *relu(graph *g, value *x) {
    int outer = graph_enter_scope(g, "relu");
    value *zero = build_broadcast_scalar(g, build_fill(g, DTYPE_F32, 0), &x->shape);
    value *y = build_select(g, build_greater_equal(g, x, zero), x, zero);
    graph_leave_scope(g, outer);
    return y;
}

/* (x - mean) / sqrt(variance + eps) * weight + bias, over the last dimension */
static value *layernorm(graph *g, value *x, value *weight, value *bias) {
    int outer = graph_enter_scope(g, "ln");
    shape last = SHAPE(1), row = SHAPE(1, HIDDEN);
    value *centred = build_subtract(g, x, build_broadcast(g, build_mean(g, x, &last), &x->shape));
    value *variance = build_mean(g, build_multiply(g, centred, centred), &last);
    value *inverse = build_rsqrt(g, build_add_scalar(g, variance, 1e-5));
    value *normal = build_multiply(g, centred, build_broadcast(g, inverse, &x->shape));
    value *scale = build_broadcast(g, build_reshape(g, weight, &row), &x->shape);
    value *shift = build_broadcast(g, build_reshape(g, bias, &row), &x->shape);
    value *y = build_add(g, build_multiply(g, normal, scale), shift);
    graph_leave_scope(g, outer);
    return y;
}

static graph *build_toy(void) {
    graph *g = graph_create("toy");
    shape input = SHAPE(BATCH, INPUTS), ids = SHAPE(BATCH), all = SHAPE(0);
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &input, "x");
    value *targets = graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &ids, "targets");
    value *fc1 = linear(g, "fc1", x, parameter(g, 0, SHAPE(HIDDEN, INPUTS)));
    value *active = relu(g, fc1);
    value *norm =
        layernorm(g, active, parameter(g, 1, SHAPE(HIDDEN)), parameter(g, 2, SHAPE(HIDDEN)));
    value *logits = linear(g, "fc2", norm, parameter(g, 3, SHAPE(CLASSES, HIDDEN)));
    int outer = graph_enter_scope(g, "loss");
    value *mean = build_mean(g, build_cross_entropy(g, logits, targets), &all);
    value *loss = build_reshape(g, mean, &SHAPE_SCALAR);
    graph_leave_scope(g, outer);
    value *const made[STUDY_ITEM_COUNT] = {[STUDY_FC1] = fc1,
                                           [STUDY_RELU] = active,
                                           [STUDY_LAYERNORM] = norm,
                                           [STUDY_LOGITS] = logits,
                                           [STUDY_LOSS] = loss};
    for (int i = 0; i < STUDY_ITEM_COUNT; i++)
        if (made[i])
            graph_add_output(g, made[i], outputs[i]);
    return g;
}

static dyno_status plan_toy(precision p, const target *chip, plan **out) {
    graph *g = build_toy();
    dyno_status status = graph_status(g);
    if (status == DYNO_OK)
        status = precision_apply(g, p);
    if (status == DYNO_OK)
        status = autodiff_append_backward(g, true);
    if (status == DYNO_OK)
        status = mark_saved_activations(g);
    if (status == DYNO_OK)
        status = graph_verify(g);
    if (status == DYNO_OK)
        status = lower_graph(g, chip, out);
    graph_destroy(g);
    return status;
}

static dyno_status fill_inputs(executor *e) {
    rng_stream stream = rng_stream_init(9, rng_hash_name("toy"));
    uint64_t next = 0;
    const char *const drawn[] = {"x", "fc1.weight", "fc2.weight"};
    const int64_t sizes[] = {BATCH * INPUTS, HIDDEN * INPUTS, CLASSES * HIDDEN};
    float numbers[LARGEST];
    for (int i = 0; i < 3; i++) {
        for (int64_t j = 0; j < sizes[i]; j++)
            numbers[j] = (float)(rng_truncated_normal(stream, next++) * (i ? 0.3 : 1));
        RETURN_IF_FAILED(executor_write(e, drawn[i], numbers, sizes[i] * (int64_t)sizeof *numbers));
    }
    for (int64_t j = 0; j < HIDDEN; j++)
        numbers[j] = 1;
    RETURN_IF_FAILED(executor_write(e, "ln.weight", numbers, HIDDEN * sizeof *numbers));
    int32_t targets[BATCH];
    for (int32_t j = 0; j < BATCH; j++)
        targets[j] = j % CLASSES;
    RETURN_IF_FAILED(executor_write(e, "targets", targets, sizeof targets));
    float scale = LOSS_SCALE;
    return executor_find(e, "loss_scale").data
               ? executor_write(e, "loss_scale", &scale, sizeof scale)
               : DYNO_OK;
}

/* The type of all parameters, or of all their gradients. */
static dyno_status common_type(const plan *p, bool of_gradients, dtype *type) {
    const plan_name *first = NULL;
    for (int i = 0; i < p->parameter_count; i++) {
        const plan_parameter *parameter = &p->parameters[i];
        const plan_name *at = &p->names[of_gradients ? parameter->gradient : parameter->value];
        first = first ? first : at;
        *type = first->operand.layout.type;
        if (at->operand.layout.type != *type)
            return dyno_fail(DYNO_CORRUPT, "'%s' is %s, '%s' is %s", at->name,
                             dtype_name(at->operand.layout.type), first->name, dtype_name(*type));
    }
    return DYNO_OK;
}

static dtype type_multiplied(const plan *p) {
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (strcmp(l->op_name, "matmul") == 0 && strcmp(p->scopes[l->scope], "fc1") == 0)
            return l->inputs[1].layout.type;
    }
    return DTYPE_F32;
}

static dyno_status largest_gradient(const executor *e, const plan *p, double *out) {
    double factor = executor_find(e, "loss_scale").data ? LOSS_SCALE : 1;
    *out = 0;
    for (int i = 0; i < p->parameter_count; i++) {
        const char *name = p->names[p->parameters[i].gradient].name;
        tensor t = executor_find(e, name);
        float numbers[LARGEST]; /* of any type: none is wider */
        RETURN_IF_FAILED(executor_read(e, name, numbers, tensor_bytes(&t)));
        for (int64_t j = 0; j < shape_elements(&t.shape); j++)
            *out = fmax(*out, fabs(dtype_load(t.type, numbers, j)) / factor);
    }
    return DYNO_OK;
}

static dyno_status observe(const executor *e, const plan *p, precision_study *out) {
    RETURN_IF_FAILED(common_type(p, false, &out->type[STUDY_PARAMETERS]));
    RETURN_IF_FAILED(common_type(p, true, &out->type[STUDY_GRADIENTS]));
    out->type[STUDY_FC1_WEIGHT_MULTIPLIED] = type_multiplied(p);
    for (int i = 0; i < STUDY_ITEM_COUNT; i++)
        if (outputs[i])
            out->type[i] = executor_find(e, outputs[i]).type;
    RETURN_IF_FAILED(executor_read(e, "loss", &out->loss, sizeof out->loss));
    return largest_gradient(e, p, &out->largest_gradient);
}

dyno_status precision_study_run(precision kind, device *where, precision_study *out) {
    *out = (precision_study){0};
    plan *p = NULL;
    RETURN_IF_FAILED(plan_toy(kind, &where->target, &p));
    memory_pool *pool = NULL;
    storage *shared = NULL;
    executor *e = NULL;
    dyno_status status = memory_pool_create(where, MEMORY, &pool);
    if (status == DYNO_OK) {
        shared = storage_create(pool);
        status = executor_create(p, pool, shared, &e);
    }
    if (status == DYNO_OK)
        status = fill_inputs(e);
    if (status == DYNO_OK)
        status = executor_run(e, NULL, NULL);
    if (status == DYNO_OK)
        status = observe(e, p, out);
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
    return status;
}
