/* matmul_adamw_op.c - operands:
 *
 *   inputs    rate, step, A, B, then P times (weight, first, second), then L copies
 *   outputs   P times (weight, first, second), then L copies, all in place
 *
 * L is the attribute "low_copies", 0 or P. The other attributes are matmul's and adamw's. */
#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"
#include "ops/adamw/update.h"
#include "ops/kernel.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_adamw/matmul_adamw.h"
#include "ops/op_list.h"

enum { RATE, STEP, A, B, PARAMETERS };
enum { WEIGHT, FIRST, SECOND, PER_PARAMETER }; /* of inputs and of outputs */

static int low_count(const attributes *list) {
    const attribute *found = attribute_find(list, "low_copies");
    return found && found->kind == ATTRIBUTE_INTEGER ? (int)found->integer : 0;
}

static int parameter_count(int input_count, const attributes *list) {
    return (input_count - PARAMETERS - low_count(list)) / PER_PARAMETER;
}

static int count_outputs(const node *n) {
    return n->input_count > PARAMETERS ? n->input_count - PARAMETERS : 1;
}

static int inplace_input(const node *n, int output) {
    (void)n;
    return PARAMETERS + output;
}

/* The node as the product it begins with; its output is left out. */
static node product_of(const node *n) {
    node product = *n;
    product.op = &op_matmul;
    product.inputs = n->inputs + A;
    product.input_count = 2;
    product.output_count = 1;
    product.outputs = NULL;
    return product;
}

static dyno_status infer_parameters(const node *n, int parameters, const value_type *product) {
    int64_t rows = 0;
    for (int i = 0; i < n->input_count - PARAMETERS; i++) {
        bool is_copy = i >= parameters * PER_PARAMETER;
        int of = is_copy ? i - parameters * PER_PARAMETER : i / PER_PARAMETER;
        const value *v = n->inputs[PARAMETERS + i];
        const value *weight = n->inputs[PARAMETERS + of * PER_PARAMETER];
        if (v->shape.rank != 2 || v->shape.dim[1] != product->shape.dim[1] ||
            !shape_equal(&v->shape, &weight->shape))
            return dyno_fail(DYNO_INVALID,
                             "input %d is [%s]; its weight is [%s], rows of a gradient of [%s]",
                             PARAMETERS + i, shape_format(&v->shape).text,
                             shape_format(&weight->shape).text, shape_format(&product->shape).text);
        rows += !is_copy && i % PER_PARAMETER == WEIGHT ? v->shape.dim[0] : 0;
        if (v->type == DTYPE_U16 &&
            (low_count(&n->attributes) == 0 ||
             n->inputs[PARAMETERS + parameters * PER_PARAMETER + of]->type != DTYPE_BF16))
            return dyno_fail(DYNO_INVALID,
                             "the weight of parameter %d is u16, half of one, and there is no "
                             "copy in bf16 to be the other half",
                             of);
    }
    if (rows != product->shape.dim[0])
        return dyno_fail(DYNO_INVALID, "the weights have %lld rows, the gradient is [%s]",
                         (long long)rows, shape_format(&product->shape).text);
    return DYNO_OK;
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "low_copies", ATTRIBUTE_INTEGER));
    int low = low_count(&n->attributes);
    int parameters = parameter_count(n->input_count, &n->attributes);
    if (parameters < 1 || (low != 0 && low != parameters) ||
        n->input_count != PARAMETERS + parameters * PER_PARAMETER + low)
        return dyno_fail(DYNO_INVALID,
                         "%d inputs with %d low copies are not two scalars, two factors, three "
                         "values for each parameter, and a copy for each or for none",
                         n->input_count, low);
    RETURN_IF_FAILED(adamw_check(n, n->inputs[RATE], n->inputs[STEP], n->inputs[RATE]));
    node product = product_of(n);
    value_type gradient;
    RETURN_IF_FAILED(op_matmul.infer(&product, &gradient));
    if (gradient.shape.rank != 2)
        return dyno_fail(DYNO_INVALID, "the gradient is [%s], not a matrix",
                         shape_format(&gradient.shape).text);
    RETURN_IF_FAILED(infer_parameters(n, parameters, &gradient));
    for (int i = 0; i < n->output_count; i++) {
        const value *v = n->inputs[PARAMETERS + i];
        outputs[i] = (value_type){v->type, v->shape};
    }
    return DYNO_OK;
}

static int64_t elements_of(const node *n, int parameter) {
    return shape_elements(&n->outputs[parameter * PER_PARAMETER]->shape);
}

/* matmul's and adamw's. Low copies of whole weights are written and not read. */
static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    int parameters = parameter_count(n->input_count, &n->attributes);
    const shape *a = &n->inputs[A]->shape;
    bool ta = attribute_integer(&n->attributes, "transpose_a") != 0;
    for (int i = 0; i < parameters; i++)
        cost.flops += (2 * (double)a->dim[1 - ta] + 14) * (double)elements_of(n, i);
    for (int i = 0; i < low_count(&n->attributes); i++)
        if (n->inputs[PARAMETERS + i * PER_PARAMETER + WEIGHT]->type == DTYPE_F32)
            cost.bytes_read -= 2 * (double)elements_of(n, i);
    return cost;
}

/* Through the references of both ops. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    node product = product_of(n), many = *n;
    value_type type;
    if (op_matmul.infer(&product, &type) != DYNO_OK)
        return;
    value gradient = {.type = type.type, .shape = type.shape};
    product.outputs = (value *[]){&gradient};
    int64_t count = shape_elements(&type.shape);
    double *numbers = memory_allocate((size_t)count, sizeof *numbers);
    op_matmul.reference(&product, inputs + A, &numbers);
    for (int64_t i = 0; i < count && type.type == DTYPE_BF16; i++)
        numbers[i] = (double)dtype_bf16_to_f32(dtype_f32_to_bf16((float)numbers[i]));

    int parameters = parameter_count(n->input_count, &n->attributes);
    const double **all = memory_allocate((size_t)n->input_count * 2, sizeof *all);
    const double one = 1, *rows = numbers;
    int given = 0;
    all[given++] = inputs[RATE];
    all[given++] = inputs[STEP];
    all[given++] = &one;
    for (int i = 0; i < parameters; i++) {
        const double *const *of = inputs + PARAMETERS + i * PER_PARAMETER;
        all[given++] = of[WEIGHT];
        all[given++] = rows;
        all[given++] = of[FIRST];
        all[given++] = of[SECOND];
        rows += elements_of(n, i);
    }
    for (int i = PARAMETERS + parameters * PER_PARAMETER; i < n->input_count; i++)
        all[given++] = inputs[i];
    many.input_count = given;
    op_adamw_many.reference(&many, all, outputs);
    free(all);
    free(numbers);
}

/* What a launch knows of its parameters. */
typedef struct update_context {
    const kernel_args *args;
    adamw_step step;
    int parameters;
    bool has_copies;
    dtype gradient_type;
    int64_t columns;
} update_context;

static adamw_kept kept(const update_context *c, int parameter) {
    const tensor *out = c->args->outputs + parameter * PER_PARAMETER;
    adamw_kept to = {.weight = out[WEIGHT].data,
                     .weight_type = out[WEIGHT].type,
                     .first = out[FIRST].data,
                     .second = out[SECOND].data};
    if (c->has_copies) {
        const tensor *copy = &c->args->outputs[c->parameters * PER_PARAMETER + parameter];
        to.low = copy->data;
        to.low_type = copy->type;
    }
    return to;
}

/* Calls `act` on each parameter's share of a part of the gradient. `skipped` are rows of the part
 * that belong to parameters before. */
typedef void on_share(const update_context *c, const adamw_kept *to, adamw_rows at, int64_t skipped,
                      const void *with);

static void for_each_share(const update_context *c, const gemm_part *part, int64_t ld,
                           on_share *act, const void *with) {
    int64_t first = 0, end = part->row + part->rows;
    for (int i = 0; i < c->parameters && first < end; i++) {
        int64_t rows = c->args->outputs[i * PER_PARAMETER].shape.dim[0];
        int64_t from = part->row > first ? part->row : first;
        int64_t to = end < first + rows ? end : first + rows;
        if (from < to) {
            adamw_kept where = kept(c, i);
            adamw_rows at = {.start = (from - first) * c->columns + part->column,
                             .rows = to - from,
                             .columns = part->columns,
                             .stride = c->columns,
                             .gradient_stride = ld};
            act(c, &where, at, from - part->row, with);
        }
        first += rows;
    }
}

static void update_share(const update_context *c, const adamw_kept *to, adamw_rows at,
                         int64_t skipped, const void *numbers) {
    const char *gradient = numbers;
    gradient += skipped * at.gradient_stride * dtype_bytes(c->gradient_type);
    adamw_update_kept(&c->step, to, &at, c->gradient_type, gradient);
}

static void take(const void *context, const gemm_part *part, const void *numbers, int64_t ld) {
    for_each_share(context, part, ld, update_share, numbers);
}

static void ask_row(const void *array, int64_t start, int64_t count, int bytes) {
    enum { CACHE_LINE = 64 };
    uintptr_t from = (uintptr_t)array + (uintptr_t)(start * bytes);
    for (uintptr_t at = from / CACHE_LINE * CACHE_LINE; at < from + (uintptr_t)(count * bytes);
         at += CACHE_LINE)
        __builtin_prefetch((const void *)at, 1, 2);
}

static void ask_share(const update_context *c, const adamw_kept *to, adamw_rows at, int64_t skipped,
                      const void *with) {
    (void)c;
    (void)skipped;
    (void)with;
    for (int64_t i = 0; i < at.rows; i++, at.start += at.stride) {
        ask_row(to->weight, at.start, at.columns, dtype_bytes(to->weight_type));
        if (to->low)
            ask_row(to->low, at.start, at.columns, sizeof *to->low);
        ask_row(to->first, at.start, at.columns, sizeof *to->first);
        ask_row(to->second, at.start, at.columns, sizeof *to->second);
    }
}

static void ask(const void *context, const gemm_part *part) {
    for_each_share(context, part, 0, ask_share, NULL);
}

/* The product as gemm.h takes it; the taker's context is not there yet. */
static gemm_problem problem_of(const kernel_args *args) {
    static const gemm_taker taker = {.take = take, .ask = ask};
    const attribute *type = attribute_find(args->attributes, "type");
    const tensor *a = &args->inputs[A], *b = &args->inputs[B];
    bool ta = attribute_integer(args->attributes, "transpose_a") != 0;
    bool tb = attribute_integer(args->attributes, "transpose_b") != 0;
    shape s = SHAPE(a->shape.dim[ta], b->shape.dim[1 - tb]);
    tensor c = tensor_contiguous(NULL, type ? (dtype)type->integer : a->type, &s);
    kernel_args product = {.input_count = 2,
                           .output_count = 1,
                           .inputs = a,
                           .outputs = &c,
                           .attributes = args->attributes};
    gemm_problem p = matmul_gemm_problem(&product);
    p.locate = NULL;
    p.taker = &taker;
    return p;
}

static void run(const kernel_args *args) {
    static const float one = 1;
    tensor scale = tensor_contiguous((void *)(uintptr_t)&one, DTYPE_F32, &SHAPE_SCALAR);
    gemm_problem p = problem_of(args);
    update_context c = {.args = args,
                        .step = adamw_step_create(args->attributes, &args->inputs[RATE],
                                                  &args->inputs[STEP], &scale),
                        .parameters = parameter_count(args->input_count, args->attributes),
                        .has_copies = low_count(args->attributes) > 0,
                        .gradient_type = p.c_type,
                        .columns = p.n};
    gemm_taker taker = *p.taker;
    taker.context = &c;
    p.taker = &taker;
    gemm_run(&p, args->workspace);
}

static size_t workspace_bytes(const kernel_args *args) {
    gemm_problem p = problem_of(args);
    return gemm_workspace_bytes(&p);
}

static bool is_low(dtype type) { return type == DTYPE_BF16 || type == DTYPE_F16; }

static const char *reject(const kernel_args *args) {
    int parameters = parameter_count(args->input_count, args->attributes);
    for (int i = 0; i < args->input_count - PARAMETERS; i++) {
        const tensor *t = &args->inputs[PARAMETERS + i];
        bool is_copy = i >= parameters * PER_PARAMETER;
        if (!tensor_is_contiguous(t))
            return "parameters and moments must be dense";
        if (is_copy && !is_low(t->type))
            return "low copies must be bf16 or f16";
        if (!is_copy && t->type != DTYPE_F32 &&
            !(i % PER_PARAMETER == WEIGHT && t->type == DTYPE_U16))
            return "moments must be f32, weights f32 or u16";
    }
    gemm_problem p = problem_of(args);
    return gemm_reject(GEMM_PORTABLE, &p);
}

static const kernel matmul_adamw_parts = {.name = "matmul_adamw_parts",
                                          .backend = BACKEND_CPU,
                                          .reject = reject,
                                          .workspace_bytes = workspace_bytes,
                                          .run = run};

const op op_matmul_adamw = {.name = "matmul_adamw",
                            .summary = "a gradient's product and the AdamW update it is for, in "
                                       "place",
                            .class = OP_CLASS_MATMUL,
                            .input_count = OP_ANY_COUNT,
                            .output_count = OP_ANY_COUNT,
                            .count_outputs = count_outputs,
                            .infer = infer,
                            .cost = cost,
                            .reference = reference,
                            .inplace_input = inplace_input,
                            .kernels = (const kernel *const[]){&matmul_adamw_parts, NULL}};

value *build_matmul_adamw(graph *g, const node *product, const adamw_parameter *parameters,
                          int count, value *learning_rate, value *step,
                          const adamw_options *options) {
    value **inputs =
        memory_allocate((size_t)(PARAMETERS + count * (PER_PARAMETER + 1)), sizeof *inputs);
    int given = 0, low = 0, attribute_count = 0;
    inputs[given++] = learning_rate;
    inputs[given++] = step;
    inputs[given++] = product->inputs[0];
    inputs[given++] = product->inputs[1];
    for (int i = 0; i < count; i++) {
        inputs[given++] = parameters[i].weight;
        inputs[given++] = parameters[i].first_moment;
        inputs[given++] = parameters[i].second_moment;
    }
    for (; low < count && parameters[low].low_copy; low++)
        inputs[given++] = parameters[low].low_copy;
    attribute *items =
        memory_allocate((size_t)(product->attributes.count + ADAMW_ATTRIBUTES + 1), sizeof *items);
    for (; attribute_count < product->attributes.count; attribute_count++)
        items[attribute_count] = product->attributes.items[attribute_count];
    attribute_count += adamw_attributes(options, items + attribute_count);
    items[attribute_count++] = ATTR_INTEGER("low_copies", low);
    value *made = graph_add_node(g, &op_matmul_adamw, inputs, given, items, attribute_count);
    free(items);
    free(inputs);
    return made;
}
