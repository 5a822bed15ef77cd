/* adamw_many_op.c - operands:
 *
 *   inputs    rate, step, scale, then P times (weight, gradient, first, second), then L copies
 *   outputs   P times (weight, first, second), then L copies, all in place
 *
 * L is the attribute "low_copies"; copy i belongs to parameter i. The types of its operands say how
 * a parameter is stored: a weight in u16 is the rest of one whose high half is its copy.
 *
 * All parameters are divided into blocks of one length, which threads share, so that load is
 * balanced between a norm's 768 weights and an embedding's eight million. All kinds of parameters
 * are updated by the same arithmetic and get the same bits. */
#include "ops/adamw_many/adamw_many.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"
#include "graph/op.h"
#include "ops/adamw/split_weight.h"
#include "ops/adamw/update.h"
#include "ops/cast/convert.h"
#include "ops/kernel.h"

enum { RATE, STEP, SCALE, SCALARS };
enum { WEIGHT, GRADIENT, FIRST, SECOND, PER_PARAMETER }; /* inputs */
enum { RESULTS = 3 };                                    /* outputs of a parameter */

/* Elements that are widened, updated, and rounded to their low copy while they are in L1. */
enum { BLOCK = 2048, BLOCKS_PER_GRAIN = 8 };

static int low_count(const attributes *list) {
    const attribute *found = attribute_find(list, "low_copies");
    return found && found->kind == ATTRIBUTE_INTEGER ? (int)found->integer : 0;
}

static int parameter_count(int input_count, const attributes *list) {
    return (input_count - SCALARS - low_count(list)) / PER_PARAMETER;
}

static int count_outputs(const node *n) {
    int low = low_count(&n->attributes);
    int count = parameter_count(n->input_count, &n->attributes) * RESULTS + low;
    return low >= 0 && count >= 1 ? count : 1;
}

static int inplace_input(const node *n, int output) {
    static const int of_result[RESULTS] = {WEIGHT, FIRST, SECOND};
    int parameters = parameter_count(n->input_count, &n->attributes);
    int low = output - parameters * RESULTS;
    return low >= 0 ? SCALARS + parameters * PER_PARAMETER + low
                    : SCALARS + output / RESULTS * PER_PARAMETER + of_result[output % RESULTS];
}

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "low_copies", ATTRIBUTE_INTEGER));
    int64_t low = attribute_integer(&n->attributes, "low_copies");
    int64_t rest = n->input_count - SCALARS - low, parameters = rest / PER_PARAMETER;
    if (low < 0 || rest < PER_PARAMETER || rest % PER_PARAMETER || low > parameters)
        return dyno_fail(DYNO_INVALID,
                         "%d inputs with %lld low copies are not three scalars, four values for "
                         "each parameter, and a copy for some",
                         n->input_count, (long long)low);
    RETURN_IF_FAILED(adamw_check(n, n->inputs[RATE], n->inputs[STEP], n->inputs[SCALE]));
    for (int64_t i = 0; i < parameters; i++)
        if (n->inputs[SCALARS + i * PER_PARAMETER + WEIGHT]->type == DTYPE_U16 &&
            (i >= low || !dtype_table[n->inputs[SCALARS + rest + i]->type].is_f32_upper_half))
            return dyno_fail(DYNO_INVALID,
                             "the weight of parameter %lld is u16, half of one, and there is no "
                             "copy in bf16 to be the other half",
                             (long long)i);
    for (int i = SCALARS; i < n->input_count; i++) {
        int64_t at = i - SCALARS, of = at < rest ? at / PER_PARAMETER : at - rest;
        const value *v = n->inputs[i], *weight = n->inputs[SCALARS + of * PER_PARAMETER];
        if (!shape_equal(&v->shape, &weight->shape))
            return dyno_fail(DYNO_INVALID, "input %d is [%s], its weight [%s]", i,
                             shape_format(&v->shape).text, shape_format(&weight->shape).text);
    }
    for (int i = 0; i < n->output_count; i++) {
        const value *v = n->inputs[inplace_input(n, i)];
        outputs[i] = (value_type){v->type, v->shape};
    }
    return DYNO_OK;
}

/* 14 per parameter, as adamw. Low copies of whole weights are written and not read. */
static op_cost cost(const node *n) {
    op_cost cost = op_cost_streaming(n, 0);
    int parameters = parameter_count(n->input_count, &n->attributes);
    for (int i = 0; i < parameters; i++)
        cost.flops += 14 * (double)shape_elements(&n->outputs[i * RESULTS]->shape);
    const value *const *copies =
        (const value *const *)n->inputs + SCALARS + parameters * PER_PARAMETER;
    for (int i = 0; i < low_count(&n->attributes); i++)
        if (n->inputs[SCALARS + i * PER_PARAMETER + WEIGHT]->type == DTYPE_F32)
            cost.bytes_read -=
                (double)value_stored_elements(copies[i]) * dtype_bytes(copies[i]->type);
    return cost;
}

static uint16_t round_to(dtype low, float weight) {
    return dtype_table[low].is_f32_upper_half ? split_weight_high(weight)
                                              : dtype_f32_to_f16(weight);
}

/* A split weight in the place of its rest: joined before the update, split after it. */
static void join_reference(int64_t count, const double *high, const double *rest, double *joined) {
    for (int64_t i = 0; i < count; i++)
        joined[i] = (double)split_weight_join(dtype_f32_to_bf16((float)high[i]), (uint16_t)rest[i]);
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    int parameters = parameter_count(n->input_count, &n->attributes);
    int low = low_count(&n->attributes);
    for (int i = 0; i < parameters; i++) {
        const double *const *of = inputs + SCALARS + i * PER_PARAMETER;
        double *weight = outputs[i * RESULTS], *copy = outputs[parameters * RESULTS + i];
        int64_t count = shape_elements(&n->outputs[i * RESULTS]->shape);
        bool is_split = n->outputs[i * RESULTS]->type == DTYPE_U16;
        double *joined = memory_allocate((size_t)count, sizeof *joined);
        if (is_split)
            join_reference(count, inputs[SCALARS + parameters * PER_PARAMETER + i], of[WEIGHT],
                           joined);
        const double *state[] = {is_split ? joined : of[WEIGHT], of[GRADIENT], of[FIRST],
                                 of[SECOND]};
        adamw_update_reference(n, inputs[RATE][0], inputs[STEP][0], inputs[SCALE][0], count, state,
                               outputs + i * RESULTS);
        for (int64_t j = 0; i < low && j < count; j++) {
            dtype type = n->outputs[parameters * RESULTS + i]->type;
            float held = (float)weight[j]; /* what the kernel rounds has been rounded to f32 */
            uint16_t rounded = round_to(type, held);
            copy[j] = dtype_load(type, &rounded, 0);
            if (is_split)
                weight[j] = split_weight_rest(held);
        }
        free(joined);
    }
}

typedef struct many_context {
    adamw_step step;
    const kernel_args *args;
    int parameters, low;
    int64_t *first_block; /* of each parameter, and the number of all at the end */
} many_context;

static int64_t blocks_of(const tensor *t) {
    return (shape_elements(&t->shape) + BLOCK - 1) / BLOCK;
}

static void round_block(dtype low, int64_t count, const float *restrict weight,
                        uint16_t *restrict copy) {
    if (!dtype_table[low].is_f32_upper_half)
        convert_f32_to_low(low, count, weight, copy);
    else
        for (int64_t i = 0; i < count; i++)
            copy[i] = split_weight_high(weight[i]);
}

/* Split weights are joined, updated and split again in one loop. */
static inline void update_split_run(const adamw_step *u, int64_t count, dtype type,
                                    const void *gradient, uint16_t *restrict high,
                                    uint16_t *restrict rest, float *restrict first,
                                    float *restrict second) {
    const float *restrict wide = gradient;
    const uint16_t *restrict low = gradient;
    for (int64_t i = 0; i < count; i++) {
        float g = type == DTYPE_F32 ? wide[i] : float_from_bits((uint32_t)low[i] << 16);
        float w = split_weight_join(high[i], rest[i]);
        w = adamw_element(u, g, w, &first[i], &second[i]);
        high[i] = split_weight_high(w);
        rest[i] = split_weight_rest(w);
    }
}

static inline __attribute__((always_inline)) void
update_split(const adamw_step *step, int64_t count, dtype type, const void *gradient,
             uint16_t *restrict high, uint16_t *restrict rest, float *restrict first,
             float *restrict second) {
    const adamw_step u = *step;
    const int bytes = type == DTYPE_F32 ? 4 : 2;
    int64_t i = 0;
    for (; i + ADAMW_CHUNK <= count; i += ADAMW_CHUNK) {
        adamw_ask(gradient, i, bytes);
        adamw_ask(high, i, sizeof *high);
        adamw_ask(rest, i, sizeof *rest);
        adamw_ask(first, i, sizeof *first);
        adamw_ask(second, i, sizeof *second);
        update_split_run(&u, ADAMW_CHUNK, type, (const char *)gradient + i * bytes, high + i,
                         rest + i, first + i, second + i);
    }
    update_split_run(&u, count - i, type, (const char *)gradient + i * bytes, high + i, rest + i,
                     first + i, second + i);
}

static void update_block(const many_context *c, int parameter, int64_t block) {
    const tensor *gradient = &c->args->inputs[SCALARS + parameter * PER_PARAMETER + GRADIENT];
    const tensor *out = c->args->outputs + parameter * RESULTS;
    const tensor *copy = &c->args->outputs[c->parameters * RESULTS + parameter];
    int64_t start = block * BLOCK, left = shape_elements(&out[0].shape) - start;
    int64_t count = left < BLOCK ? left : BLOCK;
    uint16_t *low = parameter < c->low ? (uint16_t *)copy->data + start : NULL;
    float *first = (float *)out[1].data + start, *second = (float *)out[2].data + start;
    const void *g = (const char *)gradient->data + start * dtype_bytes(gradient->type);
    float wide_gradient[BLOCK];
    if (gradient->type == DTYPE_F16 || (gradient->type == DTYPE_BF16 && out[0].type == DTYPE_F32)) {
        convert_low_to_f32(gradient->type, count, g, wide_gradient);
        g = wide_gradient;
    }
    if (out[0].type == DTYPE_U16) {
        uint16_t *rest = (uint16_t *)out[0].data + start;
        if (gradient->type == DTYPE_BF16)
            update_split(&c->step, count, DTYPE_BF16, g, low, rest, first, second);
        else
            update_split(&c->step, count, DTYPE_F32, g, low, rest, first, second);
        return;
    }
    float *weight = (float *)out[0].data + start;
    adamw_update(&c->step, count, g, weight, first, second);
    if (low)
        round_block(copy->type, count, weight, low);
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
    const many_context *c = context;
    int parameter = 0;
    for (int64_t block = begin; block < end; block++) {
        while (block >= c->first_block[parameter + 1])
            parameter++;
        update_block(c, parameter, block - c->first_block[parameter]);
    }
}

static dyno_status run(const kernel_args *args) {
    many_context c = {.step = adamw_step_create(args->attributes, &args->inputs[RATE],
                                                &args->inputs[STEP], &args->inputs[SCALE]),
                      .args = args,
                      .parameters = parameter_count(args->input_count, args->attributes),
                      .low = low_count(args->attributes),
                      .first_block = args->workspace};
    c.first_block[0] = 0;
    for (int i = 0; i < c.parameters; i++)
        c.first_block[i + 1] = c.first_block[i] + blocks_of(&args->outputs[i * RESULTS]);
    if (!c.step.is_skipped)
        threads_for(c.first_block[c.parameters], BLOCKS_PER_GRAIN, run_blocks, &c);
    return DYNO_OK;
}

static size_t workspace_bytes(const kernel_args *args) {
    return (size_t)(parameter_count(args->input_count, args->attributes) + 1) * sizeof(int64_t);
}

static const char *reject(const kernel_args *args) {
    int copies = parameter_count(args->input_count, args->attributes) * PER_PARAMETER;
    for (int i = 0; i < args->input_count - SCALARS; i++) {
        const tensor *t = &args->inputs[SCALARS + i];
        int operand = i < copies ? i % PER_PARAMETER : PER_PARAMETER;
        if (!tensor_is_contiguous(t))
            return "parameters, gradients and moments must be dense";
        if (operand == PER_PARAMETER && !dtype_is_low(t->type))
            return "low copies must be bf16 or f16";
        if (operand < PER_PARAMETER && t->type != DTYPE_F32 &&
            !(operand == GRADIENT && dtype_is_low(t->type)) &&
            !(operand == WEIGHT && t->type == DTYPE_U16))
            return "moments must be f32, weights f32 or u16, gradients f32, bf16 or f16";
    }
    return args->inputs[SCALE].type == DTYPE_F32 ? NULL : "the gradient's scale must be f32";
}

static const kernel adamw_many_f32 = {.name = "adamw_many_blocks",
                                      .target = TARGET_CPU,
                                      .reject = reject,
                                      .workspace_bytes = workspace_bytes,
                                      .run = run};

static const kernel adamw_many_cuda = {
    .name = "adamw_many_cuda", .target = TARGET_CUDA, .reject = reject};

const op op_adamw_many = {.name = "adamw_many",
                          .summary = "AdamW updates of many parameters and their low copies, "
                                     "in place",
                          .class = OP_CLASS_OPTIMIZER,
                          .input_count = OP_ANY_COUNT,
                          .output_count = OP_ANY_COUNT,
                          .count_outputs = count_outputs,
                          .infer = infer,
                          .cost = cost,
                          .reference = reference,
                          .inplace_input = inplace_input,
                          .kernels =
                              (const kernel *const[]){&adamw_many_f32, &adamw_many_cuda, NULL}};

value *build_adamw_many(graph *g, const adamw_parameter *parameters, int count,
                        value *learning_rate, value *step, value *gradient_scale,
                        const adamw_options *options) {
    value **inputs =
        memory_allocate((size_t)(SCALARS + count * (PER_PARAMETER + 1)), sizeof *inputs);
    int given = 0, low = 0;
    inputs[given++] = learning_rate;
    inputs[given++] = step;
    inputs[given++] = gradient_scale;
    for (int i = 0; i < count; i++) {
        inputs[given++] = parameters[i].weight;
        inputs[given++] = parameters[i].gradient;
        inputs[given++] = parameters[i].first_moment;
        inputs[given++] = parameters[i].second_moment;
    }
    for (; low < count && parameters[low].low_copy; low++)
        inputs[given++] = parameters[low].low_copy;
    attribute items[ADAMW_ATTRIBUTES + 1];
    int attribute_count = adamw_attributes(options, items);
    items[attribute_count++] = ATTR_INTEGER("low_copies", low);
    value *made = graph_add_node(g, &op_adamw_many, inputs, given, items, attribute_count);
    free(inputs);
    return made;
}
