#include "ops/scatter_add/scatter_add.h"

#include <assert.h>
#include <string.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/gather/gather.h"
#include "ops/kernel.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "rows", ATTRIBUTE_INTEGER));
    const value *ids = n->inputs[0], *x = n->inputs[1];
    int64_t rows = attribute_integer(&n->attributes, "rows");
    bool fits = ids->type == DTYPE_I32 && x->shape.rank == ids->shape.rank + 1 && rows > 0;
    for (int i = 0; fits && i < ids->shape.rank; i++)
        fits = ids->shape.dim[i] == x->shape.dim[i];
    if (!fits)
        return dyno_fail(DYNO_INVALID, "ids are %s[%s] and rows [%s] go into %lld",
                         dtype_name(ids->type), shape_format(&ids->shape).text,
                         shape_format(&x->shape).text, (long long)rows);
    outputs[0] = (value_type){x->type, SHAPE(rows, x->shape.dim[x->shape.rank - 1])};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[1])
        dx[1] = build_gather(g, dy[0], n->inputs[0]);
}

static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    cost.flops = (double)shape_elements(&n->inputs[1]->shape);
    return cost;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *s = &n->outputs[0]->shape;
    for (int64_t i = 0; i < shape_elements(s); i++)
        outputs[0][i] = 0;
    for (int64_t i = 0; i < shape_elements(&n->inputs[0]->shape); i++)
        for (int64_t j = 0; j < s->dim[1]; j++)
            outputs[0][(int64_t)inputs[0][i] * s->dim[1] + j] += inputs[1][i * s->dim[1] + j];
}

/* Threads own table rows, and each walks all ids in order: no atomics, one order of addition. */
static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const int32_t *ids = args->inputs[0].data;
    const float *x = args->inputs[1].data;
    float *out = args->outputs[0].data;
    int64_t width = args->outputs[0].shape.dim[1], count = shape_elements(&args->inputs[0].shape);
    memset(out + begin * width, 0, (size_t)((end - begin) * width) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        assert(ids[i] >= 0 && ids[i] < args->outputs[0].shape.dim[0]);
        if (ids[i] < begin || ids[i] >= end)
            continue;
        float *row = out + ids[i] * width;
        const float *add = x + i * width;
        for (int64_t j = 0; j < width; j++)
            row[j] += add[j];
    }
}

static dyno_status run(const kernel_args *args) {
    threads_for(args->outputs[0].shape.dim[0], 64, run_rows, (void *)args);
    return DYNO_OK;
}

static const char *reject_layout(const kernel_args *args) {
    return tensor_is_contiguous(&args->inputs[0]) && tensor_is_contiguous(&args->inputs[1])
               ? NULL
               : "ids and rows must be dense";
}

static const char *reject(const kernel_args *args) {
    return args->inputs[1].type == DTYPE_F32 ? reject_layout(args) : "adds f32 only";
}

static const char *reject_cuda(const kernel_args *args) {
    dtype type = args->inputs[1].type;
    if (!dtype_is_f32_or_low(type))
        return "adds f32, bf16 and f16 only";
    return reject_layout(args);
}

static const kernel scatter_add_by_rows = {
    .name = "scatter_add_by_rows", .target = TARGET_CPU, .reject = reject, .run = run};

static const kernel scatter_add_cuda = {
    .name = "scatter_add_cuda", .target = TARGET_CUDA, .reject = reject_cuda};

const op op_scatter_add = {
    .name = "scatter_add",
    .summary = "rows added into a table at ids: the embedding's gradient",
    .class = OP_CLASS_GATHER,
    .input_count = 2,
    .output_count = 1,
    .infer = infer,
    .gradient = gradient,
    .cost = cost,
    .reference = reference,
    .kernels = (const kernel *const[]){&scatter_add_by_rows, &scatter_add_cuda, NULL}};

value *build_scatter_add(graph *g, value *ids, value *x, int64_t rows) {
    return graph_add_node(g, &op_scatter_add, (value *[]){ids, x}, 2, &ATTR_INTEGER("rows", rows),
                          1);
}
