/* transformer.h - the model: from configuration to forward graph. */
#ifndef MODEL_TRANSFORMER_H
#define MODEL_TRANSFORMER_H

#include "graph/graph.h"
#include "model/config.h"

typedef struct transformer_options {
    int64_t batch, context;
    bool keep_logits; /* as the output "logits" [B*T, V] */
} transformer_options;

/* The forward pass of one step. Inputs: "tokens" and "targets", i32[B*T]. Parameters: those of
 * parameters.h, by their names. Outputs: "loss", the mean over all tokens, and "logits" if
 * asked for. On failure *out is NULL. */
NODISCARD dyno_status transformer_build(const model_config *config,
                                        const transformer_options *options, graph **out);

#endif
