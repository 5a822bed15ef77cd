/* precision_study.h - which type everything has when a toy model trains in mixed precision.
 *
 *   x -> fc1 -> ReLU -> LayerNorm -> fc2 -> cross-entropy, no biases but the norm's
 *
 * The model is built, differentiated, planned and run like any other; the types are those of the
 * buffers that the run has written. */
#ifndef EXPERIMENTS_PRECISION_STUDY_H
#define EXPERIMENTS_PRECISION_STUDY_H

#include "compiler/passes/precision.h"
#include "runtime/device.h"

typedef enum study_item {
    STUDY_PARAMETERS,
    STUDY_FC1_WEIGHT_MULTIPLIED, /* as the product of fc1 reads it */
    STUDY_FC1,
    STUDY_RELU,
    STUDY_LAYERNORM,
    STUDY_LOGITS,
    STUDY_LOSS,
    STUDY_GRADIENTS, /* of the parameters */
    STUDY_ITEM_COUNT
} study_item;

const char *study_item_name(study_item item); /* "LayerNorm output" */

typedef struct precision_study {
    dtype type[STUDY_ITEM_COUNT];
    float loss;
    double largest_gradient; /* magnitude, the loss scale undone */
} precision_study;

/* On the CPU that `where` is. Fails also when parameters, or gradients, are not all of one type. */
NODISCARD dyno_status precision_study_run(precision p, device *where, precision_study *out);

#endif
