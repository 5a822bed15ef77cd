#include "ops/gather/gather.h"

#include <assert.h>
#include <string.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/kernel.h"
#include "ops/scatter_add/scatter_add.h"

static dyno_status infer(const node *n, value_type *outputs) {
    const value *table = n->inputs[0], *ids = n->inputs[1];
    if (table->shape.rank != 2 || ids->type != DTYPE_I32 || ids->shape.rank >= SHAPE_MAX_RANK)
        return dyno_fail(
            DYNO_INVALID, "takes a table of rank 2 and ids of type i32, not %s[%s], %s",
            dtype_name(table->type), shape_format(&table->shape).text, dtype_name(ids->type));
    shape s = ids->shape;
    s.dim[s.rank++] = table->shape.dim[1];
    outputs[0] = (value_type){table->type, s};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_scatter_add(g, n->inputs[1], dy[0], n->inputs[0]->shape.dim[0]);
}

/* Only the rows asked for are read. */
static op_cost cost(const node *n) {
    double rows = (double)shape_elements(&n->outputs[0]->shape) * dtype_bytes(n->outputs[0]->type);
    double ids = (double)shape_elements(&n->inputs[1]->shape) * dtype_bytes(n->inputs[1]->type);
    return (op_cost){.bytes_read = rows + ids, .bytes_written = rows};
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    int64_t width = n->inputs[0]->shape.dim[1];
    for (int64_t i = 0; i < shape_elements(&n->inputs[1]->shape); i++)
        for (int64_t j = 0; j < width; j++)
            outputs[0][i * width + j] = inputs[0][(int64_t)inputs[1][i] * width + j];
}

static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const tensor *table = &args->inputs[0];
    const int32_t *ids = args->inputs[1].data;
    size_t bytes = (size_t)(table->shape.dim[1] * dtype_bytes(table->type));
    for (int64_t i = begin; i < end; i++) {
        assert(ids[i] >= 0 && ids[i] < table->shape.dim[0]);
        memcpy((char *)args->outputs[0].data + (size_t)i * bytes,
               (const char *)table->data + (size_t)ids[i] * bytes, bytes);
    }
}

static dyno_status run(const kernel_args *args) {
    threads_for(shape_elements(&args->inputs[1].shape), 16, run_rows, (void *)args);
    return DYNO_OK;
}

static const char *reject(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[0]) && tensor_is_contiguous(&args->inputs[1])
               ? NULL
               : "table and ids must be dense";
}

static const kernel gather_rows = {
    .name = "gather_rows", .target = TARGET_CPU, .reject = reject, .run = run};

static const kernel gather_cuda = {.name = "gather_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_gather = {.name = "gather",
                      .summary = "rows of a table chosen by ids: the embedding",
                      .class = OP_CLASS_GATHER,
                      .input_count = 2,
                      .output_count = 1,
                      .infer = infer,
                      .gradient = gradient,
                      .cost = cost,
                      .reference = reference,
                      .kernels = (const kernel *const[]){&gather_rows, &gather_cuda, NULL}};

value *build_gather(graph *g, value *table, value *ids) {
    return graph_add_node(g, &op_gather, (value *[]){table, ids}, 2, NULL, 0);
}
