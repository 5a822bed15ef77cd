#include "base/threads.h"
#include "graph/op.h"
#include "ops/cast/convert.h"
#include "ops/kernel.h"
#include "ops/rope/rope.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "inverse", ATTRIBUTE_INTEGER));
    const shape *x = &n->inputs[0]->shape;
    for (int i = 1; i < 3; i++) {
        const shape *table = &n->inputs[i]->shape;
        if (x->rank < 2 || table->rank != 2 || table->dim[0] != x->dim[x->rank - 2] ||
            2 * table->dim[1] != x->dim[x->rank - 1] || n->inputs[i]->type != DTYPE_F32)
            return dyno_fail(DYNO_INVALID, "x is [%s] and a table %s[%s]; it must be f32[T, D/2]",
                             shape_format(x).text, dtype_name(n->inputs[i]->type),
                             shape_format(table).text);
    }
    outputs[0] = (value_type){n->inputs[0]->type, *x};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0])
        dx[0] = build_rope(g, dy[0], (rope_table){n->inputs[1], n->inputs[2]},
                           !attribute_integer(&n->attributes, "inverse"));
}

/* Two products and a sum for each element. */
static op_cost cost(const node *n) { return op_cost_streaming(n, 3); }

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *s = &n->inputs[0]->shape;
    int64_t length = s->dim[s->rank - 2], half = s->dim[s->rank - 1] / 2;
    double sign = attribute_integer(&n->attributes, "inverse") ? -1 : 1;
    for (int64_t row = 0; row < shape_elements(s) / (2 * half); row++)
        for (int64_t j = 0; j < half; j++) {
            const double *x = inputs[0] + row * 2 * half;
            double *y = outputs[0] + row * 2 * half;
            double c = inputs[1][row % length * half + j];
            double sine = sign * inputs[2][row % length * half + j];
            y[j] = x[j] * c - x[j + half] * sine;
            y[j + half] = x[j + half] * c + x[j] * sine;
        }
}

static void rotate_row(int64_t half, const float *restrict x, const float *restrict c,
                       const float *restrict s, float sign, float *restrict y) {
    for (int64_t j = 0; j < half; j++) {
        float sine = sign * s[j];
        y[j] = x[j] * c[j] - x[j + half] * sine;
        y[j + half] = x[j + half] * c[j] + x[j] * sine;
    }
}

/* Of a row of the dimensions outside the last, in elements. */
static int64_t row_offset(const tensor *x, int64_t row) {
    int64_t offset = 0;
    for (int d = x->shape.rank - 2; d >= 0; d--) {
        offset += row % x->shape.dim[d] * x->stride[d];
        row /= x->shape.dim[d];
    }
    return offset;
}

/* From `row`, at position *t, to the next. Divisions only where a sequence ends. */
static inline void step_row(const tensor *x, int64_t row, int64_t *t, int64_t *offset) {
    int sequence = x->shape.rank - 2;
    *offset += x->stride[sequence];
    if (++*t == x->shape.dim[sequence]) {
        *t = 0;
        *offset = row_offset(x, row + 1);
    }
}

static void run_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const tensor *x = &args->inputs[0];
    const shape *s = &x->shape;
    int64_t length = s->dim[s->rank - 2], half = s->dim[s->rank - 1] / 2;
    const float *cosine = args->inputs[1].data, *sine = args->inputs[2].data;
    float sign = attribute_integer(args->attributes, "inverse") ? -1.0f : 1.0f;
    int64_t t = begin % length, offset = row_offset(x, begin);
    for (int64_t row = begin; row < end; row++) {
        int64_t table = t * half;
        rotate_row(half, (const float *)x->data + offset, cosine + table, sine + table, sign,
                   (float *)args->outputs[0].data + row * 2 * half);
        step_row(x, row, &t, &offset);
    }
}

static void run(const kernel_args *args) {
    const shape *s = &args->inputs[0].shape;
    threads_for(shape_elements(s) / s->dim[s->rank - 1], 64, run_rows, (void *)args);
}

/* A row in a low type: rotated in f32 and rounded once, in pieces that fit the stack. */
static void rotate_low_row(dtype type, int64_t half, const uint16_t *x, const float *c,
                           const float *s, float sign, uint16_t *y) {
    enum { PIECE = 256 };
    float wide[2 * PIECE], rotated[2 * PIECE];
    for (int64_t start = 0; start < half; start += PIECE) {
        int64_t n = half - start < PIECE ? half - start : PIECE;
        convert_low_to_f32(type, n, x + start, wide);
        convert_low_to_f32(type, n, x + half + start, wide + n);
        rotate_row(n, wide, c + start, s + start, sign, rotated);
        convert_f32_to_low(type, n, rotated, y + start);
        convert_f32_to_low(type, n, rotated + n, y + half + start);
    }
}

static void run_low_rows(void *context, int64_t begin, int64_t end) {
    const kernel_args *args = context;
    const tensor *x = &args->inputs[0];
    const shape *s = &x->shape;
    int64_t length = s->dim[s->rank - 2], half = s->dim[s->rank - 1] / 2;
    const float *cosine = args->inputs[1].data, *sine = args->inputs[2].data;
    float sign = attribute_integer(args->attributes, "inverse") ? -1.0f : 1.0f;
    int64_t t = begin % length, offset = row_offset(x, begin);
    for (int64_t row = begin; row < end; row++) {
        rotate_low_row(x->type, half, (const uint16_t *)x->data + offset, cosine + t * half,
                       sine + t * half, sign, (uint16_t *)args->outputs[0].data + row * 2 * half);
        step_row(x, row, &t, &offset);
    }
}

static void run_low(const kernel_args *args) {
    const shape *s = &args->inputs[0].shape;
    threads_for(shape_elements(s) / s->dim[s->rank - 1], 64, run_low_rows, (void *)args);
}

static const char *reject_layout(const kernel_args *args) {
    if (args->inputs[0].stride[args->inputs[0].shape.rank - 1] != 1)
        return "rows must be dense";
    if (!tensor_is_contiguous(&args->inputs[1]) || !tensor_is_contiguous(&args->inputs[2]))
        return "the tables must be dense";
    return NULL;
}

static const char *reject_low(const kernel_args *args) {
    if (args->inputs[0].type != DTYPE_BF16 && args->inputs[0].type != DTYPE_F16)
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
    if (x->type != DTYPE_F32 && x->type != DTYPE_BF16 && x->type != DTYPE_F16)
        return "rotates f32, bf16 and f16 only";
    if (shape_elements(&x->shape) / x->shape.dim[x->shape.rank - 1] > INT32_MAX)
        return "counts no more than 2147483647 rows";
    return reject_layout(args);
}

static const kernel rope_f32 = {
    .name = "rope_f32", .backend = BACKEND_CPU, .reject = reject, .run = run};

static const kernel rope_low = {
    .name = "rope_low", .backend = BACKEND_CPU, .reject = reject_low, .run = run_low};

static const kernel rope_cuda = {
    .name = "rope_cuda", .backend = BACKEND_CUDA, .reject = reject_cuda, .writes_strided = true};

const op op_rope = {.name = "rope",
                    .summary = "rotary position embedding, half-split",
                    .class = OP_CLASS_ELEMENTWISE,
                    .input_count = 3,
                    .output_count = 1,
                    .infer = infer,
                    .gradient = gradient,
                    .cost = cost,
                    .reference = reference,
                    .kernels = (const kernel *const[]){&rope_f32, &rope_low, &rope_cuda, NULL}};

value *build_rope(graph *g, value *x, rope_table table, bool inverse) {
    return graph_add_node(g, &op_rope, (value *[]){x, table.cos, table.sin}, 3,
                          &ATTR_INTEGER("inverse", inverse), 1);
}
