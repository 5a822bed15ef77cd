#include "ops/all_gather/all_gather.h"

#include <string.h>

enum { PART, WHOLE };

static int inplace_input(const node *n, int output) {
    (void)output;
    return n->input_count > WHOLE ? WHOLE : -1;
}

static dyno_status infer(const node *n, value_type *outputs) {
    int64_t ranks;
    RETURN_IF_FAILED(collective_check_ranks(n, &ranks));
    const value *part = n->inputs[PART];
    if (part->shape.rank != 1)
        return dyno_fail(DYNO_INVALID, "[%s] is no list", shape_format(&part->shape).text);
    shape whole = SHAPE(part->shape.dim[0] * ranks);
    if (n->input_count > WHOLE &&
        (n->inputs[WHOLE]->type != part->type || !shape_equal(&n->inputs[WHOLE]->shape, &whole)))
        return dyno_fail(DYNO_INVALID, "%lld parts %s[%s] do not make %s[%s]", (long long)ranks,
                         dtype_name(part->type), shape_format(&part->shape).text,
                         dtype_name(n->inputs[WHOLE]->type),
                         shape_format(&n->inputs[WHOLE]->shape).text);
    outputs[0] = (value_type){part->type, whole};
    return DYNO_OK;
}

static op_cost cost(const node *n) {
    int64_t ranks = attribute_integer(&n->attributes, "ranks");
    op_cost cost = {0};
    cost.bytes_read =
        (double)shape_elements(&n->inputs[PART]->shape) * dtype_bytes(n->inputs[PART]->type);
    cost.bytes_written = cost.bytes_read * (double)ranks;
    cost.bytes_sent = collective_bytes_sent(COLLECTIVE_ALL_GATHER, cost.bytes_written, ranks);
    return cost;
}

/* Of ranks that all have the same. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    int64_t count = shape_elements(&n->inputs[PART]->shape);
    for (int64_t r = 0; r < attribute_integer(&n->attributes, "ranks"); r++)
        memcpy(outputs[0] + r * count, inputs[PART], (size_t)count * sizeof(double));
}

static const char *reject(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[PART]) ? NULL : "the part must be dense";
}

static dyno_status run(const kernel_args *args) {
    return all_gather_launch(args, collective_run_on_cpu);
}

static const kernel all_gather_ranks = {
    .name = "all_gather_ranks", .target = TARGET_CPU, .reject = reject, .run = run};
static const kernel all_gather_cuda = {
    .name = "all_gather_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_all_gather = {.name = "all_gather",
                          .summary = "the parts of all ranks together",
                          .class = OP_CLASS_COMMUNICATION,
                          .input_count = 1,
                          .optional_inputs = 1,
                          .output_count = 1,
                          .infer = infer,
                          .cost = cost,
                          .reference = reference,
                          .inplace_input = inplace_input,
                          .precision = OP_PRECISION_ANY,
                          .kernels =
                              (const kernel *const[]){&all_gather_ranks, &all_gather_cuda, NULL}};

static value *build(graph *g, value *const *inputs, int count, const collective_place *place) {
    attribute items[COLLECTIVE_ATTRIBUTES];
    return graph_add_node(g, &op_all_gather, inputs, count, items,
                          collective_attributes(place, items));
}

value *build_all_gather(graph *g, value *part, const collective_place *place) {
    return build(g, &part, 1, place);
}

value *build_all_gather_into(graph *g, value *part, value *whole, const collective_place *place) {
    return build(g, (value *[]){part, whole}, 2, place);
}
