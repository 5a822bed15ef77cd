#include "ops/slice/slice.h"

#include <string.h>

#include "graph/op.h"
#include "ops/copy.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "offset", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "shape", ATTRIBUTE_LIST));
    const value *list = n->inputs[0];
    int64_t offset = attribute_integer(&n->attributes, "offset");
    shape to = *attribute_list(&n->attributes, "shape");
    if (list->shape.rank != 1 || offset < 0 || !shape_is_valid(&to, dtype_bytes(list->type)) ||
        shape_elements(&to) > list->shape.dim[0] - offset)
        return dyno_fail(DYNO_INVALID, "[%s] from element %lld on is not inside [%s]",
                         shape_format(&to).text, (long long)offset,
                         shape_format(&list->shape).text);
    outputs[0] = (value_type){list->type, to};
    return DYNO_OK;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    memcpy(outputs[0], inputs[0] + attribute_integer(&n->attributes, "offset"),
           (size_t)shape_elements(&n->outputs[0]->shape) * sizeof(double));
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output;
    if (!tensor_is_contiguous(input))
        return false;
    *out = tensor_contiguous(NULL, input->type, &n->outputs[0]->shape);
    *offset = attribute_integer(&n->attributes, "offset");
    return true;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static dyno_status copy(const kernel_args *args) {
    tensor part = tensor_contiguous((char *)args->inputs[0].data +
                                        attribute_integer(args->attributes, "offset") *
                                            dtype_bytes(args->inputs[0].type),
                                    args->inputs[0].type, &args->outputs[0].shape);
    copy_tensor(&part, &args->outputs[0]);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[0]) ? NULL : "the list must be dense";
}

static const kernel slice_copy = {
    .name = "slice_copy", .target = TARGET_CPU, .reject = reject, .run = copy};

const op op_slice = {.name = "slice",
                     .summary = "consecutive elements of a list in another shape; a view",
                     .class = OP_CLASS_COPY,
                     .input_count = 1,
                     .output_count = 1,
                     .infer = infer,
                     .cost = cost,
                     .reference = reference,
                     .view = view,
                     .view_order = OP_VIEW_MOVED,
                     .precision = OP_PRECISION_ANY,
                     .kernels = (const kernel *const[]){&slice_copy, NULL}};

value *build_slice(graph *g, value *list, int64_t offset, const shape *s) {
    return graph_add_node(g, &op_slice, &list, 1,
                          (attribute[]){ATTR_INTEGER("offset", offset), ATTR_LIST("shape", *s)}, 2);
}
