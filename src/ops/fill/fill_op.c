#include "ops/fill/fill.h"

#include "graph/op.h"
#include "ops/kernel.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "number", ATTRIBUTE_REAL));
    RETURN_IF_FAILED(node_require_attribute(n, "type", ATTRIBUTE_INTEGER));
    int64_t type = attribute_integer(&n->attributes, "type");
    if (type < 0 || type >= DTYPE_COUNT)
        return dyno_fail(DYNO_INVALID, "there is no element type number %lld", (long long)type);
    outputs[0] = (value_type){(dtype)type, SHAPE_SCALAR};
    return DYNO_OK;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    (void)inputs;
    outputs[0][0] = attribute_real(&n->attributes, "number");
}

static dyno_status run(const kernel_args *args) {
    dtype_store(args->outputs[0].type, args->outputs[0].data, 0,
                attribute_real(args->attributes, "number"));
    return DYNO_OK;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel fill_any = {.name = "fill_any", .target = TARGET_CPU, .run = run};

static const kernel fill_cuda = {.name = "fill_cuda", .target = TARGET_CUDA};

const op op_fill = {.name = "fill",
                    .summary = "a scalar constant",
                    .class = OP_CLASS_COPY,
                    .input_count = 0,
                    .output_count = 1,
                    .infer = infer,
                    .cost = cost,
                    .reference = reference,
                    .is_literal = true,
                    .kernels = (const kernel *const[]){&fill_any, &fill_cuda, NULL}};

value *build_fill(graph *g, dtype type, double number) {
    return graph_add_node(
        g, &op_fill, NULL, 0,
        (attribute[]){ATTR_REAL("number", number), ATTR_INTEGER("type", (int64_t)type)}, 2);
}
