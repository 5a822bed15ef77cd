#include "experiments/model_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "formats/config_json.h"

/* Flags that change a preset, and the field each one sets. */
static void apply_shape_flags(const flags *given, model_config *config) {
    struct {
        const char *flag;
        int64_t *field;
    } shapes[] = {
        {"d-model", &config->d_model},   {"d-ff", &config->d_ff},
        {"layers", &config->layers},     {"heads", &config->heads},
        {"kv-heads", &config->kv_heads}, {"head-dim", &config->head_dim},
        {"vocab", &config->vocab},
    };
    bool changes_heads = flags_is_set(given, "d-model") || flags_is_set(given, "heads");
    bool changes_any = false;
    if (changes_heads && !flags_is_set(given, "kv-heads"))
        config->kv_heads = 0; /* derived below */
    if (changes_heads && !flags_is_set(given, "head-dim"))
        config->head_dim = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (flags_is_set(given, shapes[i].flag)) {
            *shapes[i].field = flags_integer(given, shapes[i].flag);
            changes_any = true;
        }
    /* A size of 0 was asked for, not left open: model_config_check shall say so. */
    if (!(flags_is_set(given, "kv-heads") && config->kv_heads == 0) &&
        !(flags_is_set(given, "head-dim") && config->head_dim == 0))
        model_config_derive(config);
    if (changes_any)
        snprintf(config->name, sizeof config->name, "custom");
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
        if (status == DYNO_OK) {
            apply_shape_flags(given, &configs[i]);
            status = model_config_check(&configs[i]);
        }
    }
    if (status != DYNO_OK) {
        free(configs);
        return status;
    }
    *out = configs;
    return DYNO_OK;
}
