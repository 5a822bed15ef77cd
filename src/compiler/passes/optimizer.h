/* optimizer.h - appends the optimizer step. */
#ifndef COMPILER_PASSES_OPTIMIZER_H
#define COMPILER_PASSES_OPTIMIZER_H

#include "graph/graph.h"
#include "ops/adamw/adamw.h"

/* What becomes of a step whose loss or gradients are not finite. */
typedef enum nonfinite_policy {
    NONFINITE_IGNORE, /* it is applied, but for gradients of a scaled loss */
    /* Not applied where the loss is not finite, nor gradients whose norm is taken anyway (clipping,
     * a scaled loss). Costs a scalar operation; gradients alone show in the next loss. */
    NONFINITE_STOP,
    NONFINITE_SKIP, /* not applied; takes the gradients' norm for it */
    NONFINITE_POLICY_COUNT
} nonfinite_policy;

const char *nonfinite_policy_name(nonfinite_policy policy);
#define NONFINITE_CHOICES "stop|skip|ignore"
NODISCARD dyno_status nonfinite_policy_parse(const char *name, nonfinite_policy *policy);

typedef struct optimizer_options {
    adamw_options adamw;
    double clip_norm; /* the gradients' global norm is clipped to this; 0: not clipped */
    /* One node for each block of the model, and for what lies outside of blocks, in the middle of
     * the backward: as soon as its gradients are there and its weights are read by nobody any
     * more, so that the gradients' memory is free again. One node for all where something needs all
     * gradients at once: clipping, a scaled loss, gradients that are outputs. Such nodes also keep
     * low copies (low_copies.h). */
    bool by_block;
    nonfinite_policy on_nonfinite;
    /* Gradients are sums over micro-batches or ranks (accumulate.h): there is one update of all,
     * behind the last micro-batch, and their norm is taken from exact sums (ops/squares/squares.h), so
     * that it has the same bits however they are divided among ranks. */
    bool is_of_sums;
    int64_t ranks; /* among which gradients are divided; 0: each has all of them */
} optimizer_options;

/* Whether the step takes the global norm of all gradients. */
bool optimizer_takes_norm(const optimizer_options *options, bool is_loss_scaled);

/* Adds an AdamW node on each parameter, or one on many, after the backward or (by_block) inside it.
 * Adds the inputs "learning_rate" (f64) and "step" (i64, from 1) and the states "m.P" and "v.P" of
 * each parameter P. All ways give the same bits.
 *
 * Where the loss was scaled (the input "loss_scale" is there), the factor that clips also undoes
 * the scaling, and a step in which any gradient is not finite writes nothing. The factor is then
 * the output "gradient_scale", NaN for such a step; likewise unless `on_nonfinite` is IGNORE. */
NODISCARD dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options);

#endif
