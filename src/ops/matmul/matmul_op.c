#include "ops/matmul/matmul.h"

#include "graph/op.h"
#include "ops/cast/cast.h"

double matmul_alpha(const attributes *list) {
    const attribute *alpha = attribute_find(list, "alpha");
    return alpha ? alpha->real : 1;
}

/* The optional attributes: "type", a dtype's number, and "alpha". */
static dyno_status infer_type(const node *n, dtype *type) {
    *type = n->inputs[0]->type;
    if (attribute_find(&n->attributes, "alpha"))
        RETURN_IF_FAILED(node_require_attribute(n, "alpha", ATTRIBUTE_REAL));
    if (!attribute_find(&n->attributes, "type"))
        return DYNO_OK;
    RETURN_IF_FAILED(node_require_attribute(n, "type", ATTRIBUTE_INTEGER));
    int64_t wanted = attribute_integer(&n->attributes, "type");
    bool may_widen = dtype_bytes(*type) < dtype_bytes(DTYPE_F32);
    if (wanted != *type && !(may_widen && wanted == DTYPE_F32))
        return dyno_fail(DYNO_INVALID, "type is %lld (%s), operands of %s give %s%s",
                         (long long)wanted,
                         wanted >= 0 && wanted < DTYPE_COUNT ? dtype_name((dtype)wanted) : "none",
                         dtype_name(*type), dtype_name(*type), may_widen ? " or f32" : "");
    *type = (dtype)wanted;
    return DYNO_OK;
}

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
    outputs[0].shape = s;
    return infer_type(n, &outputs[0].type);
}

/* C = alpha A' B'. dA' = alpha dC B'^T and dB' = alpha A'^T dC, written for A and B as they are
 * stored. A product wider than its operands takes dC in their type, and gives it. */
static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    value *a = n->inputs[0], *b = n->inputs[1];
    value *dc = dy[0]->type == a->type ? dy[0] : build_cast(g, dy[0], a->type);
    double alpha = matmul_alpha(&n->attributes);
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(&n->attributes, "transpose_b") != 0;
    if (wanted[0])
        dx[0] = ta ? build_matmul_scaled(g, b, dc, tb, true, a->type, alpha)
                   : build_matmul_scaled(g, dc, b, false, !tb, a->type, alpha);
    if (wanted[1])
        dx[1] = tb ? build_matmul_scaled(g, dc, a, true, ta, b->type, alpha)
                   : build_matmul_scaled(g, a, dc, !ta, false, b->type, alpha);
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
    double alpha = matmul_alpha(&n->attributes);
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
                pc[i * columns + j] = alpha * sum;
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
                      .precision = OP_PRECISION_PRODUCT,
                      .factor_count = 2,
                      .can_output_f32 = true,
                      .kernels = (const kernel *const[]){
                          &matmul_amx, &matmul_avx512_bf16, &matmul_onednn, &matmul_avx512,
                          &matmul_avx2, &matmul_portable, &matmul_cublas, NULL}};

value *build_matmul(graph *g, value *a, value *b, bool transpose_a, bool transpose_b) {
    return build_matmul_scaled(g, a, b, transpose_a, transpose_b, a->type, 1);
}

value *build_matmul_scaled(graph *g, value *a, value *b, bool transpose_a, bool transpose_b,
                           dtype type, double alpha) {
    attribute list[4] = {ATTR_INTEGER("transpose_a", transpose_a),
                         ATTR_INTEGER("transpose_b", transpose_b)};
    int count = 2;
    if (type != a->type)
        list[count++] = ATTR_INTEGER("type", type);
    if (alpha != 1)
        list[count++] = ATTR_REAL("alpha", alpha);
    return graph_add_node(g, &op_matmul, (value *[]){a, b}, 2, list, count);
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
                        .row_a = a->stride[rank - 2 + ta],
                        .column_a = a->stride[rank - 1 - ta],
                        .row_b = b->stride[rank - 2 + tb],
                        .column_b = b->stride[rank - 1 - tb]};
    for (int i = 0; i < rank - 2; i++)
        p.batches *= c->shape.dim[i];
    p.ldc = p.m == 1 ? p.n : c->stride[rank - 2];
    /* The stride of a dimension of size 1 is never used, and must not prevent folding. */
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

static gemm_offsets locate(const void *context, int64_t batch) {
    return matmul_batch_offsets(context, batch);
}

gemm_problem matmul_gemm_problem(const kernel_args *args) {
    const tensor *a = &args->inputs[0], *b = &args->inputs[1], *c = &args->outputs[0];
    matmul_problem p = matmul_describe(args);
    return (gemm_problem){.m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .a = {a->data, a->type, p.row_a, p.column_a},
                          .b = {b->data, b->type, p.row_b, p.column_b},
                          .c = c->data,
                          .c_type = c->type,
                          .ldc = p.ldc,
                          .alpha = (float)matmul_alpha(args->attributes),
                          .batches = p.batches,
                          .locate = locate,
                          .locate_context = args,
                          .target = args->target};
}
