/* elementwise.c - walking operands of any strides, one contiguous run of output at a time. */
#include "ops/elementwise.h"

#include "base/threads.h"

/* Below this many elements a thread costs more than it brings. */
enum { GRAIN_ELEMENTS = 8192 };

typedef struct walk {
    tensor operand[1 + ELEMENTWISE_MAX_INPUTS]; /* the output, then the inputs; collapsed */
    int count;
    double s;
    elementwise_row *row;
} walk;

static void run_row(const walk *w, const int64_t *offset, int64_t skip, int64_t n) {
    const void *in[ELEMENTWISE_MAX_INPUTS] = {0};
    int64_t stride[ELEMENTWISE_MAX_INPUTS] = {0};
    int inner = w->operand[0].shape.rank - 1;
    const tensor *out = &w->operand[0];
    for (int i = 1; i < w->count; i++) {
        const tensor *t = &w->operand[i];
        stride[i - 1] = t->stride[inner];
        in[i - 1] =
            (const char *)t->data + (offset[i] + skip * t->stride[inner]) * dtype_bytes(t->type);
    }
    w->row(n, (char *)out->data + (offset[0] + skip) * dtype_bytes(out->type), in, stride, w->s);
}

/* Rows [begin, end) of the dimensions outside the innermost. */
static void run_rows(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    const shape *s = &w->operand[0].shape;
    int outer = s->rank - 1;
    int64_t index[SHAPE_MAX_RANK], left = begin, offset[1 + ELEMENTWISE_MAX_INPUTS] = {0};
    for (int d = outer - 1; d >= 0; d--) {
        index[d] = left % s->dim[d];
        left /= s->dim[d];
        for (int i = 0; i < w->count; i++)
            offset[i] += index[d] * w->operand[i].stride[d];
    }
    for (int64_t row = begin; row < end; row++) {
        run_row(w, offset, 0, s->dim[outer]);
        for (int d = outer - 1; d >= 0; d--) {
            bool wraps = ++index[d] == s->dim[d];
            for (int i = 0; i < w->count; i++)
                offset[i] += w->operand[i].stride[d] * (wraps ? 1 - s->dim[d] : 1);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
}

static void run_elements(void *context, int64_t begin, int64_t end) {
    const int64_t offset[1 + ELEMENTWISE_MAX_INPUTS] = {0};
    run_row(context, offset, begin, end - begin);
}

/* Rows are written side by side. Of a strided output whose last dimension was of size 1, and so is
 * gone, each element is a row. */
static void separate_elements(walk *w) {
    int rank = w->operand[0].shape.rank;
    if (w->operand[0].stride[rank - 1] == 1 || w->operand[0].shape.dim[rank - 1] == 1)
        return;
    for (int i = 0; i < w->count; i++) {
        w->operand[i].shape.dim[rank] = 1;
        w->operand[i].stride[rank] = 1;
        w->operand[i].shape.rank = rank + 1;
    }
}

dyno_status elementwise_run(const kernel_args *args, elementwise_row *row) {
    walk w = {.count = 1 + args->input_count, .row = row};
    const attribute *s = attribute_find(args->attributes, "s");
    w.s = s ? s->real : 0;
    w.operand[0] = args->outputs[0];
    for (int i = 0; i < args->input_count; i++)
        w.operand[1 + i] = args->inputs[i];
    tensor_collapse(w.operand, w.count);
    separate_elements(&w);
    const shape *collapsed = &w.operand[0].shape;
    int64_t inner = collapsed->dim[collapsed->rank - 1];
    if (collapsed->rank == 1) {
        threads_for(inner, GRAIN_ELEMENTS, run_elements, &w);
        return DYNO_OK;
    }
    int64_t grain = inner >= GRAIN_ELEMENTS ? 1 : GRAIN_ELEMENTS / inner;
    threads_for(shape_elements(collapsed) / inner, grain, run_rows, &w);
    return DYNO_OK;
}

static dyno_status require_alike(const node *n, int first) {
    for (int i = first + 1; i < n->input_count; i++) {
        const value *a = n->inputs[first], *b = n->inputs[i];
        if (a->type != b->type || !shape_equal(&a->shape, &b->shape))
            return dyno_fail(DYNO_INVALID,
                             "input %d is %s[%s] and input %d is %s[%s]; they must be alike", first,
                             dtype_name(a->type), shape_format(&a->shape).text, i,
                             dtype_name(b->type), shape_format(&b->shape).text);
    }
    return DYNO_OK;
}

dyno_status elementwise_infer_same(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(require_alike(n, 0));
    outputs[0] = (value_type){n->inputs[0]->type, n->inputs[0]->shape};
    return DYNO_OK;
}

dyno_status elementwise_infer_same_with_scalar(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "s", ATTRIBUTE_REAL));
    return elementwise_infer_same(n, outputs);
}

dyno_status elementwise_infer_compare(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(require_alike(n, 0));
    outputs[0] = (value_type){DTYPE_BOOL, n->inputs[0]->shape};
    return DYNO_OK;
}

dyno_status elementwise_infer_select(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(require_alike(n, 1));
    const value *mask = n->inputs[0];
    if (mask->type != DTYPE_BOOL || !shape_equal(&mask->shape, &n->inputs[1]->shape))
        return dyno_fail(DYNO_INVALID, "the mask is %s[%s]; it must be bool[%s]",
                         dtype_name(mask->type), shape_format(&mask->shape).text,
                         shape_format(&n->inputs[1]->shape).text);
    outputs[0] = (value_type){n->inputs[1]->type, n->inputs[1]->shape};
    return DYNO_OK;
}

void elementwise_reference(const node *n, const double *const *inputs, double *output,
                           elementwise_scalar *scalar) {
    const attribute *s = attribute_find(&n->attributes, "s");
    int64_t elements = shape_elements(&n->outputs[0]->shape);
    for (int64_t i = 0; i < elements; i++)
        output[i] = scalar(inputs[0][i], n->input_count > 1 ? inputs[1][i] : 0,
                           n->input_count > 2 ? inputs[2][i] : 0, s ? s->real : 0);
}

value *elementwise_build(graph *g, const op *kind, value *const *inputs, int count) {
    return graph_add_node(g, kind, inputs, count, NULL, 0);
}

value *elementwise_build_scalar(graph *g, const op *kind, value *a, double s) {
    return graph_add_node(g, kind, &a, 1, &ATTR_REAL("s", s), 1);
}
