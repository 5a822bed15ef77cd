/* model.h - what a dyno_model is to the rest of src/api. */
#ifndef API_MODEL_H
#define API_MODEL_H

#include "base/arena.h"
#include "model/config.h"
#include "tensor/shape.h"

struct dyno_model {
    model_config config;
    int parameter_count;
    dyno_tensor *parameters;
    arena *names;      /* of the parameters */
    char *config_text; /* the config.json it was made from, with its own sizes; NULL: none */
};

/* `config` has passed model_config_check. */
dyno_model *api_model_create(const model_config *config);
/* NULL when the model has none of that name. */
const dyno_tensor *api_model_find(const dyno_model *model, const char *name);

dyno_tensor api_tensor(const char *name, const shape *s);
shape api_shape(const dyno_tensor *t);

#endif
