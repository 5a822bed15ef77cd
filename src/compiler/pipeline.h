/* pipeline.h - the list of passes that make a plan of a model's forward graph. */
#ifndef COMPILER_PIPELINE_H
#define COMPILER_PIPELINE_H

#include "base/text.h"
#include "compiler/optimizer.h"
#include "graph/graph.h"
#include "ops/kernel.h"
#include "plan/plan.h"

typedef enum step_pass {
    STEP_FORWARD,  /* logits and loss */
    STEP_BACKWARD, /* and the gradients: "forward+backward" */
    STEP_FULL,     /* and the optimizer: "step" */
    STEP_PASS_COUNT
} step_pass;

const char *step_pass_name(step_pass pass);
/* Also accepts "backward" for forward+backward. */
NODISCARD dyno_status step_pass_parse(const char *name, step_pass *pass);

typedef struct pipeline_options {
    step_pass pass;
    backend target;
    bool keep_gradients; /* as outputs "g.P"; always so when the pass ends with the backward */
    optimizer_options optimizer;
    const char *dump_after; /* name of a pass, or NULL */
    text *dump;             /* where the graph is printed then */
} pipeline_options;

/* Runs the passes on `g`, which holds the forward pass, with the verifier between them. */
NODISCARD dyno_status pipeline_compile(graph *g, const pipeline_options *options, plan **out);

#endif
