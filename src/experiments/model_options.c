#include "experiments/model_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "formats/config_json.h"

void model_options_change(model_config *config, const int64_t sizes[MODEL_SIZE_COUNT]) {
    int64_t *const fields[MODEL_SIZE_COUNT] = {
        [D_MODEL] = &config->d_model,   [D_FF] = &config->d_ff,
        [LAYERS] = &config->layers,     [HEADS] = &config->heads,
        [KV_HEADS] = &config->kv_heads, [HEAD_DIM] = &config->head_dim,
        [VOCAB] = &config->vocab};
    bool changes_any = false;
    if (sizes[D_MODEL] != MODEL_SIZE_OPEN || sizes[HEADS] != MODEL_SIZE_OPEN)
        config->kv_heads = config->head_dim = 0; /* derived below, or set */
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        if (sizes[i] != MODEL_SIZE_OPEN) {
            *fields[i] = sizes[i];
            changes_any = true;
        }
    /* A size of 0 was asked for, not left open: model_config_check shall say so. */
    if (sizes[KV_HEADS] != 0 && sizes[HEAD_DIM] != 0)
        model_config_derive(config);
    if (changes_any)
        snprintf(config->name, sizeof config->name, "custom");
}

static void apply_shape_flags(const flags *given, model_config *config) {
    static const char *const names[MODEL_SIZE_COUNT] = {
        [D_MODEL] = "d-model",   [D_FF] = "d-ff",         [LAYERS] = "layers", [HEADS] = "heads",
        [KV_HEADS] = "kv-heads", [HEAD_DIM] = "head-dim", [VOCAB] = "vocab"};
    int64_t sizes[MODEL_SIZE_COUNT];
    for (int i = 0; i < MODEL_SIZE_COUNT; i++)
        sizes[i] = flags_is_set(given, names[i]) ? flags_integer(given, names[i]) : MODEL_SIZE_OPEN;
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
