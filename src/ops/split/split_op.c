#include "ops/split/split.h"

#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op.h"
#include "ops/broadcast/broadcast.h"
#include "ops/concat/concat.h"
#include "ops/copy.h"
#include "ops/fill/fill.h"

/* "sizes", a list, or "parts", a number of equal ones. */
static int count_outputs(const node *n) {
    const attribute *sizes = attribute_find(&n->attributes, "sizes");
    const attribute *parts = attribute_find(&n->attributes, "parts");
    if (sizes && sizes->kind == ATTRIBUTE_LIST)
        return sizes->list.rank > 0 ? sizes->list.rank : 1;
    return parts && parts->integer > 0 && parts->integer < INT_MAX ? (int)parts->integer : 1;
}

static int64_t size_of(const attributes *list, int64_t whole, int output) {
    const attribute *sizes = attribute_find(list, "sizes");
    return sizes ? sizes->list.dim[output] : whole / attribute_integer(list, "parts");
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "axis", ATTRIBUTE_INTEGER));
    bool has_sizes = attribute_find(&n->attributes, "sizes") != NULL;
    RETURN_IF_FAILED(node_require_attribute(n, has_sizes ? "sizes" : "parts",
                                            has_sizes ? ATTRIBUTE_LIST : ATTRIBUTE_INTEGER));
    const shape *from = &n->inputs[0]->shape;
    int64_t axis = attribute_integer(&n->attributes, "axis");
    if (axis < 0 || axis >= from->rank)
        return dyno_fail(DYNO_INVALID, "axis is %lld, of [%s]", (long long)axis,
                         shape_format(from).text);
    int64_t whole = from->dim[axis], sum = 0;
    if (!has_sizes && attribute_integer(&n->attributes, "parts") < 1)
        return dyno_fail(DYNO_INVALID, "parts is %lld; it must be at least 1",
                         (long long)attribute_integer(&n->attributes, "parts"));
    for (int i = 0; i < n->output_count; i++) {
        int64_t size = size_of(&n->attributes, whole, i);
        if (size < 1 || size > whole - sum)
            return dyno_fail(DYNO_INVALID, "piece %d has size %lld, %lld of %lld are left", i,
                             (long long)size, (long long)(whole - sum), (long long)whole);
        sum += size;
        outputs[i] = (value_type){n->inputs[0]->type, *from};
        outputs[i].shape.dim[axis] = size;
    }
    if (sum != whole)
        return dyno_fail(DYNO_INVALID, "the pieces add up to %lld of %lld", (long long)sum,
                         (long long)whole);
    return DYNO_OK;
}

/* The gradients concatenated; zeros for a part on which nothing depends. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (!wanted[0])
        return;
    value **pieces = arena_allocate(g->memory, (size_t)n->output_count, sizeof *pieces);
    for (int i = 0; i < n->output_count; i++) {
        const value *piece = n->outputs[i];
        pieces[i] =
            dy[i] ? dy[i] : build_broadcast_scalar(g, build_fill(g, piece->type, 0), &piece->shape);
    }
    dx[0] =
        build_concat(g, pieces, n->output_count, (int)attribute_integer(&n->attributes, "axis"));
}

static int64_t start_of(const node *n, int output) {
    int axis = (int)attribute_integer(&n->attributes, "axis");
    int64_t start = 0;
    for (int i = 0; i < output; i++)
        start += n->outputs[i]->shape.dim[axis];
    return start;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *from = &n->inputs[0]->shape;
    int axis = (int)attribute_integer(&n->attributes, "axis");
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < from->rank; i++)
        if (i != axis)
            *(i < axis ? &outer : &inner) *= from->dim[i];
    for (int k = 0; k < n->output_count; k++) {
        int64_t run = n->outputs[k]->shape.dim[axis] * inner, start = start_of(n, k) * inner;
        for (int64_t i = 0; i < outer; i++)
            memcpy(outputs[k] + i * run, inputs[0] + i * from->dim[axis] * inner + start,
                   (size_t)run * sizeof(double));
    }
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    *out = *input;
    out->shape = n->outputs[output]->shape;
    *offset = start_of(n, output) * input->stride[attribute_integer(&n->attributes, "axis")];
    return true;
}

/* Copies the parts, for a test or a caller that wants dense memory. */
static dyno_status copy(const kernel_args *args) {
    int64_t axis = attribute_integer(args->attributes, "axis"), start = 0;
    for (int i = 0; i < args->output_count; i++) {
        tensor piece = args->inputs[0];
        piece.shape = args->outputs[i].shape;
        piece.data = (char *)piece.data + start * piece.stride[axis] * dtype_bytes(piece.type);
        start += piece.shape.dim[axis];
        copy_tensor(&piece, &args->outputs[i]);
    }
    return DYNO_OK;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel split_copy = {.name = "split_copy", .target = TARGET_CPU, .run = copy};

const op op_split = {.name = "split",
                     .summary = "pieces along a dimension; views",
                     .class = OP_CLASS_COPY,
                     .input_count = 1,
                     .output_count = OP_ANY_COUNT,
                     .count_outputs = count_outputs,
                     .infer = infer,
                     .gradient = gradient,
                     .cost = cost,
                     .reference = reference,
                     .view = view,
                     .precision = OP_PRECISION_ANY,
                     .kernels = (const kernel *const[]){&split_copy, NULL}};

value *build_split(graph *g, value *a, int axis, const shape *sizes) {
    return graph_add_node(g, &op_split, &a, 1,
                          (attribute[]){ATTR_INTEGER("axis", axis), ATTR_LIST("sizes", *sizes)}, 2);
}

value *build_split_evenly(graph *g, value *a, int axis, int64_t parts) {
    return graph_add_node(g, &op_split, &a, 1,
                          (attribute[]){ATTR_INTEGER("axis", axis), ATTR_INTEGER("parts", parts)},
                          2);
}
