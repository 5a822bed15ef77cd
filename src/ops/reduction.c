/* reduction.c - input and output are walked as one nest of loops in which the output stands
 * still (stride 0) along reduced dimensions. After collapsing, nearly every reduction is one of
 * two: rows [kept, reduced] or columns [reduced, kept]; the rest takes the general walk. */
#include "ops/reduction.h"

#include <math.h>

#include "base/threads.h"
#include "ops/reduction_splits.h"

enum {
    GRAIN_ELEMENTS = 8192,
    COLUMN_GRAIN = 64,     /* columns that a thread takes at least */
    COLUMN_BLOCK = 512,    /* columns reduced together, their results in the first cache */
    ROWS_PER_PARTIAL = 128 /* rows added in float before they go into the double total */
};

dyno_status reduction_infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "axes", ATTRIBUTE_LIST));
    const shape *axes = attribute_list(&n->attributes, "axes");
    shape s = n->inputs[0]->shape;
    for (int i = 0; i < axes->rank; i++) {
        int64_t axis = axes->dim[i];
        if (axis < 0 || axis >= s.rank || (i && axis <= axes->dim[i - 1]))
            return dyno_fail(DYNO_INVALID, "axes [%s] of a value of rank %d must rise from 0 to %d",
                             shape_format(axes).text, s.rank, s.rank - 1);
        s.dim[axis] = 1;
    }
    outputs[0] = (value_type){n->inputs[0]->type, s};
    return DYNO_OK;
}

op_cost reduction_cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    cost.flops = (double)shape_elements(&n->inputs[0]->shape);
    return cost;
}

int64_t reduction_length(const node *n) {
    return shape_elements(&n->inputs[0]->shape) / shape_elements(&n->outputs[0]->shape);
}

void reduction_reference(const node *n, const double *input, double *output, op_reduction kind) {
    const shape *from = &n->inputs[0]->shape, *to = &n->outputs[0]->shape;
    for (int64_t i = 0; i < shape_elements(to); i++)
        output[i] = kind == REDUCTION_MAX ? -INFINITY : 0;
    for (int64_t i = 0; i < shape_elements(from); i++) {
        int64_t left = i, place = 0, stride = 1;
        for (int d = from->rank - 1; d >= 0; d--) {
            if (to->dim[d] != 1)
                place += left % from->dim[d] * stride;
            left /= from->dim[d];
            stride *= to->dim[d];
        }
        if (kind == REDUCTION_MAX)
            output[place] = input[i] > output[place] || isnan(input[i]) ? input[i] : output[place];
        else
            output[place] += input[i];
    }
    for (int64_t i = 0; kind == REDUCTION_MEAN && i < shape_elements(to); i++)
        output[i] /= (double)reduction_length(n);
}

/* A sum over 32 lanes, in an order that depends on n alone. */
static float sum_row(int64_t n, const float *row) {
    enum { LANES = 32, PIECE = 4096 };
    double total = 0;
    for (int64_t start = 0; start < n; start += PIECE) {
        int64_t length = n - start < PIECE ? n - start : PIECE;
        float lane[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += row[start + i + j];
        for (int j = 0; i < length; i++, j++)
            lane[j] += row[start + i];
        for (int half = LANES / 2; half; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] += lane[j + half];
        total += lane[0];
    }
    return (float)total;
}

/* Lets a NaN through, as every framework does: they are looked for apart, so that the maximum is
 * one instruction. */
static float max_row(int64_t n, const float *row) {
    enum { LANES = 32 };
    float lane[LANES];
    int32_t has_nan[LANES] = {0};
    for (int j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float x = row[i + j];
            lane[j] = x > lane[j] ? x : lane[j];
            has_nan[j] |= x != x;
        }
    for (int j = 0; i < n; i++, j++) {
        lane[j] = row[i] > lane[j] ? row[i] : lane[j];
        has_nan[j] |= row[i] != row[i];
    }
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) {
            lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
            has_nan[j] |= has_nan[j + half];
        }
    return has_nan[0] ? NAN : lane[0];
}

typedef struct reduce_context {
    const float *in;
    float *out;
    tensor input, output; /* collapsed; the output has stride 0 where it is reduced */
    op_reduction kind;
    double scale; /* 1 / length for the mean */
} reduce_context;

static void reduce_rows(void *context, int64_t begin, int64_t end) {
    const reduce_context *c = context;
    int inner = c->input.shape.rank - 1;
    int64_t n = c->input.shape.dim[inner], stride = inner ? c->input.stride[0] : 0;
    for (int64_t i = begin; i < end; i++) {
        const float *row = c->in + i * stride;
        c->out[i] =
            c->kind == REDUCTION_MAX ? max_row(n, row) : (float)(sum_row(n, row) * c->scale);
    }
}

/* The sum of a block's columns over `rows` rows, each column in the order of its rows; four rows
 * at a time, so that sums are loaded and stored once for them. */
static void sum_rows_of_block(int64_t rows, int64_t stride, const float *restrict row,
                              int64_t width, float *restrict sum) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, row += 4 * stride)
        for (int64_t j = 0; j < width; j++)
            sum[j] =
                (((sum[j] + row[j]) + row[j + stride]) + row[j + 2 * stride]) + row[j + 3 * stride];
    for (; i < rows; i++, row += stride)
        for (int64_t j = 0; j < width; j++)
            sum[j] += row[j];
}

static void sum_column_block(const reduce_context *c, int64_t column, int64_t width) {
    int64_t rows = c->input.shape.dim[0], stride = c->input.stride[0];
    double total[COLUMN_BLOCK] = {0};
    for (int64_t start = 0; start < rows; start += ROWS_PER_PARTIAL) {
        float partial[COLUMN_BLOCK] = {0};
        sum_rows_of_block(rows - start < ROWS_PER_PARTIAL ? rows - start : ROWS_PER_PARTIAL, stride,
                          c->in + start * stride + column, width, partial);
        for (int64_t j = 0; j < width; j++)
            total[j] += partial[j];
    }
    for (int64_t j = 0; j < width; j++)
        c->out[column + j] = (float)(total[j] * c->scale);
}

/* The larger, or a NaN where one is. */
static inline float larger(float best, float x) { return x > best || x != x ? x : best; }

static void max_column_block(const reduce_context *c, int64_t column, int64_t width) {
    int64_t rows = c->input.shape.dim[0], stride = c->input.stride[0], i = 0;
    const float *row = c->in + column;
    float best[COLUMN_BLOCK];
    for (int j = 0; j < COLUMN_BLOCK; j++)
        best[j] = -INFINITY;
    for (; i + 4 <= rows; i += 4, row += 4 * stride)
        for (int64_t j = 0; j < width; j++)
            best[j] = larger(
                larger(larger(larger(best[j], row[j]), row[j + stride]), row[j + 2 * stride]),
                row[j + 3 * stride]);
    for (; i < rows; i++, row += stride)
        for (int64_t j = 0; j < width; j++)
            best[j] = larger(best[j], row[j]);
    for (int64_t j = 0; j < width; j++)
        c->out[column + j] = best[j];
}

static void reduce_columns(void *context, int64_t begin, int64_t end) {
    const reduce_context *c = context;
    for (int64_t column = begin; column < end; column += COLUMN_BLOCK) {
        int64_t width = end - column < COLUMN_BLOCK ? end - column : COLUMN_BLOCK;
        if (c->kind == REDUCTION_MAX)
            max_column_block(c, column, width);
        else
            sum_column_block(c, column, width);
    }
}

/* Output elements [begin, end), each a walk over all reduced dimensions. */
static void reduce_general(void *context, int64_t begin, int64_t end) {
    const reduce_context *c = context;
    const shape *s = &c->input.shape;
    int64_t length = 1;
    for (int d = 0; d < s->rank; d++)
        if (c->output.stride[d] == 0)
            length *= s->dim[d];
    for (int64_t i = begin; i < end; i++) {
        int64_t left = i, base = 0;
        for (int d = s->rank - 1; d >= 0; d--)
            if (c->output.stride[d] != 0) {
                base += left % s->dim[d] * c->input.stride[d];
                left /= s->dim[d];
            }
        double total = 0;
        float best = -INFINITY;
        for (int64_t k = 0; k < length; k++) {
            int64_t rest = k, offset = base;
            for (int d = s->rank - 1; d >= 0; d--)
                if (c->output.stride[d] == 0) {
                    offset += rest % s->dim[d] * c->input.stride[d];
                    rest /= s->dim[d];
                }
            float x = c->in[offset];
            total += x;
            best = best >= x || best != best ? best : x;
        }
        c->out[i] = c->kind == REDUCTION_MAX ? best : (float)(total * c->scale);
    }
}

void reduction_run_f32(const kernel_args *args, op_reduction kind) {
    tensor pair[2] = {args->inputs[0], args->outputs[0]};
    int64_t results = shape_elements(&pair[1].shape);
    int64_t length = shape_elements(&pair[0].shape) / results;
    for (int d = 0; d < pair[0].shape.rank; d++)
        if (pair[1].shape.dim[d] == 1)
            pair[1].stride[d] = 0;
    pair[1].shape = pair[0].shape;
    tensor_collapse(pair, 2);
    reduce_context c = {.in = args->inputs[0].data,
                        .out = args->outputs[0].data,
                        .input = pair[0],
                        .output = pair[1],
                        .kind = kind,
                        .scale = kind == REDUCTION_MEAN ? 1.0 / (double)length : 1.0};
    int rank = pair[0].shape.rank, inner = rank - 1;
    bool inner_reduced = pair[1].stride[inner] == 0 || results == 1;
    bool dense = pair[0].stride[inner] == 1;
    int64_t grain = length >= GRAIN_ELEMENTS ? 1 : GRAIN_ELEMENTS / length;
    if (dense && inner_reduced && (rank == 1 || (rank == 2 && pair[1].stride[0] != 0)))
        threads_for(results, grain, reduce_rows, &c);
    else if (dense && rank == 2 && !inner_reduced && pair[1].stride[0] == 0)
        threads_for(results, COLUMN_GRAIN, reduce_columns, &c);
    else
        threads_for(results, grain, reduce_general, &c);
}

const char *reduction_reject_cuda(const kernel_args *args) {
    dtype type = args->inputs[0].type;
    return dtype_is_f32_or_low(type) ? NULL : "reduces f32, bf16 and f16 only";
}

size_t reduction_workspace_cuda(const kernel_args *args) {
    int64_t results = shape_elements(&args->outputs[0].shape);
    int64_t splits =
        reduction_most_splits(results, shape_elements(&args->inputs[0].shape) / results);
    return splits > 1 ? (size_t)(splits * results) * sizeof(float) : 0;
}

value *reduction_build(graph *g, const op *kind, value *a, const shape *axes) {
    return graph_add_node(g, kind, &a, 1, &ATTR_LIST("axes", *axes), 1);
}
