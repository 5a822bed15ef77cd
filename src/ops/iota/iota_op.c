#include "ops/iota/iota.h"

#include "graph/op.h"
#include "ops/kernel.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "length", ATTRIBUTE_INTEGER));
    int64_t length = attribute_integer(&n->attributes, "length");
    if (length < 1 || length > INT32_MAX)
        return dyno_fail(DYNO_INVALID, "length is %lld, it must be 1 to 2147483647",
                         (long long)length);
    outputs[0] = (value_type){DTYPE_I32, SHAPE(length)};
    return DYNO_OK;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    (void)inputs;
    for (int64_t i = 0; i < n->outputs[0]->shape.dim[0]; i++)
        outputs[0][i] = (double)i;
}

static dyno_status run(const kernel_args *args) {
    int32_t *out = args->outputs[0].data;
    for (int64_t i = 0; i < args->outputs[0].shape.dim[0]; i++)
        out[i] = (int32_t)i;
    return DYNO_OK;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel iota_i32 = {.name = "iota_i32", .target = TARGET_CPU, .run = run};

static const kernel iota_cuda = {.name = "iota_cuda", .target = TARGET_CUDA};

const op op_iota = {.name = "iota",
                    .summary = "0, 1, 2, ... as integers",
                    .class = OP_CLASS_COPY,
                    .input_count = 0,
                    .output_count = 1,
                    .infer = infer,
                    .cost = cost,
                    .reference = reference,
                    .kernels = (const kernel *const[]){&iota_i32, &iota_cuda, NULL}};

value *build_iota(graph *g, int64_t length) {
    return graph_add_node(g, &op_iota, NULL, 0, &ATTR_INTEGER("length", length), 1);
}
