#include "ops/matmul/matmul.h"

#include "graph/op.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "transpose_a", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "transpose_b", ATTRIBUTE_INTEGER));
    const value *a = n->inputs[0], *b = n->inputs[1];
    int rank = a->shape.rank;
    if (rank < 2 || b->shape.rank != rank || a->type != b->type || !dtype_is_float(a->type))
        return dyno_fail(DYNO_INVALID,
                         "operands are %s[%s] and %s[%s]; they must be floats of one type and of "
                         "one rank, at least 2",
                         dtype_name(a->type), shape_format(&a->shape).text, dtype_name(b->type),
                         shape_format(&b->shape).text);
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(&n->attributes, "transpose_b") != 0;
    int64_t m = a->shape.dim[rank - 2 + ta], k = a->shape.dim[rank - 1 - ta];
    int64_t other = b->shape.dim[rank - 2 + tb], columns = b->shape.dim[rank - 1 - tb];
    bool fits = k == other;
    for (int i = 0; i < rank - 2; i++)
        fits = fits && a->shape.dim[i] == b->shape.dim[i];
    if (!fits)
        return dyno_fail(DYNO_INVALID, "[%s]%s cannot be multiplied by [%s]%s",
                         shape_format(&a->shape).text, ta ? " transposed" : "",
                         shape_format(&b->shape).text, tb ? " transposed" : "");
    shape s = a->shape;
    s.dim[rank - 2] = m;
    s.dim[rank - 1] = columns;
    outputs[0] = (value_type){a->type, s};
    return DYNO_OK;
}

/* C = A' B'. dA' = dC B'^T and dB' = A'^T dC, written for A and B as they are stored. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    value *a = n->inputs[0], *b = n->inputs[1], *dc = dy[0];
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(&n->attributes, "transpose_b") != 0;
    if (wanted[0])
        dx[0] = ta ? build_matmul(g, b, dc, tb, true) : build_matmul(g, dc, b, false, !tb);
    if (wanted[1])
        dx[1] = tb ? build_matmul(g, dc, a, true, ta) : build_matmul(g, a, dc, !ta, false);
}

/* 2 M N K: a multiplication and an addition for each term. */
static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    const shape *a = &n->inputs[0]->shape;
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    double k = (double)a->dim[a->rank - 1 - ta];
    cost.flops = 2 * k * (double)shape_elements(&n->outputs[0]->shape);
    return cost;
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *a = &n->inputs[0]->shape, *c = &n->outputs[0]->shape;
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(&n->attributes, "transpose_b") != 0;
    int rank = c->rank;
    int64_t m = c->dim[rank - 2], columns = c->dim[rank - 1], k = a->dim[rank - 1 - ta];
    for (int64_t batch = 0; batch < shape_elements(c) / (m * columns); batch++) {
        const double *pa = inputs[0] + batch * m * k, *pb = inputs[1] + batch * k * columns;
        double *pc = outputs[0] + batch * m * columns;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < columns; j++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += pa[ta ? l * m + i : i * k + l] * pb[tb ? j * k + l : l * columns + j];
                pc[i * columns + j] = sum;
            }
    }
}

const op op_matmul = {.name = "matmul",
                      .summary = "product of matrices, batched, operands transposed or not",
                      .class = OP_CLASS_MATMUL,
                      .input_count = 2,
                      .output_count = 1,
                      .infer = infer,
                      .gradient = gradient,
                      .cost = cost,
                      .reference = reference,
                      .kernels = (const kernel *const[]){&matmul_onednn, &matmul_blocked, NULL}};

value *build_matmul(graph *g, value *a, value *b, bool transpose_a, bool transpose_b) {
    return graph_add_node(g, &op_matmul, (value *[]){a, b}, 2,
                          (attribute[]){ATTR_INTEGER("transpose_a", transpose_a),
                                        ATTR_INTEGER("transpose_b", transpose_b)},
                          2);
}

matmul_problem matmul_describe(const kernel_args *args) {
    const tensor *a = &args->inputs[0], *b = &args->inputs[1], *c = &args->outputs[0];
    int rank = c->shape.rank;
    bool ta = attribute_integer(args->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(args->attributes, "transpose_b") != 0;
    matmul_problem p = {.batches = 1,
                        .m = c->shape.dim[rank - 2],
                        .n = c->shape.dim[rank - 1],
                        .k = a->shape.dim[rank - 1 - ta],
                        .ldc = c->shape.dim[rank - 1],
                        .row_a = a->stride[rank - 2 + ta],
                        .column_a = a->stride[rank - 1 - ta],
                        .row_b = b->stride[rank - 2 + tb],
                        .column_b = b->stride[rank - 1 - tb]};
    for (int i = 0; i < rank - 2; i++)
        p.batches *= c->shape.dim[i];
    /* A dimension of size 1 is walked by no stride; let it not stand in the way. */
    int64_t row_a = p.m == 1 ? p.k * p.column_a : p.row_a;
    int64_t column_a = p.k == 1 && p.row_a != 1 ? 1 : p.column_a;
    int64_t row_b = p.k == 1 ? p.n * p.column_b : p.row_b;
    int64_t column_b = p.n == 1 && p.row_b != 1 ? 1 : p.column_b;
    p.transpose_a = column_a != 1;
    p.lda = p.transpose_a ? column_a : row_a;
    p.transpose_b = column_b != 1;
    p.ldb = p.transpose_b ? column_b : row_b;
    p.has_unit_strides = (column_a == 1 || p.row_a == 1) && (column_b == 1 || p.row_b == 1) &&
                         p.lda >= (p.transpose_a ? p.m : p.k) &&
                         p.ldb >= (p.transpose_b ? p.k : p.n);
    return p;
}

matmul_offsets matmul_batch_offsets(const kernel_args *args, int64_t batch) {
    const tensor *operand[3] = {&args->inputs[0], &args->inputs[1], &args->outputs[0]};
    int64_t offset[3] = {0}, left = batch;
    for (int d = operand[2]->shape.rank - 3; d >= 0; d--) {
        int64_t index = left % operand[2]->shape.dim[d];
        left /= operand[2]->shape.dim[d];
        for (int i = 0; i < 3; i++)
            offset[i] += index * operand[i]->stride[d];
    }
    return (matmul_offsets){offset[0], offset[1], offset[2]};
}
