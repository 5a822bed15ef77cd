/* config_json.c - Hugging Face Llama's config.json, read and written.
 *
 * Every field that changes what the model computes is looked at: one that asks for something
 * this model does not do is refused rather than ignored, because weights trained one way and
 * run another give numbers that look plausible and are wrong. Fields about generation or
 * storage are left alone. Defaults are those of transformers' LlamaConfig. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/config_json.h"
#include "formats/json_text.h"
#include "model/config.h"
#include "model/config_check.h"

enum { CONFIG_FILE_LIMIT = 16 << 20 };

/* The model itself has no longest sequence; transformers wants one for generation. */
enum { MAX_POSITIONS = 8192 };

static const config_field_names json_names = {
    .d_model = "hidden_size",
    .d_ff = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .vocab = "vocab_size",
    .norm_eps = "rms_norm_eps",
    .rope_theta = "rope_theta",
};

/* A value as the file has it, for messages. */
static quoted_text value_text(const json_t *value) {
    char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    quoted_text quoted = text_quote(dump ? dump : "?");
    free(dump);
    return quoted;
}

/* NULL when the field is missing or null, which transformers treats alike. */
static const json_t *field_value(const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    return json_is_null(value) ? NULL : value;
}

static bool is_string(const json_t *value, const char *expected) {
    return json_is_string(value) && strcmp(json_string_value(value), expected) == 0;
}

static dyno_status unsupported(const char *what, const char *field, const json_t *value,
                               const char *supported) {
    return dyno_fail(DYNO_UNSUPPORTED, "%s: %s is %s, only %s is supported", what, field,
                     value_text(value).text, supported);
}

static dyno_status read_integer(const json_t *value, const char *what, const char *field,
                                int64_t *out) {
    if (!json_is_integer(value))
        return dyno_fail(DYNO_CORRUPT, "%s: %s is %s, it must be an integer", what, field,
                         value_text(value).text);
    *out = json_integer_value(value);
    return DYNO_OK;
}

static dyno_status read_required(const json_t *object, const char *what, const char *field,
                                 int64_t *out) {
    const json_t *value = field_value(object, field);
    if (!value)
        return dyno_fail(DYNO_CORRUPT, "%s: %s is missing; a Llama config.json must give it", what,
                         field);
    return read_integer(value, what, field, out);
}

static dyno_status read_optional(const json_t *object, const char *what, const char *field,
                                 int64_t fallback, int64_t *out) {
    const json_t *value = field_value(object, field);
    *out = fallback;
    return value ? read_integer(value, what, field, out) : DYNO_OK;
}

static dyno_status read_real(const json_t *object, const char *what, const char *field,
                             double fallback, double *out) {
    const json_t *value = field_value(object, field);
    *out = fallback;
    if (!value)
        return DYNO_OK;
    if (!json_is_number(value))
        return dyno_fail(DYNO_CORRUPT, "%s: %s is %s, it must be a number", what, field,
                         value_text(value).text);
    *out = json_number_value(value);
    return DYNO_OK;
}

static dyno_status require_false(const json_t *object, const char *what, const char *field) {
    const json_t *value = field_value(object, field);
    return value && !json_is_false(value) ? unsupported(what, field, value, "false") : DYNO_OK;
}

static dyno_status require_number(const json_t *object, const char *what, const char *field,
                                  double expected, const char *expected_text) {
    const json_t *value = field_value(object, field);
    if (value && !(json_is_number(value) && json_number_value(value) == expected))
        return unsupported(what, field, value, expected_text);
    return DYNO_OK;
}

static dyno_status require_architecture(const json_t *root, const char *what) {
    const json_t *type = field_value(root, "model_type");
    if (type && !is_string(type, "llama"))
        return unsupported(what, "model_type", type, "\"llama\"");
    const json_t *architectures = field_value(root, "architectures");
    if (architectures) {
        bool found = false;
        for (size_t i = 0; i < json_array_size(architectures); i++)
            found = found || is_string(json_array_get(architectures, i), "LlamaForCausalLM");
        if (!found && !(type && json_is_array(architectures) && !json_array_size(architectures)))
            return unsupported(what, "architectures", architectures, "[\"LlamaForCausalLM\"]");
    } else if (!type) {
        return dyno_fail(DYNO_CORRUPT,
                         "%s: model_type and architectures are missing; a Llama config.json says "
                         "\"model_type\": \"llama\"",
                         what);
    }
    return DYNO_OK;
}

/* rope_scaling of transformers 4 and rope_parameters of 5 have one form. */
static dyno_status read_rope(const json_t *root, const char *what, const char *field,
                             double *theta) {
    const json_t *rope = field_value(root, field);
    if (!rope)
        return DYNO_OK;
    if (!json_is_object(rope))
        return dyno_fail(DYNO_CORRUPT, "%s: %s is %s, it must be an object or null", what, field,
                         value_text(rope).text);
    const json_t *type = field_value(rope, "rope_type");
    if (!type)
        type = field_value(rope, "type");
    if (type ? !is_string(type, "default") : json_object_get(rope, "factor") != NULL)
        return unsupported(what, field, rope, "rope_type \"default\" (no scaling)");
    RETURN_IF_FAILED(require_number(rope, what, "partial_rotary_factor", 1, "1"));
    double inner;
    RETURN_IF_FAILED(read_real(rope, what, "rope_theta", *theta, &inner));
    if (inner != *theta && field_value(root, "rope_theta"))
        return dyno_fail(DYNO_CORRUPT, "%s: rope_theta is %g and %s.rope_theta is %g; keep one",
                         what, *theta, field, inner);
    *theta = inner;
    return DYNO_OK;
}

static dyno_status require_supported(const json_t *root, const char *what) {
    RETURN_IF_FAILED(require_architecture(root, what));
    const json_t *activation = field_value(root, "hidden_act");
    if (activation && !is_string(activation, "silu"))
        return unsupported(what, "hidden_act", activation, "\"silu\"");
    RETURN_IF_FAILED(require_false(root, what, "attention_bias"));
    RETURN_IF_FAILED(require_false(root, what, "mlp_bias"));
    RETURN_IF_FAILED(require_false(root, what, "tie_word_embeddings"));
    RETURN_IF_FAILED(require_number(root, what, "pretraining_tp", 1, "1"));
    RETURN_IF_FAILED(require_number(root, what, "attention_dropout", 0, "0"));
    RETURN_IF_FAILED(require_number(root, what, "partial_rotary_factor", 1, "1"));
    const json_t *quantization = field_value(root, "quantization_config");
    if (quantization)
        return unsupported(what, "quantization_config", quantization, "null (float weights)");
    return DYNO_OK;
}

static dyno_status read_fields(const json_t *root, const char *what, model_config *out) {
    if (!json_is_object(root))
        return dyno_fail(DYNO_CORRUPT, "%s: a config.json must hold a JSON object", what);
    RETURN_IF_FAILED(require_supported(root, what));
    model_config config = {.name = "llama"};
    RETURN_IF_FAILED(read_required(root, what, "hidden_size", &config.d_model));
    RETURN_IF_FAILED(read_required(root, what, "intermediate_size", &config.d_ff));
    RETURN_IF_FAILED(read_required(root, what, "num_hidden_layers", &config.layers));
    RETURN_IF_FAILED(read_required(root, what, "num_attention_heads", &config.heads));
    RETURN_IF_FAILED(
        read_optional(root, what, "num_key_value_heads", config.heads, &config.kv_heads));
    /* The division is safe and the result meaningful only for a good number of heads; a bad
     * one is named by the check, which looks at it before head_dim. */
    int64_t derived = config.heads > 0 ? config.d_model / config.heads : 0;
    RETURN_IF_FAILED(read_optional(root, what, "head_dim", derived, &config.head_dim));
    RETURN_IF_FAILED(read_required(root, what, "vocab_size", &config.vocab));
    RETURN_IF_FAILED(read_real(root, what, "rms_norm_eps", 1e-6, &config.norm_eps));
    RETURN_IF_FAILED(read_real(root, what, "rope_theta", 10000, &config.rope_theta));
    RETURN_IF_FAILED(read_rope(root, what, "rope_scaling", &config.rope_theta));
    RETURN_IF_FAILED(read_rope(root, what, "rope_parameters", &config.rope_theta));
    if (config_check(&config, &json_names) != DYNO_OK)
        return dyno_fail_within(DYNO_CORRUPT, "%s", what);
    *out = config;
    return DYNO_OK;
}

dyno_status model_config_parse(const char *bytes, size_t size, const char *what,
                               model_config *out) {
    json_t *root;
    RETURN_IF_FAILED(json_parse(bytes, size, what, &root));
    dyno_status status = read_fields(root, what, out);
    json_decref(root);
    return status;
}

static void set_name(model_config *config, const char *begin, const char *end) {
    if (begin < end && *begin != '.') /* "." and ".." say nothing */
        snprintf(config->name, sizeof config->name, "%.*s", (int)(end - begin), begin);
}

/* "models/tiny/config.json" -> "tiny", "models/tiny.json" -> "tiny"; a bare config.json leaves the
 * name as it is. */
static void name_after_path(const char *path, model_config *config) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (strcmp(file, "config.json") != 0) {
        const char *dot = strrchr(file, '.');
        set_name(config, file, dot ? dot : file + strlen(file));
        return;
    }
    const char *end = slash;
    while (end && end > path && end[-1] == '/')
        end--;
    const char *begin = end;
    while (begin && begin > path && begin[-1] != '/')
        begin--;
    if (end)
        set_name(config, begin, end);
}

dyno_status model_config_read_text(const char *path, model_config *out, char **bytes) {
    size_t size;
    RETURN_IF_FAILED(file_read_all(path, CONFIG_FILE_LIMIT, bytes, &size));
    dyno_status status = model_config_parse(*bytes, size, path, out);
    if (status == DYNO_OK) {
        name_after_path(path, out);
    } else {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

dyno_status model_config_read(const char *path, model_config *out) {
    char *bytes;
    dyno_status status = model_config_read_text(path, out, &bytes);
    free(bytes);
    return status;
}

/* Sizes that a file may leave out, and that then follow from others, are added where they differ. */
static char *set_size(char *json, const char *field, int64_t before, int64_t now,
                      bool may_be_left) {
    const char *end;
    char number[24];
    if (before == now || (may_be_left && !json_text_find(json, field, &end)))
        return json;
    snprintf(number, sizeof number, "%" PRId64, now);
    return json_text_set(json, field, number);
}

char *model_config_change_text(const char *json, const model_config *from, const model_config *to) {
    char *now = memory_copy_string(json);
    now = set_size(now, json_names.d_model, from->d_model, to->d_model, false);
    now = set_size(now, json_names.d_ff, from->d_ff, to->d_ff, false);
    now = set_size(now, json_names.layers, from->layers, to->layers, false);
    now = set_size(now, json_names.heads, from->heads, to->heads, false);
    now =
        set_size(now, json_names.kv_heads, from->kv_heads, to->kv_heads, to->kv_heads == to->heads);
    now = set_size(now, json_names.head_dim, from->head_dim, to->head_dim,
                   to->head_dim == to->d_model / to->heads);
    return set_size(now, json_names.vocab, from->vocab, to->vocab, false);
}

json_t *model_config_to_json(const model_config *config) {
    /* rope_theta stands twice, at the top for transformers 4 and inside for 5. */
    return json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:{s:f, s:s}, s:b, "
        "s:b, s:b, s:f, s:f, s:i, s:b, s:n, s:n, s:s}",
        "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_act", "silu",
        "hidden_size", (json_int_t)config->d_model, "intermediate_size", (json_int_t)config->d_ff,
        "num_hidden_layers", (json_int_t)config->layers, "num_attention_heads",
        (json_int_t)config->heads, "num_key_value_heads", (json_int_t)config->kv_heads, "head_dim",
        (json_int_t)config->head_dim, "vocab_size", (json_int_t)config->vocab,
        "max_position_embeddings", (int)MAX_POSITIONS, "rms_norm_eps", config->norm_eps,
        "rope_theta", config->rope_theta, "rope_parameters", "rope_theta", config->rope_theta,
        "rope_type", "default", "attention_bias", 0, "mlp_bias", 0, "tie_word_embeddings", 0,
        "attention_dropout", 0.0, "initializer_range", 0.02, "pretraining_tp", 1, "use_cache", 1,
        "bos_token_id", "eos_token_id", "torch_dtype", "float32");
}
