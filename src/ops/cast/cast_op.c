#include "ops/cast/cast.h"

#include "graph/op.h"
#include "ops/cast/convert.h"
#include "ops/elementwise.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "type", ATTRIBUTE_INTEGER));
    int64_t type = attribute_integer(&n->attributes, "type");
    if (type < 0 || type >= DTYPE_COUNT)
        return dyno_fail(DYNO_INVALID, "there is no element type number %lld", (long long)type);
    outputs[0] = (value_type){(dtype)type, n->inputs[0]->shape};
    return DYNO_OK;
}

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    if (wanted[0] && dtype_is_float(n->outputs[0]->type))
        /* dy may come in f32 whatever the result's type: sums of gradients do. */
        dx[0] =
            dy[0]->type == n->inputs[0]->type ? dy[0] : build_cast(g, dy[0], n->inputs[0]->type);
}

/* What the result's type can hold of each number. */
static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    dtype type = n->outputs[0]->type;
    for (int64_t i = 0; i < shape_elements(&n->outputs[0]->shape); i++) {
        double held = 0;
        dtype_store(type, &held, 0, inputs[0][i]);
        outputs[0][i] = dtype_load(type, &held, 0);
    }
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 0); }

ELEMENTWISE_LOOP_1(cast_f32_to_bf16, uint16_t, float, bf16_from_f32(a))
ELEMENTWISE_LOOP_1(cast_bf16_to_f32, float, uint16_t, float_from_bits((uint32_t)a << 16))
ELEMENTWISE_LOOP_1(cast_bool_to_f32, float, uint8_t, a)

#define REJECT_UNLESS(NAME, FROM, TO)                                                              \
    static const char *NAME##_reject(const kernel_args *args) {                                    \
        return args->inputs[0].type == FROM && args->outputs[0].type == TO                         \
                   ? NULL                                                                          \
                   : "another pair of types";                                                      \
    }
REJECT_UNLESS(f32_to_bf16, DTYPE_F32, DTYPE_BF16)
REJECT_UNLESS(bf16_to_f32, DTYPE_BF16, DTYPE_F32)
REJECT_UNLESS(f32_to_f16, DTYPE_F32, DTYPE_F16)
REJECT_UNLESS(f16_to_f32, DTYPE_F16, DTYPE_F32)
REJECT_UNLESS(bool_to_f32, DTYPE_BOOL, DTYPE_F32)

/* Any pair of types and any strides, one element at a time. */
static dyno_status cast_any_run(const kernel_args *args) {
    tensor in = args->inputs[0], out = args->outputs[0];
    const shape *s = &out.shape;
    for (int64_t i = 0; i < shape_elements(s); i++) {
        int64_t left = i, source = 0;
        for (int d = s->rank - 1; d >= 0; d--) {
            source += left % s->dim[d] * in.stride[d];
            left /= s->dim[d];
        }
        dtype_store(out.type, out.data, i, dtype_load(in.type, in.data, source));
    }
    return DYNO_OK;
}

static const kernel f32_to_bf16 = {.name = "cast_f32_to_bf16",
                                   .target = TARGET_CPU,
                                   .reject = f32_to_bf16_reject,
                                   .run = cast_f32_to_bf16_run};
static const kernel bf16_to_f32 = {.name = "cast_bf16_to_f32",
                                   .target = TARGET_CPU,
                                   .reject = bf16_to_f32_reject,
                                   .run = cast_bf16_to_f32_run};
static const kernel f32_to_f16 = {.name = "cast_f32_to_f16",
                                  .target = TARGET_CPU,
                                  .reject = f32_to_f16_reject,
                                  .run = convert_run_f32_to_f16};
static const kernel f16_to_f32 = {.name = "cast_f16_to_f32",
                                  .target = TARGET_CPU,
                                  .reject = f16_to_f32_reject,
                                  .run = convert_run_f16_to_f32};
static const kernel bool_to_f32 = {.name = "cast_bool_to_f32",
                                   .target = TARGET_CPU,
                                   .reject = bool_to_f32_reject,
                                   .run = cast_bool_to_f32_run};
static const kernel any = {.name = "cast_any", .target = TARGET_CPU, .run = cast_any_run};

const op op_cast = {.name = "cast",
                    .summary = "the same numbers in another element type",
                    .class = OP_CLASS_COPY,
                    .input_count = 1,
                    .output_count = 1,
                    .infer = infer,
                    .gradient = gradient,
                    .cost = cost,
                    .reference = reference,
                    .expression = "a",
                    .precision = OP_PRECISION_ANY,
                    .kernels = (const kernel *const[]){&f32_to_bf16, &bf16_to_f32, &f32_to_f16,
                                                       &f16_to_f32, &bool_to_f32, &any, NULL}};

value *build_cast(graph *g, value *a, dtype type) {
    return graph_add_node(g, &op_cast, &a, 1, &ATTR_INTEGER("type", (int64_t)type), 1);
}
