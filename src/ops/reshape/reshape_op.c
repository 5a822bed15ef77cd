#include "ops/reshape/reshape.h"

#include <string.h>

#include "graph/op.h"
#include "ops/copy.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "shape", ATTRIBUTE_LIST));
    const shape *s = attribute_list(&n->attributes, "shape");
    const shape *from = &n->inputs[0]->shape;
    if (!shape_is_valid(s, 1) || shape_elements(s) != shape_elements(from))
        return dyno_fail(DYNO_INVALID, "[%s] has not as many elements as [%s]",
                         shape_format(s).text, shape_format(from).text);
    outputs[0] = (value_type){n->inputs[0]->type, *s};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_reshape(g, dy[0], &n->inputs[0]->shape);
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    memcpy(outputs[0], inputs[0], (size_t)shape_elements(&n->outputs[0]->shape) * sizeof(double));
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output, (void)offset;
    return tensor_view_reshape(input, &n->outputs[0]->shape, out);
}

static bool undo_view(const node *n, const tensor *output, tensor *input) {
    return tensor_view_reshape(output, &n->inputs[0]->shape, input);
}

/* Where no view is possible, the input is copied in its own shape; dense memory has no shape. */
static dyno_status copy(const kernel_args *args) {
    tensor flat =
        tensor_contiguous(args->outputs[0].data, args->outputs[0].type, &args->inputs[0].shape);
    kernel_args same_shape = *args;
    same_shape.outputs = &flat;
    return copy_run(&same_shape);
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel reshape_copy = {.name = "reshape_copy", .target = TARGET_CPU, .run = copy};

const op op_reshape = {.name = "reshape",
                       .summary = "the same elements under another shape; a view where possible",
                       .class = OP_CLASS_COPY,
                       .input_count = 1,
                       .output_count = 1,
                       .infer = infer,
                       .gradient = gradient,
                       .cost = cost,
                       .reference = reference,
                       .view = view,
                       .undo_view = undo_view,
                       .view_order = OP_VIEW_IN_ORDER,
                       .precision = OP_PRECISION_ANY,
                       .kernels = (const kernel *const[]){&reshape_copy, &copy_cuda, NULL}};

value *build_reshape(graph *g, value *a, const shape *s) {
    return graph_add_node(g, &op_reshape, &a, 1, &ATTR_LIST("shape", *s), 1);
}
