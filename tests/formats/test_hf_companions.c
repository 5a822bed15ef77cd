/* test_hf_companions.c - a model that was loaded is saved with what was beside its weights. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/file.h"
#include "formats/config_json.h"
#include "formats/hf_companions.h"
#include "formats/hf_directory.h"
#include "formats/json_text.h"
#include "formats/safetensors.h"
#include "support/scratch.h"

#define SIZES                                                                                      \
    "\"hidden_size\":8,\"intermediate_size\":12,\"num_hidden_layers\":1,"                          \
    "\"num_attention_heads\":2,\"vocab_size\":10"

static const model_config tiny = {.name = "tiny",
                                  .d_model = 8,
                                  .d_ff = 12,
                                  .layers = 1,
                                  .heads = 2,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .vocab = 10,
                                  .norm_eps = 1e-6,
                                  .rope_theta = 10000};

static dyno_status ones(void *context, int index, const model_parameter *parameter,
                        const float **data) {
    static float values[256];
    (void)context, (void)index;
    for (int64_t i = 0; i < shape_elements(&parameter->shape); i++)
        values[i] = 1;
    *data = values;
    return DYNO_OK;
}

static void expect_file(const char *directory, const char *name, const char *wanted) {
    char path[600], *data;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(file_read_all(path, 1 << 20, &data, &size), DYNO_OK);
    assert_string_equal(data, wanted);
    free(data);
}

static void only_the_type_of_the_weights_changes(void **state) {
    (void)state;
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"{}", "{}"},
        {"{\"a\": 1e-05,\n \"torch_dtype\" : \"bfloat16\" ,\"b\":null}\n",
         "{\"a\": 1e-05,\n \"torch_dtype\" : \"float32\" ,\"b\":null}\n"},
        {"{\"dtype\":\"float16\",\"torch_dtype\":\"float16\"}",
         "{\"dtype\":\"float32\",\"torch_dtype\":\"float32\"}"},
        {"{\"torch_dtype\":null, \"x\":{\"dtype\":\"float16\"}, \"y\":[{\"dtype\":\"int8\"}]}",
         "{\"torch_dtype\":null, \"x\":{\"dtype\":\"float16\"}, \"y\":[{\"dtype\":\"int8\"}]}"},
        {"{\"note\": \"a \\\"dtype\\\": \\\\\", \"s\": \"}{][\", \"dtype\": \"\\u0062f16\"}",
         "{\"note\": \"a \\\"dtype\\\": \\\\\", \"s\": \"}{][\", \"dtype\": \"float32\"}"},
        {"{\"dtype\":\"float32\"}", "{\"dtype\":\"float32\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = hf_config_as_f32(cases[i].before);
        assert_string_equal(got, cases[i].after);
        free(got);
    }
}

static void one_value_changes_and_the_rest_stays(void **state) {
    (void)state;
    static const struct {
        const char *before, *after;
    } cases[] = {{"{}", "{\n  \"k\": 7}"},
                 {"{\n}\n", "{\n  \"k\": 7\n}\n"},
                 {"{\"a\": {\"k\": 1}}", "{\"a\": {\"k\": 1},\n  \"k\": 7}"},
                 {"{\"a\":1, \"k\" : [1, {}] , \"b\":2}", "{\"a\":1, \"k\" : 7 , \"b\":2}"},
                 {"{\"kk\":1,\"k\":null}", "{\"kk\":1,\"k\":7}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = json_text_set(strdup(cases[i].before), "k", "7");
        assert_string_equal(got, cases[i].after);
        free(got);
    }
}

static void sizes_that_are_changed_are_changed_in_the_text(void **state) {
    (void)state;
    static const char json[] = "{\"model_type\": \"llama\", " SIZES ", \"x\": 1.50}";
    model_config read, again;
    assert_int_equal(model_config_parse(json, sizeof json - 1, "x", &read), DYNO_OK);
    char *same = model_config_change_text(json, &read, &read);
    assert_string_equal(same, json);
    free(same);
    model_config wanted = read;
    wanted.layers = 3;
    wanted.d_model = 24;
    wanted.heads = 6;
    wanted.kv_heads = 3;
    wanted.head_dim = 6;
    char *changed = model_config_change_text(json, &read, &wanted);
    assert_non_null(strstr(changed, "\"x\": 1.50"));
    assert_int_equal(model_config_parse(changed, strlen(changed), "x", &again), DYNO_OK);
    assert_memory_equal(&again, &wanted, sizeof again);
    free(changed);
}

static void companions_are_known_by_name(void **state) {
    (void)state;
    static const char *const yes[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "tokenizer.model",
                                      "generation_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "merges.txt",
                                      "chat_template.jinja",
                                      "qwen.tiktoken"};
    static const char *const no[] = {"config.json",
                                     "model.safetensors",
                                     "model.safetensors.index.json",
                                     "pytorch_model.bin",
                                     "tokenizer.bin",
                                     "tokenizer.json.tmp-12-abcdef",
                                     "run.sh",
                                     "README.md"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(hf_companions_include(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(hf_companions_include(no[i]));
}

/* Opens the model in `from` and writes it, with its companions, to `to`. */
static dyno_status copy_model(const char *from, const char *to, hf_write_options how,
                              char **left_out) {
    hf_directory *directory;
    RETURN_IF_FAILED(hf_directory_open(from, &directory));
    hf_companions *companions = hf_directory_take_companions(directory);
    assert_null(hf_directory_take_companions(directory));
    hf_directory_close(directory);
    how.companions = companions;
    dyno_status status = hf_directory_write_as(to, &tiny, &how, ones, NULL);
    if (left_out)
        *left_out = strdup(companions->left_out);
    hf_companions_destroy(companions);
    return status;
}

static void make_model(const scratch *made) {
    assert_int_equal(hf_directory_write(made->path, &tiny, ones, NULL), DYNO_OK);
}

static void what_was_loaded_is_carried_over(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path to = scratch_join(&made, "to");
    static const char config[] =
        "{\"model_type\":\"llama\", " SIZES ",\n \"my_own\": [1, {\"deep\": 1e-05}],\n"
        " \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128009],"
        " \"max_position_embeddings\": 2048, \"torch_dtype\": \"bfloat16\"}";
    static const char saved[] =
        "{\"model_type\":\"llama\", " SIZES ",\n \"my_own\": [1, {\"deep\": 1e-05}],\n"
        " \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128009],"
        " \"max_position_embeddings\": 2048, \"torch_dtype\": \"float32\"}";
    make_model(&made);
    scratch_write(&made, "config.json", config, sizeof config - 1);
    scratch_write(&made, "generation_config.json", "{\"top_p\": 0.9}", 14);
    scratch_write(&made, "tokenizer.json", "tokens", 6);
    scratch_write(&made, "secret.txt", "no", 2);
    char *left_out;
    assert_int_equal(
        copy_model(made.path, to.text, (hf_write_options){.note = "half way"}, &left_out), DYNO_OK);
    assert_string_equal(left_out, "");
    free(left_out);
    assert_int_equal(scratch_count(to.text), 4);
    expect_file(to.text, "config.json", saved);
    expect_file(to.text, "generation_config.json", "{\"top_p\": 0.9}");
    expect_file(to.text, "tokenizer.json", "tokens");
    safetensors_file *weights;
    assert_int_equal(safetensors_open(scratch_join(&made, "to/model.safetensors").text, &weights),
                     DYNO_OK);
    assert_string_equal(safetensors_metadata(weights, "note"), "half way");
    assert_string_equal(safetensors_metadata(weights, "format"), "pt");
    safetensors_close(weights);
    /* A second time it would be replaced, be it only its tokenizer that is there. */
    assert_int_equal(copy_model(made.path, to.text, (hf_write_options){.is_new = true}, NULL),
                     DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "config.json is there"));
    unlink(scratch_join(&made, "to/config.json").text);
    unlink(scratch_join(&made, "to/model.safetensors").text);
    unlink(scratch_join(&made, "to/generation_config.json").text);
    assert_int_equal(copy_model(made.path, to.text, (hf_write_options){.is_new = true}, NULL),
                     DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "tokenizer.json is there"));
    /* Over itself. */
    assert_int_equal(copy_model(made.path, made.path, (hf_write_options){0}, NULL), DYNO_OK);
    expect_file(made.path, "config.json", saved);
    expect_file(made.path, "tokenizer.json", "tokens");
    scratch_remove(&made);
}

static void links_that_lead_out_are_not_followed(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path model = scratch_join(&made, "snapshots/abc"), to = scratch_join(&made, "to");
    scratch inside = {0};
    strcpy(inside.path, model.text);
    assert_int_equal(file_make_output_directory(model.text), DYNO_OK);
    assert_int_equal(file_make_output_directory(scratch_join(&made, "blobs").text), DYNO_OK);
    make_model(&inside);
    scratch_write(&made, "blobs/1234", "from the cache", 14);
    scratch_write(&made, "secret", "secret", 6);
    scratch_write(&inside, "real.txt", "inside", 6);
    assert_int_equal(symlink("../../blobs/1234", scratch_join(&inside, "tokenizer.json").text), 0);
    assert_int_equal(symlink("real.txt", scratch_join(&inside, "vocab.txt").text), 0);
    assert_int_equal(symlink("../../secret", scratch_join(&inside, "merges.txt").text), 0);
    assert_int_equal(symlink("/nowhere", scratch_join(&inside, "vocab.json").text), 0);
    assert_int_equal(mkfifo(scratch_join(&inside, "added_tokens.json").text, 0600), 0);
    assert_int_equal(mkdir(scratch_join(&inside, "tokenizer.model").text, 0700), 0);
    scratch_write(&inside, "tokenizer_config.json", "x", 1);
    assert_int_equal(truncate(scratch_join(&inside, "tokenizer_config.json").text, 1L << 40), 0);
    char *left_out;
    assert_int_equal(copy_model(model.text, to.text, (hf_write_options){0}, &left_out), DYNO_OK);
    static const char *const named[] = {"merges.txt: it is a link that leads out",
                                        "vocab.json: it is a link that leads out",
                                        "is not a regular file",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json: it has 1.00 TiB, the limit is"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strstr(left_out, named[i]))
            fail_msg("'%s' is not in: %s", named[i], left_out);
    free(left_out);
    assert_int_equal(scratch_count(to.text), 4);
    expect_file(to.text, "tokenizer.json", "from the cache");
    expect_file(to.text, "vocab.txt", "inside");
    scratch_remove(&made);
}

static void a_model_in_several_files_becomes_one(void **state) {
    (void)state;
    scratch made = scratch_create();
    static const char index[] = "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", "
                                "\"b\": \"model-00002-of-00002.safetensors\", "
                                "\"c\": \"../outside.safetensors\"}}";
    scratch_path model = scratch_join(&made, "model");
    scratch inside = {0};
    strcpy(inside.path, model.text);
    assert_int_equal(mkdir(model.text, 0700), 0);
    scratch_write(&made, "outside.safetensors", "", 0);
    scratch_write(&inside, "model.safetensors.index.json", index, sizeof index - 1);
    scratch_write(&inside, "model-00001-of-00002.safetensors", "", 0);
    scratch_write(&inside, "model-00002-of-00002.safetensors", "", 0);
    scratch_write(&inside, "adapter.safetensors", "", 0);
    hf_write_options is_new = {.is_new = true};
    assert_int_equal(hf_directory_write_as(model.text, &tiny, &is_new, ones, NULL), DYNO_INVALID);
    assert_int_equal(scratch_count(model.text), 4);
    assert_int_equal(hf_directory_write(model.text, &tiny, ones, NULL), DYNO_OK);
    assert_int_equal(scratch_count(model.text), 3); /* config, weights, and what is no part of it */
    assert_true(file_exists(scratch_join(&inside, "adapter.safetensors").text));
    assert_true(file_exists(scratch_join(&made, "outside.safetensors").text));
    scratch_remove(&made);
}

static void places_are_checked_without_a_trace(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "file", "", 0);
    assert_int_equal(hf_directory_check_write(scratch_join(&made, "a/b/c").text, NULL, true),
                     DYNO_OK);
    assert_int_equal(hf_directory_check_write("/proc/none", NULL, true), DYNO_IO);
    assert_int_equal(hf_directory_check_write(scratch_join(&made, "file/c").text, NULL, true),
                     DYNO_IO);
    assert_int_equal(hf_directory_check_write("", NULL, true), DYNO_INVALID);
    assert_int_equal(scratch_count(made.path), 1);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_type_of_the_weights_changes),
        cmocka_unit_test(one_value_changes_and_the_rest_stays),
        cmocka_unit_test(sizes_that_are_changed_are_changed_in_the_text),
        cmocka_unit_test(companions_are_known_by_name),
        cmocka_unit_test(what_was_loaded_is_carried_over),
        cmocka_unit_test(links_that_lead_out_are_not_followed),
        cmocka_unit_test(a_model_in_several_files_becomes_one),
        cmocka_unit_test(places_are_checked_without_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
