#include "graph/op.h"
#include "ops/loss_head/loss_head.h"
#include "ops/loss_head/loss_head_layout.h"

enum { X, WEIGHT, TARGETS, DY };

static dyno_status check(const node *n) {
    RETURN_IF_FAILED(node_require_attribute(n, "chunk", ATTRIBUTE_INTEGER));
    const value *x = n->inputs[X], *w = n->inputs[WEIGHT], *targets = n->inputs[TARGETS];
    if (x->shape.rank != 2 || w->shape.rank != 2 || x->shape.dim[1] != w->shape.dim[1] ||
        x->type != w->type || !dtype_is_float(x->type))
        return dyno_fail(DYNO_INVALID,
                         "x is %s[%s] and the weight %s[%s]; want [N,D] and [V,D] of "
                         "one float type",
                         dtype_name(x->type), shape_format(&x->shape).text, dtype_name(w->type),
                         shape_format(&w->shape).text);
    if (targets->type != DTYPE_I32 || targets->shape.rank != 1 ||
        targets->shape.dim[0] != x->shape.dim[0])
        return dyno_fail(DYNO_INVALID, "targets are %s[%s]; want i32[%lld]",
                         dtype_name(targets->type), shape_format(&targets->shape).text,
                         (long long)x->shape.dim[0]);
    if (attribute_integer(&n->attributes, "chunk") < 1)
        return dyno_fail(DYNO_INVALID, "a chunk of %lld tokens; it must have at least 1",
                         (long long)attribute_integer(&n->attributes, "chunk"));
    return DYNO_OK;
}

static dyno_status check_type(const node *n, const char *what, int64_t type) {
    if (type == DTYPE_F32 || type == (int64_t)n->inputs[X]->type)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, "%s as element type number %lld; it is f32 or x's", what,
                     (long long)type);
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(check(n));
    RETURN_IF_FAILED(node_require_attribute(n, "type", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "dw_type", ATTRIBUTE_INTEGER));
    int64_t type = attribute_integer(&n->attributes, "type");
    const value *dy = n->inputs[DY];
    if (!shape_equal(&dy->shape, &n->inputs[TARGETS]->shape) || dy->type != DTYPE_F32)
        return dyno_fail(DYNO_INVALID, "dy is %s[%s]; want f32[%s]", dtype_name(dy->type),
                         shape_format(&dy->shape).text,
                         shape_format(&n->inputs[TARGETS]->shape).text);
    int64_t dw_type = attribute_integer(&n->attributes, "dw_type");
    RETURN_IF_FAILED(check_type(n, "dx", type));
    RETURN_IF_FAILED(check_type(n, "dW", dw_type));
    outputs[0] = (value_type){DTYPE_F32, n->inputs[TARGETS]->shape};
    outputs[1] = (value_type){(dtype)type, n->inputs[X]->shape};
    outputs[2] = (value_type){(dtype)dw_type, n->inputs[WEIGHT]->shape};
    return DYNO_OK;
}

static dyno_status infer_forward(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(check(n));
    outputs[0] = (value_type){DTYPE_F32, n->inputs[TARGETS]->shape};
    return DYNO_OK;
}

/* The cost of the ops it replaces: products 2 N V D each, cross-entropy 4 and its gradient 3 for
 * each logit. */
static double flops_of(const node *n, int products, double per_logit) {
    double logits = (double)n->inputs[X]->shape.dim[0] * (double)n->inputs[WEIGHT]->shape.dim[0];
    return logits * (products * 2 * (double)n->inputs[X]->shape.dim[1] + per_logit);
}

static op_cost cost_forward(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    cost.flops = flops_of(n, 1, 4);
    return cost;
}

static op_cost cost(const node *n) {
    op_cost cost = cost_forward(n);
    cost.backward_flops = flops_of(n, 2, 3);
    cost.flops += cost.backward_flops;
    return cost;
}

static size_t workspace_bytes_cuda(const kernel_args *args) {
    int64_t rows = args->inputs[X].shape.dim[0], vocab = args->inputs[WEIGHT].shape.dim[0];
    int64_t chunk = attribute_integer(args->attributes, "chunk");
    chunk = chunk < rows ? chunk : rows;
    return (size_t)(loss_head_logits_bytes(chunk, vocab, dtype_bytes(args->inputs[X].type)) +
                    loss_head_product_bytes(rows, chunk, vocab, args->inputs[X].shape.dim[1]));
}

static const char *reject_cuda(const kernel_args *args) {
    if (dtype_bytes(args->inputs[X].type) > (int)sizeof(float))
        return "multiplies f32, bf16 and f16 only";
    for (int i = X; i <= TARGETS; i++)
        if (!tensor_is_contiguous(&args->inputs[i]))
            return "x, the weight and targets must be dense";
    bool has_chunks = attribute_integer(args->attributes, "chunk") < args->inputs[X].shape.dim[0];
    if (has_chunks && args->output_count > 1 && args->outputs[2].type != DTYPE_F32)
        return "adds dW up over several chunks in f32 only";
    return NULL;
}

static const kernel loss_head_cuda = {.name = "loss_head_cuda",
                                      .target = TARGET_CUDA,
                                      .reject = reject_cuda,
                                      .workspace_bytes = workspace_bytes_cuda,
                                      .overwrites_input = 2};

static const kernel loss_head_forward_cuda = {.name = "loss_head_forward_cuda",
                                              .target = TARGET_CUDA,
                                              .reject = reject_cuda,
                                              .workspace_bytes = workspace_bytes_cuda};

const op op_loss_head = {.name = "loss_head",
                         .summary = "last product, cross-entropy and their gradients, in chunks of "
                                    "tokens",
                         .class = OP_CLASS_LOSS,
                         .input_count = 4,
                         .output_count = 3,
                         .infer = infer,
                         .cost = cost,
                         .reference = loss_head_reference,
                         .precision = OP_PRECISION_PRODUCT,
                         .factor_count = 2,
                         .kernels =
                             (const kernel *const[]){&loss_head_chunked, &loss_head_cuda, NULL}};

const op op_loss_head_forward = {
    .name = "loss_head_forward",
    .summary = "last product and cross-entropy, in chunks of tokens",
    .class = OP_CLASS_LOSS,
    .input_count = 3,
    .output_count = 1,
    .infer = infer_forward,
    .cost = cost_forward,
    .reference = loss_head_reference,
    .precision = OP_PRECISION_PRODUCT,
    .factor_count = 2,
    .kernels = (const kernel *const[]){&loss_head_forward_chunked, &loss_head_forward_cuda, NULL}};

value *build_loss_head(graph *g, value *x, value *weight, value *targets, value *dy, int64_t chunk,
                       dtype dx_type, dtype dw_type) {
    return graph_add_node(g, &op_loss_head, (value *[]){x, weight, targets, dy}, 4,
                          (attribute[]){ATTR_INTEGER("chunk", chunk),
                                        ATTR_INTEGER("type", (int64_t)dx_type),
                                        ATTR_INTEGER("dw_type", (int64_t)dw_type)},
                          3);
}

value *build_loss_head_forward(graph *g, value *x, value *weight, value *targets, int64_t chunk) {
    return graph_add_node(g, &op_loss_head_forward, (value *[]){x, weight, targets}, 3,
                          &ATTR_INTEGER("chunk", chunk), 1);
}

/* Chunks of even length, a multiple of `multiple`: the last one should not be much shorter. */
static int64_t even_chunk(int64_t tokens, int64_t row_bytes, int64_t most_bytes, int64_t fewest,
                          int64_t multiple) {
    int64_t most = most_bytes / row_bytes / multiple * multiple;
    most = most < fewest ? fewest : most;
    int64_t chunks = (tokens + most - 1) / most;
    int64_t even = ((tokens + chunks - 1) / chunks + multiple - 1) / multiple * multiple;
    return even < tokens ? even : tokens;
}

int64_t loss_head_chunk(int64_t tokens, int64_t vocab) {
    enum { FEWEST = 512, MULTIPLE = 16, MOST_BYTES = 8 << 20 };
    return even_chunk(tokens, vocab * (int64_t)sizeof(float), MOST_BYTES, FEWEST, MULTIPLE);
}

int64_t loss_head_chunk_cuda(int64_t tokens, int64_t vocab, dtype type) {
    enum { FEWEST = 1024, MULTIPLE = 128, MOST_BYTES = 80 << 20 };
    int64_t row_bytes = loss_head_row(vocab, dtype_bytes(type)) * dtype_bytes(type);
    return even_chunk(tokens, row_bytes, MOST_BYTES, FEWEST, MULTIPLE);
}
