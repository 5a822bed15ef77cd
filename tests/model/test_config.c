#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "formats/config_json.h"
#include "model/config.h"
#include "model/parameters.h"
#include "support/scratch.h"

static void assert_message_has(const char *part) {
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static dyno_status parse(const char *json, model_config *out) {
    return model_config_parse(json, strlen(json), "config.json", out);
}

/* A good config.json with `extra` (", \"field\": value") added; a field of `extra` that is also
 * in the good one is taken out there, so that it is replaced. */
static dyno_status parse_with(const char *extra, model_config *out) {
    static const char *const fields[][2] = {
        {"model_type", "\"llama\""}, {"hidden_size", "64"},        {"intermediate_size", "128"},
        {"num_hidden_layers", "2"},  {"num_attention_heads", "4"}, {"vocab_size", "100"},
    };
    char json[4096] = "{\"transformers_version\": \"4.40.0\"";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char quoted[64], field[128];
        snprintf(quoted, sizeof quoted, "\"%s\":", fields[i][0]);
        snprintf(field, sizeof field, ", %s %s", quoted, fields[i][1]);
        if (!strstr(extra, quoted))
            strcat(json, field);
    }
    strcat(json, extra);
    strcat(json, "}");
    return parse(json, out);
}

static void presets_are_those_of_the_design(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t d_model, d_ff, layers, heads;
    } expected[] = {
        {"small", 768, 3072, 12, 12}, {"medium", 1024, 4096, 24, 16}, {"large", 1280, 5120, 36, 20},
        {"xl", 1600, 6400, 48, 25},   {"2.7B", 2560, 10240, 32, 32},  {"10B", 4608, 12288, 50, 36},
    };
    assert_int_equal(model_preset_count(), 6);
    for (int i = 0; i < model_preset_count(); i++) {
        const model_config *preset = model_preset(i);
        model_config named;
        assert_int_equal(model_config_from_preset(expected[i].name, &named), DYNO_OK);
        assert_memory_equal(&named, preset, sizeof named);
        assert_string_equal(preset->name, expected[i].name);
        assert_int_equal(preset->d_model, expected[i].d_model);
        assert_int_equal(preset->d_ff, expected[i].d_ff);
        assert_int_equal(preset->layers, expected[i].layers);
        assert_int_equal(preset->heads, expected[i].heads);
        assert_int_equal(preset->kv_heads, expected[i].heads);
        assert_int_equal(preset->head_dim * preset->heads, preset->d_model);
        assert_int_equal(preset->vocab, 10000);
        assert_true(preset->norm_eps == 1e-5 && preset->rope_theta == 10000);
        assert_int_equal(model_config_check(preset), DYNO_OK);
    }
}

static void unknown_preset_suggests_the_nearest_and_lists_all(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("smal", &config), DYNO_INVALID);
    assert_message_has("did you mean 'small'");
    assert_message_has("small, medium, large, xl, 2.7B, 10B");
    assert_int_equal(model_config_from_preset("gigantic-model", &config), DYNO_INVALID);
    assert_null(strstr(dyno_error_message(), "did you mean"));
    assert_message_has("small, medium, large, xl, 2.7B, 10B");
    assert_int_equal(model_config_from_preset("", &config), DYNO_INVALID);
}

static void derive_fills_what_was_left_out(void **state) {
    (void)state;
    model_config config = *model_preset(0);
    config.kv_heads = config.head_dim = 0;
    config.heads = 6;
    model_config_derive(&config);
    assert_int_equal(config.kv_heads, 6);
    assert_int_equal(config.head_dim, 128);
    config.heads = config.head_dim = 0;
    model_config_derive(&config);
    assert_int_equal(model_config_check(&config), DYNO_INVALID);
    assert_message_has("heads is 0");
}

static void check_refused(model_config config, const char *field, const char *value,
                          const char *limit) {
    assert_int_equal(model_config_check(&config), DYNO_INVALID);
    assert_message_has(field);
    assert_message_has(value);
    assert_message_has(limit);
}

static void check_names_the_field_the_value_and_the_limit(void **state) {
    (void)state;
    const model_config good = *model_preset(0);
#define REFUSED(field_name, field_value, value, limit)                                             \
    do {                                                                                           \
        model_config bad = good;                                                                   \
        bad.field_name = field_value;                                                              \
        check_refused(bad, #field_name " is", value, limit);                                       \
    } while (0)
    REFUSED(d_model, 0, "0", "1048576");
    REFUSED(d_model, -768, "-768", "1048576");
    REFUSED(d_model, (1 << 20) + 1, "1048577", "1048576");
    REFUSED(d_model, INT64_MAX, "9223372036854775807", "1048576");
    REFUSED(d_model, INT64_MIN, "-9223372036854775808", "1048576");
    REFUSED(d_ff, 0, "0", "4194304");
    REFUSED(d_ff, INT64_MAX, "9223372036854775807", "4194304");
    REFUSED(layers, 0, "0", "4096");
    REFUSED(layers, 4097, "4097", "4096");
    REFUSED(heads, 0, "0", "16384");
    REFUSED(heads, -1, "-1", "16384");
    REFUSED(heads, 7, "7", "768");
    REFUSED(heads, 1000, "1000", "768");
    REFUSED(kv_heads, 0, "0", "16384");
    REFUSED(kv_heads, 5, "5", "12");
    REFUSED(kv_heads, 24, "24", "12");
    REFUSED(head_dim, 0, "0", "16384");
    REFUSED(head_dim, 63, "63", "even");
    REFUSED(head_dim, 16386, "16386", "16384");
    REFUSED(vocab, 0, "0", "16777216");
    REFUSED(vocab, (1 << 24) + 1, "16777217", "16777216");
    REFUSED(norm_eps, 0, "0", "1");
    REFUSED(norm_eps, -1e-5, "-1e-05", "1");
    REFUSED(norm_eps, (double)NAN, "nan", "1");
    REFUSED(norm_eps, (double)INFINITY, "inf", "1");
    REFUSED(rope_theta, 0, "0", "1e12");
    REFUSED(rope_theta, (double)NAN, "nan", "1e12");
    REFUSED(rope_theta, 1e300, "1e+300", "1e12");
#undef REFUSED
}

static void heads_that_do_not_divide_come_with_a_way_out(void **state) {
    (void)state;
    model_config config = *model_preset(0);
    config.heads = config.kv_heads = 7;
    assert_int_equal(model_config_check(&config), DYNO_INVALID);
    assert_message_has("d_model");
    assert_message_has("the nearest below that does is 6");
}

static void parameter_count_beyond_the_limit_is_refused(void **state) {
    (void)state;
    model_config config = *model_preset(0);
    config.d_model = MODEL_MAX_D_MODEL;
    config.d_ff = MODEL_MAX_D_FF;
    config.layers = MODEL_MAX_LAYERS;
    config.heads = config.kv_heads = MODEL_MAX_HEADS;
    config.head_dim = 64;
    check_refused(config, "parameter count", "72057623600431104", "281474976710656");
    config.head_dim = MODEL_MAX_HEAD_DIM; /* 2^62 and more for attention: near the end of int64 */
    assert_int_equal(model_config_check(&config), DYNO_INVALID);
    assert_message_has("parameter count");
    /* The largest vocabulary of the widest model fits. */
    config = *model_preset(0);
    config.d_model = MODEL_MAX_D_MODEL;
    config.heads = config.kv_heads = 1 << 10;
    config.head_dim = 1 << 10;
    config.vocab = MODEL_MAX_VOCAB;
    assert_int_equal(model_config_check(&config), DYNO_OK);
    assert_true(model_parameter_elements(&config) > (int64_t)1 << 45);
}

static void a_full_llama_config_is_read(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(
        parse("{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false,"
              " \"attention_dropout\": 0.0, \"bos_token_id\": 1, \"eos_token_id\": [1, 2],"
              " \"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 4096,"
              " \"intermediate_size\": 14336, \"max_position_embeddings\": 8192,"
              " \"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32,"
              " \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"pretraining_tp\": 1,"
              " \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, \"rope_theta\": 500000,"
              " \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
              " \"vocab_size\": 128256}",
              &config),
        DYNO_OK);
    assert_string_equal(config.name, "llama");
    assert_int_equal(config.d_model, 4096);
    assert_int_equal(config.d_ff, 14336);
    assert_int_equal(config.layers, 32);
    assert_int_equal(config.heads, 32);
    assert_int_equal(config.kv_heads, 8);
    assert_int_equal(config.head_dim, 128);
    assert_int_equal(config.vocab, 128256);
    assert_true(config.norm_eps == 1e-5 && config.rope_theta == 500000);
    assert_int_equal(model_parameter_elements(&config), 8030261248); /* Llama 3 8B */
}

static void defaults_are_those_of_transformers(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(parse_with("", &config), DYNO_OK);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.head_dim, 16);
    assert_true(config.norm_eps == 1e-6 && config.rope_theta == 10000);
    model_config with_nulls;
    assert_int_equal(parse_with(", \"num_key_value_heads\": null, \"head_dim\": null,"
                                " \"rope_scaling\": null, \"rms_norm_eps\": null,"
                                " \"pretraining_tp\": null, \"architectures\": null",
                                &with_nulls),
                     DYNO_OK);
    assert_memory_equal(&config, &with_nulls, sizeof config);
}

static void rope_parameters_of_newer_transformers_are_read(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(
        parse_with(", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}",
                   &config),
        DYNO_OK);
    assert_true(config.rope_theta == 500000);
    assert_int_equal(parse_with(", \"rope_scaling\": {\"type\": \"default\"}", &config), DYNO_OK);
    assert_true(config.rope_theta == 10000);
    assert_int_equal(parse_with(", \"rope_theta\": 20000.0, \"rope_parameters\":"
                                " {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}",
                                &config),
                     DYNO_CORRUPT);
    assert_message_has("20000");
    assert_message_has("500000");
}

static void architectures_alone_are_enough(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(
        parse_with(", \"model_type\": null, \"architectures\": [\"LlamaForCausalLM\"]", &config),
        DYNO_OK);
    assert_int_equal(parse_with(", \"model_type\": null", &config), DYNO_CORRUPT);
    assert_message_has("model_type");
}

static void missing_field_is_named(void **state) {
    (void)state;
    static const char *const fields[] = {"hidden_size", "intermediate_size", "num_hidden_layers",
                                         "num_attention_heads", "vocab_size"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char extra[64];
        model_config config;
        snprintf(extra, sizeof extra, ", \"%s\": null", fields[i]);
        assert_int_equal(parse_with(extra, &config), DYNO_CORRUPT);
        assert_message_has(fields[i]);
        assert_message_has("missing");
    }
}

static void absurd_field_is_named_with_its_value(void **state) {
    (void)state;
    static const struct {
        const char *extra, *field, *value;
    } cases[] = {
        {", \"hidden_size\": 0", "hidden_size is", "0"},
        {", \"hidden_size\": -64", "hidden_size is", "-64"},
        {", \"hidden_size\": 9223372036854775807", "hidden_size is", "9223372036854775807"},
        {", \"hidden_size\": \"64\"", "hidden_size is", "\"64\""},
        {", \"hidden_size\": 64.5", "hidden_size is", "64.5"},
        {", \"hidden_size\": [64]", "hidden_size is", "[64]"},
        {", \"hidden_size\": true", "hidden_size is", "true"},
        {", \"hidden_size\": 66", "num_attention_heads is", "66"},
        {", \"intermediate_size\": -1", "intermediate_size is", "-1"},
        {", \"num_hidden_layers\": 1000000", "num_hidden_layers is", "1000000"},
        {", \"num_attention_heads\": 0", "num_attention_heads is", "0"},
        {", \"num_attention_heads\": -4", "num_attention_heads is", "-4"},
        {", \"num_attention_heads\": 3", "num_attention_heads is", "3"},
        {", \"num_attention_heads\": 64", "head_dim is", "1"},
        {", \"num_key_value_heads\": 3", "num_key_value_heads is", "3"},
        {", \"num_key_value_heads\": 0", "num_key_value_heads is", "0"},
        {", \"head_dim\": 15", "head_dim is", "15"},
        {", \"head_dim\": {}", "head_dim is", "{}"},
        {", \"vocab_size\": 4294967296", "vocab_size is", "4294967296"},
        {", \"rms_norm_eps\": 0", "rms_norm_eps is", "0"},
        {", \"rms_norm_eps\": \"1e-5\"", "rms_norm_eps is", "1e-5"},
        {", \"rope_theta\": -1", "rope_theta is", "-1"},
        {", \"rope_theta\": []", "rope_theta is", "[]"},
        {", \"rope_parameters\": 5", "rope_parameters is", "5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config config;
        if (parse_with(cases[i].extra, &config) != DYNO_CORRUPT)
            fail_msg("not refused as corrupt: %s", cases[i].extra);
        assert_message_has("config.json");
        assert_message_has(cases[i].field);
        assert_message_has(cases[i].value);
    }
}

static void unsupported_field_is_named_with_what_is_supported(void **state) {
    (void)state;
    static const struct {
        const char *extra, *field, *value, *supported;
    } cases[] = {
        {", \"model_type\": \"mistral\"", "model_type is", "mistral", "llama"},
        {", \"model_type\": 7", "model_type is", "7", "llama"},
        {", \"architectures\": [\"LlamaForSequenceClassification\"]", "architectures is",
         "Sequence", "LlamaForCausalLM"},
        {", \"architectures\": \"LlamaForCausalLM\"", "architectures is", "Llama", "["},
        {", \"hidden_act\": \"gelu\"", "hidden_act is", "gelu", "silu"},
        {", \"attention_bias\": true", "attention_bias is", "true", "false"},
        {", \"mlp_bias\": true", "mlp_bias is", "true", "false"},
        {", \"mlp_bias\": 0", "mlp_bias is", "0", "false"},
        {", \"tie_word_embeddings\": true", "tie_word_embeddings is", "true", "false"},
        {", \"pretraining_tp\": 2", "pretraining_tp is", "2", "1"},
        {", \"attention_dropout\": 0.1", "attention_dropout is", "0.1", "0"},
        {", \"quantization_config\": {\"bits\": 4}", "quantization_config is", "bits", "null"},
        {", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}", "rope_scaling is", "linear",
         "default"},
        {", \"rope_scaling\": {\"factor\": 2.0}", "rope_scaling is", "factor", "default"},
        {", \"rope_parameters\": {\"rope_type\": \"llama3\"}", "rope_parameters is", "llama3",
         "default"},
        {", \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}",
         "partial_rotary_factor is", "0.5", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config config;
        if (parse_with(cases[i].extra, &config) != DYNO_UNSUPPORTED)
            fail_msg("not refused as unsupported: %s", cases[i].extra);
        assert_message_has(cases[i].field);
        assert_message_has(cases[i].value);
        assert_message_has(cases[i].supported);
    }
}

static void text_that_is_no_config_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[]",
        "null",
        "7",
        "\"llama\"",
        "{\"model_type\": \"llama\"",
        "{\"model_type\": \"llama\", \"model_type\": \"llama\"}",
        "{\"hidden_size\": 99999999999999999999999999}",
        "{} {}",
        "\xff\xfe{}",
        "{\"rope_theta\": 1e999}",
        "{\"model_type\": \"ll\\u0000ama\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model_config config;
        if (parse(bad[i], &config) != DYNO_CORRUPT)
            fail_msg("not refused: %s", bad[i]);
    }
    /* Deep nesting must be an error, not the end of the stack. */
    enum { DEPTH = 200000 };
    char *deep = malloc(DEPTH);
    memset(deep, '[', DEPTH);
    model_config config;
    assert_int_equal(model_config_parse(deep, DEPTH, "deep", &config), DYNO_CORRUPT);
    free(deep);
}

static void hostile_strings_do_not_reach_the_terminal(void **state) {
    (void)state;
    char json[2048] = "{\"model_type\": \"\\u001b[2J\\u0007";
    memset(json + strlen(json), 'x', 1000);
    strcat(json, "\"}");
    model_config config;
    assert_int_equal(parse(json, &config), DYNO_UNSUPPORTED);
    assert_null(strchr(dyno_error_message(), '\x1b'));
    assert_message_has("...");
    assert_message_has("only \"llama\" is supported");
    assert_true(strlen(dyno_error_message()) < 300);
}

static void failure_leaves_the_output_alone(void **state) {
    (void)state;
    model_config config, before;
    memset(&config, 0x5a, sizeof config);
    before = config;
    assert_int_equal(parse_with(", \"head_dim\": 15", &config), DYNO_CORRUPT);
    assert_memory_equal(&config, &before, sizeof config);
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    for (int i = 0; i < model_preset_count(); i++) {
        model_config config = *model_preset(i), again;
        config.norm_eps = 1.0 / 3000;
        config.rope_theta = 123456.789;
        config.kv_heads = 1;
        config.head_dim = 96;
        json_t *json = model_config_to_json(&config);
        assert_non_null(json);
        char *dump = json_dumps(json, JSON_REAL_PRECISION(17));
        assert_int_equal(parse(dump, &again), DYNO_OK);
        strcpy(config.name, "llama");
        assert_string_equal(again.name, config.name);
        assert_int_equal(again.d_model, config.d_model);
        assert_int_equal(again.d_ff, config.d_ff);
        assert_int_equal(again.layers, config.layers);
        assert_int_equal(again.heads, config.heads);
        assert_int_equal(again.kv_heads, config.kv_heads);
        assert_int_equal(again.head_dim, config.head_dim);
        assert_int_equal(again.vocab, config.vocab);
        assert_true(again.norm_eps == config.norm_eps && again.rope_theta == config.rope_theta);
        free(dump);
        json_decref(json);
    }
}

static void read_names_the_model_after_its_directory(void **state) {
    (void)state;
    scratch made = scratch_create();
    static const char good[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
        " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 100}";
    scratch_write(&made, "config.json", good, strlen(good));
    model_config config;
    assert_int_equal(model_config_read(scratch_join(&made, "config.json").text, &config), DYNO_OK);
    assert_string_equal(config.name, strrchr(made.path, '/') + 1);
    assert_int_equal(model_config_read(scratch_join(&made, "/config.json").text, &config), DYNO_OK);
    assert_string_equal(config.name, strrchr(made.path, '/') + 1);

    /* A file of another name says more than the directory that it lies in. */
    scratch_write(&made, "tinyllama.json", good, strlen(good));
    assert_int_equal(model_config_read(scratch_join(&made, "tinyllama.json").text, &config),
                     DYNO_OK);
    assert_string_equal(config.name, "tinyllama");
    scratch_write(&made, ".json", good, strlen(good));
    assert_int_equal(model_config_read(scratch_join(&made, ".json").text, &config), DYNO_OK);
    assert_string_equal(config.name, "llama");

    assert_int_equal(model_config_read(scratch_join(&made, "absent.json").text, &config),
                     DYNO_NOT_FOUND);
    assert_message_has("absent.json");
    assert_int_not_equal(model_config_read(made.path, &config), DYNO_OK);
    scratch_path large = scratch_join(&made, "large.json");
    scratch_write(&made, "large.json", "{", 1);
    assert_int_equal(truncate(large.text, (off_t)1 << 40), 0);
    assert_int_equal(model_config_read(large.text, &config), DYNO_INVALID);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_those_of_the_design),
        cmocka_unit_test(unknown_preset_suggests_the_nearest_and_lists_all),
        cmocka_unit_test(derive_fills_what_was_left_out),
        cmocka_unit_test(check_names_the_field_the_value_and_the_limit),
        cmocka_unit_test(heads_that_do_not_divide_come_with_a_way_out),
        cmocka_unit_test(parameter_count_beyond_the_limit_is_refused),
        cmocka_unit_test(a_full_llama_config_is_read),
        cmocka_unit_test(defaults_are_those_of_transformers),
        cmocka_unit_test(rope_parameters_of_newer_transformers_are_read),
        cmocka_unit_test(architectures_alone_are_enough),
        cmocka_unit_test(missing_field_is_named),
        cmocka_unit_test(absurd_field_is_named_with_its_value),
        cmocka_unit_test(unsupported_field_is_named_with_what_is_supported),
        cmocka_unit_test(text_that_is_no_config_is_refused),
        cmocka_unit_test(hostile_strings_do_not_reach_the_terminal),
        cmocka_unit_test(failure_leaves_the_output_alone),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(read_names_the_model_after_its_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
