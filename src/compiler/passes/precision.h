/* precision.h - mixed precision as a policy: which op computes in which type.
 *
 *   products      operands in the low type, sums in fp32, results in the low type; results that
 *                 only a loss reads (logits) stay in fp32; attention as one op is two of them
 *   views         whatever they get
 *   all others    fp32: norms, softmax, loss, reductions, the residual stream
 *
 * Parameters stay fp32; so do their gradients, for the casts are differentiated like any op. */
#ifndef COMPILER_PASSES_PRECISION_H
#define COMPILER_PASSES_PRECISION_H

#include "base/target.h"
#include "graph/graph.h"

typedef enum precision {
    PRECISION_FP32,
    PRECISION_BF16,
    PRECISION_FP16, /* gradients may underflow: the loss is scaled */
    PRECISION_TF32, /* all is fp32, but products may round their operands to 11 bits: GPUs only */
    PRECISION_COUNT
} precision;

/* For flags. */
#define PRECISION_CHOICES "fp32|tf32|bf16|fp16"
const char *precision_name(precision p);
NODISCARD dyno_status precision_parse(const char *name, precision *p);
dtype precision_low_type(precision p); /* DTYPE_F32 for fp32 and tf32 */

/* DYNO_UNSUPPORTED where the target has no such products, with what to use instead. */
NODISCARD dyno_status precision_check(precision p, const target *chip);

/* Inserts casts into a forward graph; runs before autodiff. A value is cast once to a type and all
 * readers share the cast: one cast for each weight and step. For fp16 adds the input "loss_scale"
 * (f32 scalar), from which the backward starts. fp32 and tf32 insert nothing. */
NODISCARD dyno_status precision_apply(graph *g, precision p);

/* For tf32, gives every product, alone, in a loss head or in attention, the attribute "tf32": 1.
 * Comes when all products are there. */
void precision_allow_tf32(graph *g, precision p);

#endif
