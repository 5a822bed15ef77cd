#include <string.h>

#include "base/threads.h"
#include "graph/op.h"
#include "ops/kernel.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_rows.h"

/* The attribute "heads": x is [..., T, H, D], and only the first so many of H are rotated; without
 * it x is [..., T, D]. */
static int64_t rotated_heads(const attributes *list) {
    const attribute *heads = attribute_find(list, "heads");
    return heads ? heads->integer : 0;
}

/* How rows of D follow one another: H of each position, of which some are rotated. */
typedef struct row_order {
    int64_t positions, heads, rotated, half;
} row_order;

static row_order order_of(const shape *x, const attributes *list) {
    int64_t rotated = rotated_heads(list);
    int last = x->rank - 1;
    return rotated ? (row_order){x->dim[last - 2], x->dim[last - 1], rotated, x->dim[last] / 2}
                   : (row_order){x->dim[last - 1], 1, 1, x->dim[last] / 2};
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "inverse", ATTRIBUTE_INTEGER));
    const shape *x = &n->inputs[0]->shape;
    bool has_heads = attribute_find(&n->attributes, "heads") != NULL;
    if (has_heads)
        RETURN_IF_FAILED(node_require_attribute(n, "heads", ATTRIBUTE_INTEGER));
    int position = x->rank - 2 - has_heads;
    for (int i = 1; i < 3; i++) {
        const shape *table = &n->inputs[i]->shape;
        if (position < 0 || table->rank != 2 || table->dim[0] != x->dim[position] ||
            2 * table->dim[1] != x->dim[x->rank - 1] || n->inputs[i]->type != DTYPE_F32)
            return dyno_fail(DYNO_INVALID, "x is [%s] and a table %s[%s]; it must be f32[T, D/2]",
                             shape_format(x).text, dtype_name(n->inputs[i]->type),
                             shape_format(table).text);
    }
    int64_t rotated = rotated_heads(&n->attributes);
    if (has_heads && (rotated < 1 || rotated > x->dim[x->rank - 2]))
        return dyno_fail(DYNO_INVALID, "%lld heads are to be rotated, x [%s] has %lld",
                         (long long)rotated, shape_format(x).text, (long long)x->dim[x->rank - 2]);
    outputs[0] = (value_type){n->inputs[0]->type, *x};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_rope_heads(g, dy[0], (rope_table){n->inputs[1], n->inputs[2]},
                                 !attribute_integer(&n->attributes, "inverse"),
                                 rotated_heads(&n->attributes));
}

/* Two products and a sum for each element that is rotated. */
static op_cost cost(const node *n) {
    row_order order = order_of(&n->inputs[0]->shape, &n->attributes);
    return op_cost_streaming(n, 3 * (double)order.rotated / (double)order.heads);
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *s = &n->inputs[0]->shape;
    row_order o = order_of(s, &n->attributes);
    double sign = attribute_integer(&n->attributes, "inverse") ? -1 : 1;
    for (int64_t row = 0; row < shape_elements(s) / (2 * o.half); row++)
        for (int64_t j = 0; j < o.half; j++) {
            const double *x = inputs[0] + row * 2 * o.half;
            double *y = outputs[0] + row * 2 * o.half;
            int64_t table = row / o.heads % o.positions * o.half + j;
            bool passes = row % o.heads >= o.rotated;
            double c = passes ? 1 : inputs[1][table];
            double sine = passes ? 0 : sign * inputs[2][table];
            y[j] = x[j] * c - x[j + o.half] * sine;
            y[j + o.half] = x[j + o.half] * c + x[j] * sine;
        }
}

/* Of a row of the dimensions outside the last, in bytes. */
static int64_t row_offset(const tensor *x, int64_t row) {
    int64_t offset = 0;
    for (int d = x->shape.rank - 2; d >= 0; d--) {
        offset += row % x->shape.dim[d] * x->stride[d];
        row /= x->shape.dim[d];
    }
    return offset * dtype_bytes(x->type);
}

static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const tensor *x = &args->inputs[0], *y = &args->outputs[0];
    row_order o = order_of(&x->shape, args->attributes);
    const float *cosine = args->inputs[1].data, *sine = args->inputs[2].data;
    bool is_inverse = attribute_integer(args->attributes, "inverse") != 0;
    int inner = x->shape.rank - 2, bytes = dtype_bytes(x->type);
    const char *from = NULL;
    char *to = NULL;
    /* A row has few elements beside what a division costs: counted up instead. */
    int64_t head = begin % o.heads, position = begin / o.heads % o.positions, left = 0;
    for (int64_t row = begin; row < end; row++, left--) {
        if (left == 0) {
            left = x->shape.dim[inner] - row % x->shape.dim[inner];
            from = (const char *)x->data + row_offset(x, row);
            to = (char *)y->data + row_offset(y, row);
        }
        int64_t table = position * o.half;
        if (head < o.rotated)
            rope_rotate_row(x->type, o.half, from, cosine + table, sine + table, is_inverse, to);
        else if (to != from)
            memcpy(to, from, (size_t)(2 * o.half * bytes));
        from += x->stride[inner] * bytes;
        to += y->stride[inner] * bytes;
        if (++head == o.heads) {
            head = 0;
            position = position + 1 < o.positions ? position + 1 : 0;
        }
    }
}

static dyno_status run(const kernel_args *args) {
    const shape *s = &args->inputs[0].shape;
    threads_for(shape_elements(s) / s->dim[s->rank - 1], 64, run_rows, (void *)args);
    return DYNO_OK;
}

static const char *reject_layout(const kernel_args *args) {
    if (args->inputs[0].stride[args->inputs[0].shape.rank - 1] != 1)
        return "rows must be dense";
    if (!tensor_is_contiguous(&args->inputs[1]) || !tensor_is_contiguous(&args->inputs[2]))
        return "the tables must be dense";
    return NULL;
}

static const char *reject_low(const kernel_args *args) {
    if (!dtype_is_low(args->inputs[0].type))
        return "rotates bf16 and f16 only";
    return reject_layout(args);
}

static const char *reject(const kernel_args *args) {
    const char *reason = kernel_reject_unless_f32(args);
    return reason ? reason : reject_layout(args);
}

/* Rows are counted in 32 bits where they are told apart. */
static const char *reject_cuda(const kernel_args *args) {
    const tensor *x = &args->inputs[0];
    if (!dtype_is_f32_or_low(x->type))
        return "rotates f32, bf16 and f16 only";
    if (shape_elements(&x->shape) / x->shape.dim[x->shape.rank - 1] > INT32_MAX)
        return "counts no more than 2147483647 rows";
    return reject_layout(args);
}

static const kernel rope_f32 = {.name = "rope_f32",
                                .target = TARGET_CPU,
                                .reject = reject,
                                .run = run,
                                .writes_strided = true,
                                .overwrites_input = 1};

static const kernel rope_low = {.name = "rope_low",
                                .target = TARGET_CPU,
                                .reject = reject_low,
                                .run = run,
                                .writes_strided = true,
                                .overwrites_input = 1};

static const kernel rope_cuda = {.name = "rope_cuda",
                                 .target = TARGET_CUDA,
                                 .reject = reject_cuda,
                                 .writes_strided = true,
                                 .overwrites_input = 1};

const op op_rope = {.name = "rope",
                    .summary = "rotary position embedding, half-split",
                    .class = OP_CLASS_ELEMENTWISE,
                    .input_count = 3,
                    .output_count = 1,
                    .infer = infer,
                    .gradient = gradient,
                    .cost = cost,
                    .reference = reference,
                    .absorbs_casts = true,
                    .kernels = (const kernel *const[]){&rope_f32, &rope_low, &rope_cuda, NULL}};

value *build_rope(graph *g, value *x, rope_table table, bool inverse) {
    return build_rope_heads(g, x, table, inverse, 0);
}

value *build_rope_heads(graph *g, value *x, rope_table table, bool inverse, int64_t heads) {
    return graph_add_node(
        g, &op_rope, (value *[]){x, table.cos, table.sin}, 3,
        (attribute[]){ATTR_INTEGER("inverse", inverse), ATTR_INTEGER("heads", heads)},
        heads ? 2 : 1);
}
