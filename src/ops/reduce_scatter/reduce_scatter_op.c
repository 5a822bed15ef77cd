#include "ops/reduce_scatter/reduce_scatter.h"

#include <stdlib.h>

#include "base/memory.h"

static dyno_status infer(const node *n, value_type *outputs) {
    int64_t ranks;
    RETURN_IF_FAILED(collective_check_ranks(n, &ranks));
    const value *v = n->inputs[0];
    if (!dtype_is_float(v->type) || v->type == DTYPE_F64)
        return dyno_fail(DYNO_INVALID, "the input is %s; sums are of f32, bf16 and f16",
                         dtype_name(v->type));
    if (v->shape.rank != 1 || v->shape.dim[0] % ranks != 0)
        return dyno_fail(DYNO_INVALID, "[%s] is not %lld equal parts of a list",
                         shape_format(&v->shape).text, (long long)ranks);
    outputs[0] = (value_type){v->type, SHAPE(v->shape.dim[0] / ranks)};
    return DYNO_OK;
}

static op_cost cost(const node *n) {
    int64_t ranks = attribute_integer(&n->attributes, "ranks");
    op_cost cost = op_cost_streaming(n, (double)(ranks - 1));
    cost.bytes_read =
        (double)shape_elements(&n->inputs[0]->shape) * dtype_bytes(n->inputs[0]->type);
    cost.bytes_sent = collective_bytes_sent(COLLECTIVE_REDUCE_SCATTER, cost.bytes_read, ranks);
    return cost;
}

/* Of one rank; of more, the first one's part where all have the same. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    int64_t ranks = attribute_integer(&n->attributes, "ranks");
    for (int64_t i = 0; i < shape_elements(&n->outputs[0]->shape); i++)
        outputs[0][i] = (double)ranks * inputs[0][i];
}

static const char *reject(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[0]) ? NULL : "the input must be dense";
}

static dyno_status run(const kernel_args *args) {
    return reduce_scatter_launch(args, collective_run_on_cpu);
}

static const kernel reduce_scatter_ranks = {
    .name = "reduce_scatter_ranks", .target = TARGET_CPU, .reject = reject, .run = run};
static const kernel reduce_scatter_cuda = {
    .name = "reduce_scatter_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_reduce_scatter = {
    .name = "reduce_scatter",
    .summary = "sums over all ranks, of which each gets its part",
    .class = OP_CLASS_COMMUNICATION,
    .input_count = OP_ANY_COUNT,
    .output_count = 1,
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .kernels = (const kernel *const[]){&reduce_scatter_ranks, &reduce_scatter_cuda, NULL}};

value *build_reduce_scatter(graph *g, value *whole, value *const *written, int count,
                            const collective_place *place) {
    attribute items[COLLECTIVE_ATTRIBUTES];
    value **inputs = memory_allocate((size_t)count + 1, sizeof *inputs);
    inputs[0] = whole;
    for (int i = 0; i < count; i++)
        inputs[i + 1] = written[i];
    value *part = graph_add_node(g, &op_reduce_scatter, inputs, count + 1, items,
                                 collective_attributes(place, items));
    free(inputs);
    return part;
}
