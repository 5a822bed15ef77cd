/* model_flops.h - the arithmetic of a model, which is the same however a step is run.
 *
 *   products   2 M N K for each: q, k, v, o, gate, up, down of every block, and the head
 *   attention  Q K^T and P V, 2 T T S for each head and sequence; half of that if causal, because
 *              half of the scores are masked
 *   backward   twice the forward: each product has one for the gradient of either factor
 *
 * Nothing else counts: no norms, softmax, loss or updates, and nothing that is computed again. This
 * is what MFU, model FLOPs utilization, is a share of. */
#ifndef MODEL_MODEL_FLOPS_H
#define MODEL_MODEL_FLOPS_H

#include "model/attention.h"
#include "model/config.h"

typedef struct model_flops {
    double forward, backward; /* of one step */
} model_flops;

/* Of a configuration that passed model_config_check. */
model_flops model_flops_of_step(const model_config *config, int64_t batch, int64_t context);
/* Of attention alone. */
model_flops model_flops_of_attention(const attention_shape *s, bool is_causal);

#endif
