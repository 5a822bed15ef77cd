#include "api/model.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/memory.h"
#include "base/units.h"
#include "experiments/model_options.h"
#include "formats/config_json.h"
#include "formats/hf_directory.h"

dyno_tensor api_tensor(const char *name, const shape *s) {
    dyno_tensor t = {.name = name, .rank = s->rank};
    memcpy(t.shape, s->dim, (size_t)s->rank * sizeof *t.shape);
    return t;
}

shape api_shape(const dyno_tensor *t) { return shape_make(t->rank, t->shape); }

dyno_model *api_model_create(const model_config *config) {
    dyno_model *model = memory_allocate(1, sizeof *model);
    *model = (dyno_model){.config = *config,
                          .parameter_count = model_parameter_count(config),
                          .names = arena_create()};
    model->parameters = memory_allocate((size_t)model->parameter_count, sizeof *model->parameters);
    for (int i = 0; i < model->parameter_count; i++) {
        model_parameter p = model_parameter_at(config, i);
        model->parameters[i] = api_tensor(arena_copy_string(model->names, p.name), &p.shape);
    }
    return model;
}

const dyno_tensor *api_model_find(const dyno_model *model, const char *name) {
    for (int i = 0; i < model->parameter_count; i++)
        if (strcmp(model->parameters[i].name, name) == 0)
            return &model->parameters[i];
    return NULL;
}

/* *config_text is the caller's, and NULL where no file was read. */
static dyno_status resolve(const dyno_model_options *o, model_config *config, char **config_text) {
    *config_text = NULL;
    if (o->preset && o->config)
        return dyno_fail(DYNO_INVALID,
                         "dyno_model_options: preset '%s' and config '%s' both name "
                         "a model; give one of them",
                         text_quote(o->preset).text, text_quote(o->config).text);
    if (o->config)
        RETURN_IF_FAILED(model_config_read_text(o->config, config, config_text));
    else
        RETURN_IF_FAILED(model_config_from_preset(o->preset ? o->preset : "small", config));
    int64_t sizes[MODEL_SIZE_COUNT] = {
        [D_MODEL] = o->d_model, [D_FF] = o->d_ff,         [LAYERS] = o->layers,
        [HEADS] = o->heads,     [KV_HEADS] = o->kv_heads, [HEAD_DIM] = o->head_dim,
        [VOCAB] = o->vocab};
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        sizes[i] = sizes[i] ? sizes[i] : MODEL_SIZE_OPEN;
    model_config read = *config;
    model_options_change(config, sizes);
    dyno_status status = model_config_check(config);
    if (*config_text) {
        char *text_read = *config_text;
        *config_text =
            status == DYNO_OK ? model_config_change_text(text_read, &read, config) : NULL;
        free(text_read);
    }
    return status;
}

dyno_status dyno_model_create(const dyno_model_options *options, dyno_model **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(options);
    dyno_model_options known = {0};
    model_config config;
    RETURN_IF_FAILED(options_take("dyno_model_options", options, &known, sizeof known));
    char *config_text;
    RETURN_IF_FAILED(resolve(&known, &config, &config_text));
    *out = api_model_create(&config);
    (*out)->config_text = config_text;
    return status_conclude(DYNO_OK);
}

void dyno_model_destroy(dyno_model *model) {
    if (!model)
        return;
    arena_destroy(model->names);
    free(model->parameters);
    free(model->config_text);
    free(model);
}

const char *dyno_model_name(const dyno_model *model) { return model ? model->config.name : NULL; }

int64_t dyno_model_vocabulary(const dyno_model *model) { return model ? model->config.vocab : 0; }

int64_t dyno_model_elements(const dyno_model *model) {
    return model ? model_parameter_elements(&model->config) : 0;
}

int dyno_model_parameter_count(const dyno_model *model) {
    return model ? model->parameter_count : 0;
}

dyno_status dyno_model_parameter(const dyno_model *model, int index, dyno_tensor *out) {
    RETURN_IF_NULL(model, out);
    if (index < 0 || index >= model->parameter_count)
        return dyno_fail(DYNO_INVALID, "there is no parameter %d; the model has %d", index,
                         model->parameter_count);
    *out = model->parameters[index];
    return status_conclude(DYNO_OK);
}

typedef struct draw {
    uint64_t seed;
    float *data; /* room for the largest parameter */
} draw;

static dyno_status draw_parameter(void *context, int index, const model_parameter *parameter,
                                  const float **data) {
    (void)index;
    const draw *d = context;
    model_parameter_init(parameter, d->seed, d->data);
    *data = d->data;
    return DYNO_OK;
}

dyno_status dyno_model_save_as(const dyno_model *model, uint64_t seed, const char *directory,
                               const dyno_save_options *options) {
    RETURN_IF_NULL(model, directory, options);
    dyno_save_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_save_options", options, &known, sizeof known));
    hf_write_options how = {
        .config = model->config_text, .is_new = !known.replaces, .note = known.note};
    int64_t most = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        shape s = api_shape(&model->parameters[i]);
        most = shape_elements(&s) > most ? shape_elements(&s) : most;
    }
    draw d = {.seed = seed, .data = memory_try_allocate((size_t)most * sizeof(float))};
    if (!d.data)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for the largest parameter, %s",
                         units_bytes(most * (int64_t)sizeof(float)).text);
    dyno_status status = hf_directory_write_as(directory, &model->config, &how, draw_parameter, &d);
    free(d.data);
    return status_conclude(status);
}

dyno_status dyno_model_save(const dyno_model *model, uint64_t seed, const char *directory) {
    RETURN_IF_NULL(model, directory);
    return dyno_model_save_as(
        model, seed, directory,
        &(dyno_save_options){.size = sizeof(dyno_save_options), .replaces = true});
}

dyno_status dyno_save_check(const char *directory, const char *loaded,
                            const dyno_save_options *options) {
    RETURN_IF_NULL(directory, options);
    dyno_save_options known = {0};
    hf_companions *companions = NULL;
    RETURN_IF_FAILED(options_take("dyno_save_options", options, &known, sizeof known));
    if (loaded)
        RETURN_IF_FAILED(hf_companions_read(loaded, "{}", &companions));
    dyno_status status = hf_directory_check_write(directory, companions, !known.replaces);
    hf_companions_destroy(companions);
    return status_conclude(status);
}

bool dyno_save_writes(const char *name) { return name && hf_directory_writes(name); }
