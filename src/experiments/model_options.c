#include "experiments/model_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "formats/config_json.h"
#include "measure/keys.h"

/* By their flags, in the order in which a name lists them. */
static const char *const SIZE_NAMES[MODEL_SIZE_COUNT] = {
    [LAYERS] = "layers",     [D_MODEL] = "d-model",   [D_FF] = "d-ff",  [HEADS] = "heads",
    [KV_HEADS] = "kv-heads", [HEAD_DIM] = "head-dim", [VOCAB] = "vocab"};

static int64_t *size_of(model_config *config, int size) {
    int64_t *const fields[MODEL_SIZE_COUNT] = {
        [LAYERS] = &config->layers, [D_MODEL] = &config->d_model,   [D_FF] = &config->d_ff,
        [HEADS] = &config->heads,   [KV_HEADS] = &config->kv_heads, [HEAD_DIM] = &config->head_dim,
        [VOCAB] = &config->vocab};
    return fields[size];
}

static bool is_preset(const char *name) {
    for (int i = 0; i < model_preset_count(); i++)
        if (strcmp(model_preset(i)->name, name) == 0)
            return true;
    return false;
}

/* Whether all sizes were given that the others follow from: a preset then adds nothing. */
static bool are_all_given(const int64_t sizes[MODEL_SIZE_COUNT]) {
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        if (i != KV_HEADS && i != HEAD_DIM && sizes[i] == MODEL_SIZE_OPEN)
            return false;
    return true;
}

/* "small, vocab 256": what it was, and the sizes that differ; those alone where they are all. */
static void name_changes(model_config *config, model_config *before,
                         const int64_t sizes[MODEL_SIZE_COUNT]) {
    bool is_whole = are_all_given(sizes) && is_preset(before->name);
    bool are_implied = config->d_model != before->d_model || config->heads != before->heads;
    text name = {0};
    if (!is_whole)
        text_append(&name, before->name);
    for (int i = 0; i < MODEL_SIZE_COUNT; i++) {
        int64_t is = *size_of(config, i);
        bool is_given = sizes[i] != MODEL_SIZE_OPEN, differs = is != *size_of(before, i);
        if (is_given ? is_whole || differs : differs && !are_implied)
            text_format(&name, "%s%s %lld", name.length ? ", " : "", SIZE_NAMES[i], (long long)is);
    }
    snprintf(config->name, sizeof config->name, "%s", text_string(&name));
    text_release(&name);
}

void model_options_change(model_config *config, const int64_t sizes[MODEL_SIZE_COUNT]) {
    model_config before = *config;
    if (sizes[D_MODEL] != MODEL_SIZE_OPEN || sizes[HEADS] != MODEL_SIZE_OPEN)
        config->kv_heads = config->head_dim = 0; /* derived below, or set */
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        if (sizes[i] != MODEL_SIZE_OPEN)
            *size_of(config, i) = sizes[i];
    /* A size of 0 was asked for, not left open: model_config_check shall say so. */
    if (sizes[KV_HEADS] != 0 && sizes[HEAD_DIM] != 0)
        model_config_derive(config);
    name_changes(config, &before, sizes);
}

void model_options_describe(const model_config *config, results_cell *cell) {
    cell_set_text(cell, PARAM_MODEL, config->name);
    cell_set_integer(cell, PARAM_LAYERS, config->layers);
    cell_set_integer(cell, PARAM_D_MODEL, config->d_model);
    cell_set_integer(cell, PARAM_D_FF, config->d_ff);
    cell_set_integer(cell, PARAM_HEADS, config->heads);
    cell_set_integer(cell, PARAM_KV_HEADS, config->kv_heads);
    cell_set_integer(cell, PARAM_HEAD_DIM, config->head_dim);
    cell_set_integer(cell, PARAM_VOCAB, config->vocab);
}

static void apply_shape_flags(const flags *given, model_config *config) {
    int64_t sizes[MODEL_SIZE_COUNT];
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        sizes[i] = flags_is_set(given, SIZE_NAMES[i]) ? flags_integer(given, SIZE_NAMES[i])
                                                      : MODEL_SIZE_OPEN;
    model_options_change(config, sizes);
}

/* Fails with the first one's message where no model can be built. */
static dyno_status check_some(const model_config *configs, int count) {
    for (int i = 0; i < count; i++)
        if (model_config_check(&configs[i]) == DYNO_OK)
            return DYNO_OK;
    return model_config_check(&configs[0]);
}

dyno_status model_options_resolve(const flags *given, model_config **out, int *count) {
    *out = NULL;
    const char *file = flags_text(given, "config");
    const char *const *names = flags_text_list(given, "model", count);
    if (file && flags_is_set(given, "model"))
        return dyno_fail(DYNO_INVALID, "--model and --config both name a model; give one of them");
    if (file)
        *count = 1;
    model_config *configs = memory_allocate((size_t)*count, sizeof *configs);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < *count && status == DYNO_OK; i++) {
        status = file ? model_config_read(file, &configs[i])
                      : model_config_from_preset(names[i], &configs[i]);
        if (status == DYNO_OK)
            apply_shape_flags(given, &configs[i]);
    }
    if (status == DYNO_OK)
        status = check_some(configs, *count);
    if (status != DYNO_OK) {
        free(configs);
        return status;
    }
    *out = configs;
    return DYNO_OK;
}
