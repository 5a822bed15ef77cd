#include "base/threads.h"
#include "graph/op.h"
#include "ops/adamw/adamw.h"
#include "ops/adamw/update.h"
#include "ops/kernel.h"

enum { WEIGHT, GRADIENT, FIRST, SECOND, RATE, STEP, SCALE, INPUTS };

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(adamw_check(n, n->inputs[RATE], n->inputs[STEP], n->inputs[SCALE]));
    const value *w = n->inputs[WEIGHT];
    for (int i = GRADIENT; i <= SECOND; i++)
        if (!shape_equal(&n->inputs[i]->shape, &w->shape))
            return dyno_fail(DYNO_INVALID, "input %d is [%s], the weight [%s]", i,
                             shape_format(&n->inputs[i]->shape).text, shape_format(&w->shape).text);
    outputs[0] = (value_type){w->type, w->shape};
    outputs[1] = (value_type){n->inputs[FIRST]->type, w->shape};
    outputs[2] = (value_type){n->inputs[SECOND]->type, w->shape};
    return DYNO_OK;
}

/* Counted from the formula in adamw.h: 14 per parameter, bias corrections being per step. */
static op_cost cost(const node *n) { return op_cost_streaming(n, 14); }

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    adamw_update_reference(n, inputs[RATE][0], inputs[STEP][0], inputs[SCALE][0],
                           shape_elements(&n->outputs[0]->shape), inputs, outputs);
}

typedef struct update_context {
    adamw_step step;
    const kernel_args *args;
} update_context;

/* The outputs have the memory of weight and moments: they are written in place. */
static void run_range(void *context, int64_t begin, int64_t end) {
    const update_context *c = context;
    const tensor *out = c->args->outputs;
    adamw_update(&c->step, end - begin, (const float *)c->args->inputs[GRADIENT].data + begin,
                 (float *)out[0].data + begin, (float *)out[1].data + begin,
                 (float *)out[2].data + begin);
}

static dyno_status run(const kernel_args *args) {
    update_context c = {adamw_step_create(args->attributes, &args->inputs[RATE],
                                          &args->inputs[STEP], &args->inputs[SCALE]),
                        args};
    threads_for(shape_elements(&args->outputs[0].shape), 16384, run_range, &c);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    for (int i = WEIGHT; i <= SECOND; i++)
        if (args->inputs[i].type != DTYPE_F32 || !tensor_is_contiguous(&args->inputs[i]))
            return "weight, gradient and moments must be dense f32";
    return args->inputs[SCALE].type == DTYPE_F32 ? NULL : "the gradient's scale must be f32";
}

static const kernel adamw_f32 = {
    .name = "adamw_f32", .target = TARGET_CPU, .reject = reject, .run = run};

static const kernel adamw_cuda = {.name = "adamw_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_adamw = {.name = "adamw",
                     .summary = "one AdamW update of a parameter, in place",
                     .class = OP_CLASS_OPTIMIZER,
                     .input_count = INPUTS,
                     .output_count = 3,
                     .infer = infer,
                     .cost = cost,
                     .reference = reference,
                     .inplace = {1 + WEIGHT, 1 + FIRST, 1 + SECOND},
                     .kernels = (const kernel *const[]){&adamw_f32, &adamw_cuda, NULL}};

value *build_adamw(graph *g, const adamw_inputs *in, const adamw_options *options) {
    attribute items[ADAMW_ATTRIBUTES];
    int count = adamw_attributes(options, items);
    return graph_add_node(g, &op_adamw,
                          (value *[]){in->weight, in->gradient, in->first_moment, in->second_moment,
                                      in->learning_rate, in->step, in->gradient_scale},
                          INPUTS, items, count);
}
