/* pipeline.h - the list of passes that make a plan of a model's forward graph. */
#ifndef COMPILER_PIPELINE_H
#define COMPILER_PIPELINE_H

#include "base/text.h"
#include "compiler/lower/choose_kernel.h"
#include "compiler/passes/accumulate.h"
#include "compiler/passes/optimizer.h"
#include "compiler/passes/parallel.h"
#include "compiler/passes/precision.h"
#include "compiler/passes/recompute.h"
#include "graph/graph.h"
#include "plan/plan.h"

/* How much of a step is planned; to users it is --pass. */
typedef enum step_extent {
    STEP_FORWARD,  /* logits and loss */
    STEP_BACKWARD, /* and the gradients: "forward+backward" */
    STEP_FULL,     /* and the optimizer: "step" */
    STEP_EXTENT_COUNT
} step_extent;

const char *step_extent_name(step_extent extent);
#define STEP_EXTENT_CHOICES "forward|forward+backward|step"
/* Also accepts "backward" for forward+backward. */
NODISCARD dyno_status step_extent_parse(const char *name, step_extent *extent);

typedef enum step_mode {
    STEP_EAGER,    /* each node a launch, memory allocated and released as it runs */
    STEP_COMPILED, /* fused into generated kernels, memory planned beforehand */
    STEP_MODE_COUNT
} step_mode;

const char *step_mode_name(step_mode mode); /* "eager" */
#define STEP_MODE_CHOICES "eager|compiled"
NODISCARD dyno_status step_mode_parse(const char *name, step_mode *mode);

/* How compiled mode computes attention. Eager mode always has the model's own small ops. */
typedef enum attention_way {
    ATTENTION_FLASH, /* one op, the scores never exist together */
    ATTENTION_NAIVE,
    ATTENTION_WAY_COUNT
} attention_way;

const char *attention_way_name(attention_way way); /* "flash" */
#define ATTENTION_WAY_CHOICES "flash|naive"
NODISCARD dyno_status attention_way_parse(const char *name, attention_way *way);

/* The type of weights' gradients between the product that computes them and the optimizer, in
 * compiled mode. Gradients that are outputs are f32 in either case. */
typedef enum gradients_type {
    GRADIENTS_LOW, /* what the products give: the low type, as autocast rounds them */
    GRADIENTS_F32, /* the products' sums, not rounded */
    GRADIENTS_COUNT
} gradients_type;

const char *gradients_name(gradients_type type); /* "low" */
#define GRADIENTS_CHOICES "low|fp32"
NODISCARD dyno_status gradients_parse(const char *name, gradients_type *type);

typedef struct pipeline_options {
    step_extent extent;
    step_mode mode;
    attention_way attention;
    precision precision;
    recompute_options recompute;
    gradients_type gradients;
    int64_t micro_batches;     /* of a step; 0 counts as 1 */
    parallel_options parallel; /* so do 0 ranks */
    const target *target;      /* NULL: this machine's CPU */
    bool is_unfused;           /* compiled, on a CPU: no kernel is generated */
    bool is_head_whole;        /* compiled: all logits exist together, to see what chunks save */
    kernel_options kernels;    /* what is wanted of them, and what is known of the device */
    bool keep_gradients; /* as outputs "g.P"; always so when the step ends with the backward */
    optimizer_options optimizer;
    const char *dump_after; /* name of a pass, or NULL */
    text *dump;             /* where the graph, or the plan, is printed then */
    bool is_unverified;     /* for a plan that is counted and never run */
} pipeline_options;

/* The names of the passes in their order; NULL behind the last. */
const char *pipeline_pass_name(int index);

/* Runs the passes on `g`, which holds the forward pass, with the verifier between them (unless
 * is_unverified). On failure *out is NULL. */
NODISCARD dyno_status pipeline_compile(graph *g, const pipeline_options *options, plan **out);

#endif
