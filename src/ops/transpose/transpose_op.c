#include "ops/transpose/transpose.h"

#include "graph/op.h"
#include "ops/copy.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "order", ATTRIBUTE_LIST));
    const shape *order = attribute_list(&n->attributes, "order");
    const shape *from = &n->inputs[0]->shape;
    int seen = 0;
    shape out = {.rank = from->rank};
    for (int i = 0; i < order->rank && order->rank == from->rank; i++) {
        if (order->dim[i] < 0 || order->dim[i] >= from->rank)
            break;
        seen |= 1 << order->dim[i];
        out.dim[i] = from->dim[order->dim[i]];
    }
    if (order->rank != from->rank || seen != (1 << from->rank) - 1)
        return dyno_fail(DYNO_INVALID, "order [%s] does not name each of the %d dimensions once",
                         shape_format(order).text, from->rank);
    outputs[0] = (value_type){n->inputs[0]->type, out};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (!wanted[0])
        return;
    const shape *order = attribute_list(&n->attributes, "order");
    shape inverse = {.rank = order->rank};
    for (int i = 0; i < order->rank; i++)
        inverse.dim[order->dim[i]] = i;
    dx[0] = build_transpose(g, dy[0], &inverse);
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *from = &n->inputs[0]->shape, *to = &n->outputs[0]->shape;
    const shape *order = attribute_list(&n->attributes, "order");
    for (int64_t i = 0; i < shape_elements(to); i++) {
        int64_t index[SHAPE_MAX_RANK] = {0}, left = i, source = 0;
        for (int d = to->rank - 1; d >= 0; d--) {
            index[order->dim[d]] = left % to->dim[d];
            left /= to->dim[d];
        }
        for (int d = 0; d < from->rank; d++)
            source = source * from->dim[d] + index[d];
        outputs[0][i] = inputs[0][source];
    }
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output, (void)offset;
    *out = tensor_view_transpose(input, attribute_list(&n->attributes, "order")->dim);
    return true;
}

static bool undo_view(const node *n, const tensor *output, tensor *input) {
    const int64_t *order = attribute_list(&n->attributes, "order")->dim;
    tensor undone = *output;
    undone.shape = n->inputs[0]->shape;
    for (int i = 0; i < undone.shape.rank; i++)
        undone.stride[order[i]] = output->stride[i];
    *input = undone;
    return true;
}

/* Runs the transpose as a copy, for a test or a caller that wants dense memory. */
static dyno_status copy(const kernel_args *args) {
    tensor transposed =
        tensor_view_transpose(&args->inputs[0], attribute_list(args->attributes, "order")->dim);
    kernel_args dense = *args;
    dense.inputs = &transposed;
    return copy_run(&dense);
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel transpose_copy = {.name = "transpose_copy", .target = TARGET_CPU, .run = copy};

static const kernel transpose_cuda = {
    .name = "transpose_cuda", .target = TARGET_CUDA, .writes_strided = true};

const op op_transpose = {.name = "transpose",
                         .summary = "dimensions in another order; a view",
                         .class = OP_CLASS_COPY,
                         .input_count = 1,
                         .output_count = 1,
                         .infer = infer,
                         .gradient = gradient,
                         .cost = cost,
                         .reference = reference,
                         .view = view,
                         .undo_view = undo_view,
                         .precision = OP_PRECISION_ANY,
                         .kernels =
                             (const kernel *const[]){&transpose_copy, &transpose_cuda, NULL}};

value *build_transpose(graph *g, value *a, const shape *order) {
    return graph_add_node(g, &op_transpose, &a, 1, &ATTR_LIST("order", *order), 1);
}
