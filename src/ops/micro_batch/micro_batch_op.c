/* micro_batch_op.c - a view that lies one part further in every repetition: lowering gives its operand
 * plan_operand.repeat_bytes, and the executor adds that to the address. */
#include "ops/micro_batch/micro_batch.h"

#include <string.h>

#include "graph/op.h"
#include "ops/copy.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "count", ATTRIBUTE_INTEGER));
    const value *all = n->inputs[0];
    int64_t count = attribute_integer(&n->attributes, "count");
    if (count < 1 || all->shape.rank < 1 || all->shape.dim[0] % count != 0)
        return dyno_fail(DYNO_INVALID, "[%s] is not %lld equal parts",
                         shape_format(&all->shape).text, (long long)count);
    outputs[0] = (value_type){all->type, all->shape};
    outputs[0].shape.dim[0] /= count;
    return DYNO_OK;
}

/* The first micro-batch's. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    memcpy(outputs[0], inputs[0], (size_t)shape_elements(&n->outputs[0]->shape) * sizeof(double));
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output, (void)offset;
    *out = *input;
    out->shape = n->outputs[0]->shape;
    return true;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

/* For a test or a caller that wants dense memory. */
static dyno_status copy(const kernel_args *args) {
    tensor first = args->inputs[0];
    first.shape = args->outputs[0].shape;
    copy_tensor(&first, &args->outputs[0]);
    return DYNO_OK;
}

static const kernel micro_batch_copy = {
    .name = "micro_batch_copy", .target = TARGET_CPU, .run = copy};

const op op_micro_batch = {.name = "micro_batch",
                           .summary =
                               "the part of a step's input that this micro-batch reads; a view",
                           .class = OP_CLASS_COPY,
                           .input_count = 1,
                           .output_count = 1,
                           .infer = infer,
                           .cost = cost,
                           .reference = reference,
                           .view = view,
                           .view_order = OP_VIEW_MOVED,
                           .advances = true,
                           .precision = OP_PRECISION_ANY,
                           .kernels = (const kernel *const[]){&micro_batch_copy, NULL}};

value *build_micro_batch(graph *g, value *all, int64_t count) {
    return graph_add_node(g, &op_micro_batch, &all, 1, &ATTR_INTEGER("count", count), 1);
}
