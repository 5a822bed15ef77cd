#include "ops/broadcast/broadcast.h"

#include "graph/op.h"
#include "ops/copy.h"
#include "ops/reshape/reshape.h"
#include "ops/sum/sum.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "shape", ATTRIBUTE_LIST));
    const shape *to = attribute_list(&n->attributes, "shape");
    const shape *from = &n->inputs[0]->shape;
    bool fits = to->rank == from->rank;
    for (int i = 0; fits && i < to->rank; i++)
        fits = from->dim[i] == to->dim[i] || from->dim[i] == 1;
    if (!fits)
        return dyno_fail(DYNO_INVALID, "[%s] cannot be repeated to [%s]: only sizes of 1 grow",
                         shape_format(from).text, shape_format(to).text);
    outputs[0] = (value_type){n->inputs[0]->type, *to};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    const shape *from = &n->inputs[0]->shape, *to = &n->outputs[0]->shape;
    shape axes = {0};
    for (int i = 0; i < from->rank; i++)
        if (from->dim[i] != to->dim[i])
            axes.dim[axes.rank++] = i;
    if (wanted[0])
        dx[0] = axes.rank ? build_sum(g, dy[0], &axes) : dy[0];
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *from = &n->inputs[0]->shape, *to = &n->outputs[0]->shape;
    for (int64_t i = 0; i < shape_elements(to); i++) {
        int64_t left = i, source = 0, stride = 1;
        for (int d = to->rank - 1; d >= 0; d--) {
            if (from->dim[d] != 1)
                source += left % to->dim[d] * stride;
            left /= to->dim[d];
            stride *= from->dim[d];
        }
        outputs[0][i] = inputs[0][source];
    }
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output, (void)offset;
    *out = tensor_view_broadcast(input, &n->outputs[0]->shape);
    return true;
}

static dyno_status copy(const kernel_args *args) {
    tensor repeated = tensor_view_broadcast(&args->inputs[0], &args->outputs[0].shape);
    kernel_args dense = *args;
    dense.inputs = &repeated;
    return copy_run(&dense);
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel broadcast_copy = {.name = "broadcast_copy", .target = TARGET_CPU, .run = copy};

static const kernel broadcast_cuda = {
    .name = "broadcast_cuda", .target = TARGET_CUDA, .writes_strided = true};

const op op_broadcast = {.name = "broadcast",
                         .summary = "dimensions of size 1 repeated; a view",
                         .class = OP_CLASS_COPY,
                         .input_count = 1,
                         .output_count = 1,
                         .infer = infer,
                         .gradient = gradient,
                         .cost = cost,
                         .reference = reference,
                         .view = view,
                         .view_order = OP_VIEW_REPEATED,
                         .precision = OP_PRECISION_ANY,
                         .kernels =
                             (const kernel *const[]){&broadcast_copy, &broadcast_cuda, NULL}};

value *build_broadcast(graph *g, value *a, const shape *s) {
    return graph_add_node(g, &op_broadcast, &a, 1, &ATTR_LIST("shape", *s), 1);
}

value *build_broadcast_scalar(graph *g, value *a, const shape *s) {
    shape ones = {.rank = s->rank};
    for (int i = 0; i < s->rank; i++)
        ones.dim[i] = 1;
    return build_broadcast(g, build_reshape(g, a, &ones), s);
}
