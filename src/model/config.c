/* config.c - presets and limits; config_json.c has the file format. */
#include "model/config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "model/config_check.h"

#define PRESET(label, width, hidden, depth, head_count)                                            \
    {                                                                                              \
        .name = label, .d_model = width, .d_ff = hidden, .layers = depth, .heads = head_count,     \
        .kv_heads = head_count, .head_dim = (width) / (head_count), .vocab = 10000,                \
        .norm_eps = 1e-5, .rope_theta = 10000                                                      \
    }

static const model_config presets[] = {
    PRESET("small", 768, 3072, 12, 12),  PRESET("medium", 1024, 4096, 24, 16),
    PRESET("large", 1280, 5120, 36, 20), PRESET("xl", 1600, 6400, 48, 25),
    PRESET("2.7B", 2560, 10240, 32, 32), PRESET("10B", 4608, 12288, 50, 36),
};

enum { PRESET_COUNT = sizeof presets / sizeof *presets };

static const config_field_names own_names = {
    .d_model = "d_model",
    .d_ff = "d_ff",
    .layers = "layers",
    .heads = "heads",
    .kv_heads = "kv_heads",
    .head_dim = "head_dim",
    .vocab = "vocab",
    .norm_eps = "norm_eps",
    .rope_theta = "rope_theta",
};

static dyno_status check_size(const char *field, int64_t value, int64_t limit) {
    if (value < 1 || value > limit)
        return dyno_fail(DYNO_INVALID, "%s is %" PRId64 ", it must be from 1 to %" PRId64, field,
                         value, limit);
    return DYNO_OK;
}

/* The largest divisor of `whole` that is at most `limit`; both are positive. */
static int64_t divisor_at_most(int64_t whole, int64_t limit) {
    int64_t divisor = limit < whole ? limit : whole;
    while (whole % divisor != 0)
        divisor--;
    return divisor;
}

/* The same sum as model_parameter_elements, which may trust that it fits. */
static bool count_parameters(const model_config *config, int64_t *total) {
    int64_t embedding, attention, per_head_row, heads, mlp, layer, layers, norms;
    return checked_multiply(2 * config->vocab, config->d_model, &embedding) &&
           checked_multiply(2 * config->d_model, config->head_dim, &per_head_row) &&
           checked_add(config->heads, config->kv_heads, &heads) &&
           checked_multiply(per_head_row, heads, &attention) &&
           checked_multiply(3 * config->d_model, config->d_ff, &mlp) &&
           checked_add(attention, mlp, &layer) &&
           checked_multiply(layer, config->layers, &layers) &&
           checked_multiply(2 * config->layers + 1, config->d_model, &norms) &&
           checked_add(layers, embedding, total) && checked_add(*total, norms, total);
}

dyno_status config_check(const model_config *config, const config_field_names *names) {
    RETURN_IF_FAILED(check_size(names->d_model, config->d_model, MODEL_MAX_D_MODEL));
    RETURN_IF_FAILED(check_size(names->d_ff, config->d_ff, MODEL_MAX_D_FF));
    RETURN_IF_FAILED(check_size(names->layers, config->layers, MODEL_MAX_LAYERS));
    RETURN_IF_FAILED(check_size(names->heads, config->heads, MODEL_MAX_HEADS));
    RETURN_IF_FAILED(check_size(names->kv_heads, config->kv_heads, MODEL_MAX_HEADS));
    RETURN_IF_FAILED(check_size(names->vocab, config->vocab, MODEL_MAX_VOCAB));
    if (config->d_model % config->heads != 0)
        return dyno_fail(DYNO_INVALID,
                         "%s is %" PRId64 ", it must divide %s, which is %" PRId64
                         "; the nearest below that does is %" PRId64,
                         names->heads, config->heads, names->d_model, config->d_model,
                         divisor_at_most(config->d_model, config->heads));
    RETURN_IF_FAILED(check_size(names->head_dim, config->head_dim, MODEL_MAX_HEAD_DIM));
    if (config->heads % config->kv_heads != 0)
        return dyno_fail(DYNO_INVALID,
                         "%s is %" PRId64 ", it must divide %s, which is %" PRId64
                         "; the nearest below that does is %" PRId64,
                         names->kv_heads, config->kv_heads, names->heads, config->heads,
                         divisor_at_most(config->heads, config->kv_heads));
    if (config->head_dim % 2 != 0)
        return dyno_fail(DYNO_INVALID,
                         "%s is %" PRId64 ", rotary position embedding rotates pairs and needs it "
                         "even; change %s (%" PRId64 ") or %s (%" PRId64 ")",
                         names->head_dim, config->head_dim, names->d_model, config->d_model,
                         names->heads, config->heads);
    if (!(config->norm_eps >= 1e-12 && config->norm_eps <= 1))
        return dyno_fail(DYNO_INVALID, "%s is %g, it must be from 1e-12 to 1", names->norm_eps,
                         config->norm_eps);
    if (!(config->rope_theta >= 1 && config->rope_theta <= 1e12))
        return dyno_fail(DYNO_INVALID, "%s is %g, it must be from 1 to 1e12", names->rope_theta,
                         config->rope_theta);
    int64_t parameters;
    if (!count_parameters(config, &parameters))
        return dyno_fail(DYNO_INVALID,
                         "the parameter count does not fit 64 bits, the limit is %" PRId64
                         "; reduce %s (%" PRId64 "), %s (%" PRId64 ") or %s (%" PRId64 ")",
                         MODEL_MAX_PARAMETERS, names->d_model, config->d_model, names->head_dim,
                         config->head_dim, names->layers, config->layers);
    if (parameters > MODEL_MAX_PARAMETERS)
        return dyno_fail(DYNO_INVALID,
                         "the parameter count is %" PRId64 ", the limit is %" PRId64
                         "; reduce %s (%" PRId64 "), %s (%" PRId64 ") or %s (%" PRId64 ")",
                         parameters, MODEL_MAX_PARAMETERS, names->d_model, config->d_model,
                         names->d_ff, config->d_ff, names->layers, config->layers);
    return DYNO_OK;
}

int model_preset_count(void) { return PRESET_COUNT; }

const model_config *model_preset(int index) {
    assert(index >= 0 && index < PRESET_COUNT);
    return &presets[index];
}

dyno_status model_config_from_preset(const char *name, model_config *out) {
    const char *names[PRESET_COUNT];
    for (int i = 0; i < PRESET_COUNT; i++) {
        names[i] = presets[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = presets[i];
            return DYNO_OK;
        }
    }
    text list = {0};
    for (int i = 0; i < PRESET_COUNT; i++)
        text_format(&list, "%s%s", i ? ", " : "", names[i]);
    const char *nearest = text_nearest(name, names, PRESET_COUNT);
    dyno_status status =
        nearest
            ? dyno_fail(DYNO_INVALID, "no preset is called '%s'; did you mean '%s'? There are: %s",
                        text_quote(name).text, nearest, text_string(&list))
            : dyno_fail(DYNO_INVALID, "no preset is called '%s'; there are: %s",
                        text_quote(name).text, text_string(&list));
    text_release(&list);
    return status;
}

void model_config_derive(model_config *config) {
    if (config->kv_heads == 0)
        config->kv_heads = config->heads;
    if (config->head_dim == 0 && config->heads > 0)
        config->head_dim = config->d_model / config->heads;
}

dyno_status model_config_check(const model_config *config) {
    return config_check(config, &own_names);
}
