/* op.h - what an operation knows about itself. One constant of this type per op, in the op's
 * folder under src/ops; src/ops/op_list.c lists them all. */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include "graph/graph.h"
#include "tensor/tensor.h"

struct kernel; /* ops/kernel.h */

/* Groups ops in breakdowns: where did the time go? */
typedef enum op_class {
    OP_CLASS_MATMUL,
    OP_CLASS_ELEMENTWISE,
    OP_CLASS_REDUCTION,
    OP_CLASS_COPY, /* moves or reinterprets data, computes nothing */
    OP_CLASS_GATHER,
    OP_CLASS_LOSS,
    OP_CLASS_OPTIMIZER,
    OP_CLASS_ATTENTION,
    OP_CLASS_COUNT
} op_class;

const char *op_class_name(op_class c);

/* What running a node once costs at the least: each operand read once, each result written
 * once. The one source of FLOPs for every report. */
typedef struct op_cost {
    double flops;
    double bytes_read, bytes_written;
} op_cost;

typedef struct value_type {
    dtype type;
    shape shape;
} value_type;

/* OP_MAX_OUTPUTS is of ops whose number of outputs is fixed. */
enum { OP_MAX_OUTPUTS = 3, OP_ANY_COUNT = -1 };

struct op {
    const char *name;
    const char *summary; /* one line for `dyno list ops` */
    op_class class;
    int input_count;     /* OP_ANY_COUNT: one or more */
    int optional_inputs; /* so many more may follow, all of them or none */
    int output_count;    /* OP_ANY_COUNT: what count_outputs says */

    /* For ops whose number of outputs follows from inputs and attributes; at least 1. Must bear
     * nodes that the shape rule will refuse. NULL for all others. */
    int (*count_outputs)(const node *n);

    /* Shape rule: given inputs and attributes, fills the outputs' types or fails saying which
     * rule is broken. It is also what the verifier checks a node against. */
    dyno_status (*infer)(const node *n, value_type *outputs);

    /* Gradient rule: appends nodes that compute the gradient of each wanted input into
     * input_gradients[i]. output_gradients[i] is NULL where nothing depends on output i.
     * NULL: not differentiable, gradients stop here. */
    void (*gradient)(graph *g, const node *n, value *const *output_gradients, const bool *wanted,
                     value **input_gradients);

    op_cost (*cost)(const node *n);

    /* Naive, in double, never optimised: what every kernel is tested against. Operands are
     * dense arrays in row-major order; bool and integers are held as doubles too. */
    void (*reference)(const node *n, const double *const *inputs, double *const *outputs);

    /* For ops that may give other views of input 0's memory instead of computing: fills *view, of
     * that output, from the input's layout, or answers false, and then a kernel copies. *offset, in
     * elements from the input's first, comes as 0. */
    bool (*view)(const node *n, int output, const tensor *input, tensor *view, int64_t *offset);

    /* The output may be the inputs' own memory, where they lie as it wants them. */
    bool shares_inputs;

    /* inplace[i] is 1 + the input whose memory output i takes over; 0: memory of its own. */
    signed char inplace[OP_MAX_OUTPUTS];
    /* The same for ops of any number of outputs: the input whose memory the output takes over,
     * -1 for memory of its own. NULL: `inplace` says it. Ask through op_inplace_input. */
    int (*inplace_input)(const node *n, int output);

    /* Element-wise ops: the scalar expression, as C text over a, b, c and the attribute s. */
    const char *expression;

    /* NULL-terminated, fastest first. */
    const struct kernel *const *kernels;
};

/* The op of that name, or NULL. Defined by ops/op_list.c: the graph knows no op. */
const op *op_find(const char *name);

/* Whether a node of this op may have so many inputs. */
bool op_takes_inputs(const op *kind, int count);
/* Outputs that a node of this op with these inputs and attributes has. */
int op_output_count(const node *n);
/* The input whose memory output `output` takes over, or -1. */
int op_inplace_input(const node *n, int output);

/* Shared cost formula: every operand moved once, `flops_per_output` for each element of
 * output 0. A broadcast operand counts as what is stored of it. */
op_cost op_cost_streaming(const node *n, double flops_per_output);
int64_t value_stored_elements(const value *v);

/* For shape rules: fails naming the attribute that is missing or of another kind. */
NODISCARD dyno_status node_require_attribute(const node *n, const char *name, attribute_kind kind);

#endif
