#include "train/weights.h"

#include <assert.h>
#include <stdio.h>

#include "compiler/low_copies.h"
#include "ops/cast/convert.h"

static float *find(const storage *s, const model_parameter *parameter) {
    float *data = storage_find(s, parameter->name);
    assert(data); /* the plan that filled the storage was made from the same configuration */
    return data;
}

void weights_init(storage *s, const model_config *config, uint64_t seed) {
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        model_parameter_init(&p, seed, find(s, &p));
    }
    weights_fill_low_copies(s, config);
}

dyno_status weights_load(storage *s, const hf_directory *directory) {
    const model_config *config = hf_directory_config(directory);
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        RETURN_IF_FAILED(hf_directory_read(directory, p.name, find(s, &p)));
    }
    weights_fill_low_copies(s, config);
    return DYNO_OK;
}

void weights_fill_low_copies(storage *s, const model_config *config) {
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        char name[sizeof p.name + sizeof LOW_COPY_PREFIX];
        snprintf(name, sizeof name, LOW_COPY_PREFIX "%s", p.name);
        tensor copy = storage_find_tensor(s, name);
        if (copy.data)
            convert_f32_to_low(copy.type, shape_elements(&copy.shape), find(s, &p), copy.data);
    }
}

static dyno_status give_parameter(void *context, int index, const model_parameter *parameter,
                                  const float **data) {
    (void)index;
    *data = find(context, parameter);
    return DYNO_OK;
}

dyno_status weights_save(const storage *s, const model_config *config, const char *path) {
    return hf_directory_write(path, config, give_parameter, (void *)s);
}
