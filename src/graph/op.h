/* op.h - what an operation knows about itself. One constant of this type per op, in the op's
 * folder under src/ops; src/ops/op_list.c lists them all. */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include "base/text.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

struct kernel; /* ops/kernel.h */
struct kernel_args;

/* Groups ops in breakdowns of time. */
typedef enum op_class {
    OP_CLASS_MATMUL,
    OP_CLASS_ELEMENTWISE,
    OP_CLASS_REDUCTION,
    OP_CLASS_COPY, /* moves or reinterprets data, computes nothing */
    OP_CLASS_GATHER,
    OP_CLASS_LOSS,
    OP_CLASS_OPTIMIZER,
    OP_CLASS_ATTENTION,
    OP_CLASS_COMMUNICATION,
    OP_CLASS_COUNT
} op_class;

const char *op_class_name(op_class c);

/* What running a node once costs at the least: each operand read once, each result written
 * once. The one source of FLOPs for every report. */
typedef struct op_cost {
    double flops;
    double backward_flops; /* of them: gradients that a node of the forward computes as well */
    double bytes_read, bytes_written;
    double bytes_sent; /* by each rank, of ops that communicate */
} op_cost;

typedef struct value_type {
    dtype type;
    shape shape;
} value_type;

/* What a precision with a low type does to a node's inputs (compiler/passes/precision.h). */
typedef enum op_precision {
    OP_PRECISION_FULL,    /* casts them to f32, in which the op computes */
    OP_PRECISION_PRODUCT, /* casts the factors of products to the low type, the others to f32 */
    OP_PRECISION_ANY      /* leaves them as they are: views and casts */
} op_precision;

/* How a view's elements are ordered, compared with those of input 0. */
typedef enum op_view_order {
    OP_VIEW_MOVED,    /* in another order, or not all of them */
    OP_VIEW_IN_ORDER, /* the same ones, row-major */
    OP_VIEW_REPEATED  /* in order, along some dimensions several times */
} op_view_order;

/* How an op reduces all elements along its attribute "axes". */
typedef enum op_reduction {
    REDUCTION_NONE, /* the op is none */
    REDUCTION_SUM,
    REDUCTION_MEAN,
    REDUCTION_MAX
} op_reduction;

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

    /* For ops that may return a view of input 0's memory instead of computing: fills *view, of that
     * output, from the input's layout, or returns false, and then a kernel copies. *offset, in
     * elements from the input's first, is 0 at the call. */
    bool (*view)(const node *n, int output, const tensor *input, tensor *view, int64_t *offset);

    /* The inverse of `view`: the layout that input 0 must have for its view to have the layout
     * `output`, which may be *input; false where there is none. NULL: the view has no inverse. */
    bool (*undo_view)(const node *n, const tensor *output, tensor *input);
    op_view_order view_order;
    /* The view moves on by its own size in every repetition of a step's forward and backward, of
     * which there are as many as the integer attribute "count" says. */
    bool advances;

    /* For ops that concatenate their inputs: the part of output 0's memory that is input `input`,
     * and its offset in elements. Inputs that are produced there are not copied. */
    tensor (*piece)(const node *n, int input, const tensor *output, int64_t *offset);

    /* inplace[i] is 1 + the input whose memory output i takes over; 0: memory of its own. */
    signed char inplace[OP_MAX_OUTPUTS];
    /* The same for ops of any number of outputs: the input whose memory the output takes over,
     * -1 for memory of its own. NULL: `inplace` says it. Ask through op_inplace_input. */
    int (*inplace_input)(const node *n, int output);

    /* Element-wise ops: the scalar expression, as C text over a, b, c and the attribute s. */
    const char *expression;
    /* REDUCTION_NONE for all others. */
    op_reduction reduction;
    /* The result is the scalar in the real attribute "number": generated kernels that read it have
     * it in their source. */
    bool is_literal;

    op_precision precision;
    /* OP_PRECISION_PRODUCT: the first so many inputs are factors. The integer attribute "tf32" lets
     * kernels round f32 factors to tf32. */
    int factor_count;
    /* The integer attribute "type" may ask for output 0 in f32 where the factors are of a low type:
     * sums of products are f32 anyway. */
    bool can_output_f32;
    /* Computes in f32 from an input 0 of any float type and rounds the result once to that type:
     * casts from a low type before it and back behind it change no bit. */
    bool absorbs_casts;

    /* Appends, without spaces, what the best of several kernels or variants depends on; a choice
     * found by timing is kept under it. NULL: the op is not tuned. */
    void (*tuning_key)(const struct kernel_args *args, text *out);
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
/* Whether an output may lie in the memory of that input without overwriting it. */
bool op_shares_input(const op *kind, int input);
/* Whether recomputing a node is cheaper than keeping its result in memory: it streams over its
 * operands once, element by element, or has none. */
bool op_is_cheap(const op *kind);

/* Shared cost formula: every operand moved once, `flops_per_output` for each element of
 * output 0. A broadcast operand counts as what is stored of it. */
op_cost op_cost_streaming(const node *n, double flops_per_output);
int64_t value_stored_elements(const value *v);

/* For shape rules: fails naming the attribute that is missing or of another kind. */
NODISCARD dyno_status node_require_attribute(const node *n, const char *name, attribute_kind kind);

#endif
