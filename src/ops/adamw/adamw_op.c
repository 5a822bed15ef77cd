#include <math.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/adamw/adamw.h"
#include "ops/kernel.h"

enum { WEIGHT, GRADIENT, FIRST, SECOND, RATE, STEP, SCALE, INPUTS };

static dyno_status infer(const node *n, value_type *outputs) {
    static const char *const reals[] = {"beta1", "beta2", "eps", "weight_decay"};
    for (int i = 0; i < 4; i++)
        RETURN_IF_FAILED(node_require_attribute(n, reals[i], ATTRIBUTE_REAL));
    const value *w = n->inputs[WEIGHT];
    for (int i = GRADIENT; i <= SECOND; i++)
        if (!shape_equal(&n->inputs[i]->shape, &w->shape))
            return dyno_fail(DYNO_INVALID, "input %d is [%s], the weight [%s]", i,
                             shape_format(&n->inputs[i]->shape).text,
                             shape_format(&w->shape).text);
    for (int i = RATE; i <= SCALE; i++)
        if (n->inputs[i]->shape.rank != 0)
            return dyno_fail(DYNO_INVALID, "input %d must be a scalar", i);
    if (n->inputs[RATE]->type != DTYPE_F64 || n->inputs[STEP]->type != DTYPE_I64)
        return dyno_fail(DYNO_INVALID, "the learning rate must be f64 and the step i64");
    outputs[0] = (value_type){w->type, w->shape};
    outputs[1] = (value_type){n->inputs[FIRST]->type, w->shape};
    outputs[2] = (value_type){n->inputs[SECOND]->type, w->shape};
    return DYNO_OK;
}

/* Counted from the formula in adamw.h: 14 per parameter, bias corrections being per step. */
static op_cost cost(const node *n) { return op_cost_streaming(n, 14); }

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    double beta1 = attribute_real(&n->attributes, "beta1");
    double beta2 = attribute_real(&n->attributes, "beta2");
    double eps = attribute_real(&n->attributes, "eps");
    double decay = attribute_real(&n->attributes, "weight_decay");
    double rate = inputs[RATE][0], t = inputs[STEP][0];
    for (int64_t i = 0; i < shape_elements(&n->outputs[0]->shape); i++) {
        double g = inputs[GRADIENT][i] * inputs[SCALE][0];
        double m = beta1 * inputs[FIRST][i] + (1 - beta1) * g;
        double v = beta2 * inputs[SECOND][i] + (1 - beta2) * g * g;
        double corrected_m = m / (1 - pow(beta1, t)), corrected_v = v / (1 - pow(beta2, t));
        outputs[0][i] = inputs[WEIGHT][i] * (1 - rate * decay) -
                        rate * corrected_m / (sqrt(corrected_v) + eps);
        outputs[1][i] = m;
        outputs[2][i] = v;
    }
}

typedef struct update {
    float *restrict w, *restrict m, *restrict v;
    const float *restrict g;
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta, taken in double: near 1 it cancels */
    float eps, keep, rate, inverse_root, scale;
} update;

static void run_range(void *context, int64_t begin, int64_t end) {
    const update u = *(const update *)context;
    for (int64_t i = begin; i < end; i++) {
        float g = u.g[i] * u.scale;
        float m = u.beta1 * u.m[i] + u.rest1 * g;
        float v = u.beta2 * u.v[i] + u.rest2 * g * g;
        u.m[i] = m;
        u.v[i] = v;
        u.w[i] = u.w[i] * u.keep - u.rate * m / (sqrtf(v) * u.inverse_root + u.eps);
    }
}

/* The outputs lie where weight and moments lie, so those are written in place. */
static void run(const kernel_args *args) {
    double beta1 = attribute_real(args->attributes, "beta1");
    double beta2 = attribute_real(args->attributes, "beta2");
    double rate = *(const double *)args->inputs[RATE].data;
    double t = (double)*(const int64_t *)args->inputs[STEP].data;
    update u = {
        .w = args->outputs[0].data,
        .m = args->outputs[1].data,
        .v = args->outputs[2].data,
        .g = args->inputs[GRADIENT].data,
        .beta1 = (float)beta1,
        .beta2 = (float)beta2,
        .rest1 = (float)(1 - beta1),
        .rest2 = (float)(1 - beta2),
        .eps = (float)attribute_real(args->attributes, "eps"),
        .keep = (float)(1 - rate * attribute_real(args->attributes, "weight_decay")),
        .rate = (float)(rate / (1 - pow(beta1, t))),
        .inverse_root = (float)(1 / sqrt(1 - pow(beta2, t))),
        .scale = *(const float *)args->inputs[SCALE].data,
    };
    threads_for(shape_elements(&args->outputs[0].shape), 16384, run_range, &u);
}

static const char *reject(const kernel_args *args) {
    for (int i = WEIGHT; i <= SECOND; i++)
        if (args->inputs[i].type != DTYPE_F32 || !tensor_is_contiguous(&args->inputs[i]))
            return "weight, gradient and moments must be dense f32";
    return args->inputs[SCALE].type == DTYPE_F32 ? NULL : "the gradient's scale must be f32";
}

static const kernel adamw_f32 = {
    .name = "adamw_f32", .backend = BACKEND_CPU, .reject = reject, .run = run};

const op op_adamw = {.name = "adamw",
                     .summary = "one AdamW update of a parameter, in place",
                     .class = OP_CLASS_OPTIMIZER,
                     .input_count = INPUTS,
                     .output_count = 3,
                     .infer = infer,
                     .cost = cost,
                     .reference = reference,
                     .inplace = {1 + WEIGHT, 1 + FIRST, 1 + SECOND},
                     .kernels = (const kernel *const[]){&adamw_f32, NULL}};

value *build_adamw(graph *g, const adamw_inputs *in, const adamw_options *options) {
    return graph_add_node(g, &op_adamw,
                          (value *[]){in->weight, in->gradient, in->first_moment,
                                      in->second_moment, in->learning_rate, in->step,
                                      in->gradient_scale},
                          INPUTS,
                          (attribute[]){ATTR_REAL("beta1", options->beta1),
                                        ATTR_REAL("beta2", options->beta2),
                                        ATTR_REAL("eps", options->eps),
                                        ATTR_REAL("weight_decay", options->weight_decay)},
                          4);
}
