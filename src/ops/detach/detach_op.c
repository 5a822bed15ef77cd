#include "ops/detach/detach.h"

#include <string.h>

#include "graph/op.h"
#include "ops/copy.h"

static dyno_status infer(const node *n, value_type *outputs) {
    outputs[0] = (value_type){n->inputs[0]->type, n->inputs[0]->shape};
    return DYNO_OK;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    memcpy(outputs[0], inputs[0], (size_t)shape_elements(&n->outputs[0]->shape) * sizeof(double));
}

static bool view(const node *n, int output, const tensor *input, tensor *out, int64_t *offset) {
    (void)output, (void)offset;
    (void)n;
    *out = *input;
    return true;
}

static bool undo_view(const node *n, const tensor *output, tensor *input) {
    (void)n;
    *input = *output;
    return true;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

static const kernel detach_copy = {.name = "detach_copy", .target = TARGET_CPU, .run = copy_run};

const op op_detach = {.name = "detach",
                      .summary = "the same value, cut off from gradients; a view",
                      .class = OP_CLASS_COPY,
                      .input_count = 1,
                      .output_count = 1,
                      .infer = infer,
                      .cost = cost,
                      .reference = reference,
                      .view = view,
                      .undo_view = undo_view,
                      .view_order = OP_VIEW_IN_ORDER,
                      .precision = OP_PRECISION_ANY,
                      .kernels = (const kernel *const[]){&detach_copy, &copy_cuda, NULL}};

value *build_detach(graph *g, value *a) { return graph_add_node(g, &op_detach, &a, 1, NULL, 0); }
