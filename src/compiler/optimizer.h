/* optimizer.h - appends the optimizer step. */
#ifndef COMPILER_OPTIMIZER_H
#define COMPILER_OPTIMIZER_H

#include "graph/graph.h"
#include "ops/adamw/adamw.h"

typedef struct optimizer_options {
    adamw_options adamw;
    double clip_norm; /* gradients' global norm is held to this; 0: not clipped */
} optimizer_options;

/* Appends, after the backward, an AdamW node on each parameter. Adds the inputs "learning_rate"
 * (f64) and "step" (i64, from 1) and the states "m.P" and "v.P" of each parameter P. */
NODISCARD dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options);

#endif
