#include "ops/all_reduce/all_reduce.h"

#include <string.h>

static int count_outputs(const node *n) { return n->input_count > 0 ? n->input_count : 1; }
static int inplace_input(const node *n, int output) {
    (void)n;
    return output;
}

static dyno_status infer(const node *n, value_type *outputs) {
    int64_t ranks;
    RETURN_IF_FAILED(collective_check_ranks(n, &ranks));
    for (int i = 0; i < n->input_count; i++) {
        const value *v = n->inputs[i];
        if (!dtype_is_float(v->type) || v->type == DTYPE_F64)
            return dyno_fail(DYNO_INVALID, "input %d is %s; sums are of f32, bf16 and f16", i,
                             dtype_name(v->type));
        outputs[i] = (value_type){v->type, v->shape};
    }
    return DYNO_OK;
}

static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    int64_t ranks = attribute_integer(&n->attributes, "ranks");
    for (int i = 0; i < n->input_count; i++)
        cost.flops +=
            (double)(ranks - 1) / (double)ranks * (double)shape_elements(&n->inputs[i]->shape);
    cost.bytes_sent = collective_bytes_sent(COLLECTIVE_ALL_REDUCE, cost.bytes_written, ranks);
    return cost;
}

/* Of one rank. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    for (int i = 0; i < n->input_count; i++)
        memcpy(outputs[i], inputs[i],
               (size_t)shape_elements(&n->inputs[i]->shape) * sizeof(double));
}

static const char *reject(const kernel_args *args) {
    for (int i = 0; i < args->input_count; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "operands must be dense";
    return NULL;
}

static dyno_status run(const kernel_args *args) {
    return all_reduce_launch(args, collective_run_on_cpu);
}

static const kernel all_reduce_ranks = {
    .name = "all_reduce_ranks", .target = TARGET_CPU, .reject = reject, .run = run};
static const kernel all_reduce_cuda = {
    .name = "all_reduce_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_all_reduce = {.name = "all_reduce",
                          .summary = "sums over all ranks, in place",
                          .class = OP_CLASS_COMMUNICATION,
                          .input_count = OP_ANY_COUNT,
                          .output_count = OP_ANY_COUNT,
                          .count_outputs = count_outputs,
                          .infer = infer,
                          .cost = cost,
                          .reference = reference,
                          .inplace_input = inplace_input,
                          .kernels =
                              (const kernel *const[]){&all_reduce_ranks, &all_reduce_cuda, NULL}};

value *build_all_reduce(graph *g, value *const *values, int count, const collective_place *place) {
    attribute items[COLLECTIVE_ATTRIBUTES];
    return graph_add_node(g, &op_all_reduce, values, count, items,
                          collective_attributes(place, items));
}
