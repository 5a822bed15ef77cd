/* optimizer.h - appends the optimizer step. */
#ifndef COMPILER_PASSES_OPTIMIZER_H
#define COMPILER_PASSES_OPTIMIZER_H

#include "graph/graph.h"
#include "ops/adamw/adamw.h"

typedef struct optimizer_options {
    adamw_options adamw;
    double clip_norm; /* the gradients' global norm is clipped to this; 0: not clipped */
    /* One node for each block of the model, and for what lies outside of blocks, in the middle of
     * the backward: as soon as its gradients are there and its weights are read by nobody any
     * more, so that the gradients' memory is free again. One node for all where something needs all
     * gradients at once: clipping, a scaled loss, gradients that are outputs. Such nodes also keep
     * low copies (low_copies.h). */
    bool by_block;
} optimizer_options;

/* Adds an AdamW node on each parameter, or one on many, after the backward or (by_block) inside it.
 * Adds the inputs "learning_rate" (f64) and "step" (i64, from 1) and the states "m.P" and "v.P" of
 * each parameter P. All ways give the same bits.
 *
 * Where the loss was scaled (the input "loss_scale" is there), the factor that clips also undoes
 * the scaling, and a step in which any gradient is not finite writes nothing. The factor is then
 * the output "gradient_scale", NaN for such a step. */
NODISCARD dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options);

#endif
