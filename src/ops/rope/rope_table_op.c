#include <math.h>

#include "graph/op.h"
#include "ops/kernel.h"
#include "ops/rope/rope.h"

static dyno_status infer(const node *n, value_type *outputs) {
    RETURN_IF_FAILED(node_require_attribute(n, "length", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "head_dim", ATTRIBUTE_INTEGER));
    RETURN_IF_FAILED(node_require_attribute(n, "theta", ATTRIBUTE_REAL));
    int64_t length = attribute_integer(&n->attributes, "length");
    int64_t head_dim = attribute_integer(&n->attributes, "head_dim");
    if (length < 1 || head_dim < 2 || head_dim % 2)
        return dyno_fail(DYNO_INVALID,
                         "length %lld and head size %lld: the first must be at least "
                         "1, the second even",
                         (long long)length, (long long)head_dim);
    outputs[0] = outputs[1] = (value_type){DTYPE_F32, SHAPE(length, head_dim / 2)};
    return DYNO_OK;
}

static double angle(const attributes *list, int64_t i, int64_t half) {
    double position = (double)(i / half), pair = (double)(i % half);
    return position * pow(attribute_real(list, "theta"), -pair / (double)half);
}

static void reference(const node *n, const double *const *inputs, double *const *outputs) {
    (void)inputs;
    const shape *s = &n->outputs[0]->shape;
    for (int64_t i = 0; i < shape_elements(s); i++) {
        outputs[0][i] = cos(angle(&n->attributes, i, s->dim[1]));
        outputs[1][i] = sin(angle(&n->attributes, i, s->dim[1]));
    }
}

/* In double: an angle of thousands of radians needs all its digits. The frequencies are computed
 * once per column, not once per element. */
static dyno_status run(const kernel_args *args) {
    const shape *s = &args->outputs[0].shape;
    float *cosine = args->outputs[0].data, *sine = args->outputs[1].data;
    for (int64_t j = 0; j < s->dim[1]; j++) {
        double frequency =
            pow(attribute_real(args->attributes, "theta"), -(double)j / (double)s->dim[1]);
        for (int64_t t = 0; t < s->dim[0]; t++) {
            cosine[t * s->dim[1] + j] = (float)cos((double)t * frequency);
            sine[t * s->dim[1] + j] = (float)sin((double)t * frequency);
        }
    }
    return DYNO_OK;
}

static op_cost cost(const node *n) { return op_cost_streaming(n, 4); }

static const kernel rope_table_f64 = {.name = "rope_table_f64", .target = TARGET_CPU, .run = run};

static const kernel rope_table_cuda = {.name = "rope_table_cuda", .target = TARGET_CUDA};

const op op_rope_table = {.name = "rope_table",
                          .summary = "cos and sin of RoPE's angles",
                          .class = OP_CLASS_ELEMENTWISE,
                          .input_count = 0,
                          .output_count = 2,
                          .infer = infer,
                          .cost = cost,
                          .reference = reference,
                          .kernels =
                              (const kernel *const[]){&rope_table_f64, &rope_table_cuda, NULL}};

rope_table build_rope_table(graph *g, int64_t length, int64_t head_dim, double theta) {
    value *first =
        graph_add_node(g, &op_rope_table, NULL, 0,
                       (attribute[]){ATTR_INTEGER("length", length),
                                     ATTR_INTEGER("head_dim", head_dim), ATTR_REAL("theta", theta)},
                       3);
    return (rope_table){first, first->producer->outputs[1]};
}
