/* parameters.h - the model's parameters: their names, shapes, order and first values.
 *
 * The order is the order of the forward pass and of every file dyno writes; the names are
 * Hugging Face Llama's. Weights of linear layers are [out, in]. */
#ifndef MODEL_PARAMETERS_H
#define MODEL_PARAMETERS_H

#include "model/config.h"
#include "tensor/shape.h"

typedef enum { PARAMETER_EMBEDDING, PARAMETER_LINEAR, PARAMETER_NORM } parameter_kind;

typedef struct model_parameter {
    char name[96];
    parameter_kind kind;
    shape shape;
} model_parameter;

/* All take a configuration that passed model_config_check. */
int model_parameter_count(const model_config *config);
model_parameter model_parameter_at(const model_config *config, int index);
/* The elements of all parameters together. */
int64_t model_parameter_elements(const model_config *config);

/* Fills `data`. Linear: normal with std sqrt(2 / (in + out)); embedding: normal with std 1;
 * both cut at three standard deviations. Norm: 1. The values depend on the seed, the name and
 * the shape, never on the number of threads. Once the user has asked to stop (base/stop.h) it ends
 * early, and what `data` holds is not to be used. */
void model_parameter_init(const model_parameter *parameter, uint64_t seed, float *data);

#endif
