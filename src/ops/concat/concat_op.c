#include "ops/concat/concat.h"

#include <string.h>

#include "base/checked.h"
#include "graph/op.h"
#include "ops/copy.h"
#include "ops/split/split.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "axis", ATTRIBUTE_INTEGER));
    int64_t axis = attribute_integer(&n->attributes, "axis");
    const value *first = n->inputs[0];
    if (axis < 0 || axis >= first->shape.rank)
        return dyno_fail(DYNO_INVALID, "axis is %lld, of [%s]", (long long)axis,
                         shape_format(&first->shape).text);
    shape s = first->shape;
    for (int i = 1; i < n->input_count; i++) {
        const value *v = n->inputs[i];
        bool fits = v->type == first->type && v->shape.rank == s.rank;
        for (int d = 0; fits && d < s.rank; d++)
            fits = d == axis || v->shape.dim[d] == s.dim[d];
        if (!fits || !checked_add(s.dim[axis], v->shape.dim[axis], &s.dim[axis]))
            return dyno_fail(DYNO_INVALID, "%s[%s] does not go beside %s[%s] along dimension %lld",
                             dtype_name(v->type), shape_format(&v->shape).text,
                             dtype_name(first->type), shape_format(&first->shape).text,
                             (long long)axis);
    }
    outputs[0] = (value_type){first->type, s};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    int axis = (int)attribute_integer(&n->attributes, "axis");
    bool any = false, are_even = true;
    shape sizes = {.rank = n->input_count};
    for (int i = 0; i < n->input_count; i++) {
        any = any || wanted[i];
        are_even = are_even && n->inputs[i]->shape.dim[axis] == n->inputs[0]->shape.dim[axis];
        if (i < SHAPE_MAX_RANK)
            sizes.dim[i] = n->inputs[i]->shape.dim[axis];
    }
    if (!any)
        return;
    value *left = are_even ? build_split_evenly(g, dy[0], axis, n->input_count) : NULL;
    if (!left && n->input_count <= SHAPE_MAX_RANK)
        left = build_split(g, dy[0], axis, &sizes);
    /* Sizes are uneven and too many for a list: split off one after another. */
    value *rest = dy[0];
    for (int i = 0; i < n->input_count; i++) {
        value *piece = left ? left->producer->outputs[i] : rest;
        if (!left && i + 1 < n->input_count) {
            int64_t size = n->inputs[i]->shape.dim[axis];
            shape two = SHAPE(size, rest->shape.dim[axis] - size);
            piece = build_split(g, rest, axis, &two);
            rest = piece->producer->outputs[1];
        }
        if (wanted[i])
            dx[i] = piece;
    }
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *to = &n->outputs[0]->shape;
    int axis = (int)attribute_integer(&n->attributes, "axis");
    int64_t inner = 1, outer = 1, start = 0;
    for (int i = 0; i < to->rank; i++)
        if (i != axis)
            *(i < axis ? &outer : &inner) *= to->dim[i];
    for (int k = 0; k < n->input_count; k++) {
        int64_t run = n->inputs[k]->shape.dim[axis] * inner;
        for (int64_t i = 0; i < outer; i++)
            memcpy(outputs[0] + i * to->dim[axis] * inner + start, inputs[k] + i * run,
                   (size_t)run * sizeof(double));
        start += run;
    }
}

static dyno_status copy(const kernel_args *args) {
    int64_t axis = attribute_integer(args->attributes, "axis"), start = 0;
    for (int i = 0; i < args->input_count; i++) {
        tensor place = args->outputs[0];
        place.shape = args->inputs[i].shape;
        place.data = (char *)place.data + start * place.stride[axis] * dtype_bytes(place.type);
        start += place.shape.dim[axis];
        copy_tensor(&args->inputs[i], &place);
    }
    return DYNO_OK;
}

static tensor piece(const node *n, int input, const tensor *output, int64_t *offset) {
    int64_t axis = attribute_integer(&n->attributes, "axis");
    tensor place = *output;
    place.shape = n->inputs[input]->shape;
    *offset = 0;
    for (int i = 0; i < input; i++)
        *offset += n->inputs[i]->shape.dim[axis] * output->stride[axis];
    return place;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel concat_copy = {
    .name = "concat_copy", .target = TARGET_CPU, .run = copy, .writes_strided = true};

/* Lowering copies the inputs one by one, each to its place. */
static const char *reject_many(const kernel_args *args) {
    return args->input_count == 1 ? NULL : "copies one piece";
}

static const kernel concat_cuda = {
    .name = "copy_cuda", .target = TARGET_CUDA, .reject = reject_many, .writes_strided = true};

const op op_concat = {.name = "concat",
                      .summary = "values side by side along a dimension",
                      .class = OP_CLASS_COPY,
                      .input_count = OP_ANY_COUNT,
                      .output_count = 1,
                      .infer = infer,
                      .gradient = gradient,
                      .cost = cost,
                      .reference = reference,
                      .piece = piece,
                      .kernels = (const kernel *const[]){&concat_copy, &concat_cuda, NULL}};

value *build_concat(graph *g, value *const *pieces, int count, int axis) {
    return graph_add_node(g, &op_concat, pieces, count, &ATTR_INTEGER("axis", axis), 1);
}
