#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>

#include "formats/config_json.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "support/scratch.h"

static void assert_message_has(const char *part) {
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static const model_config tiny = {.name = "tiny",
                                  .d_model = 16,
                                  .d_ff = 24,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .vocab = 30,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

/* Gives element i of parameter p the value p + i / 1024; fails at parameter `fail_at`. */
typedef struct numbered {
    float data[4096];
    int fail_at;
} numbered;

static dyno_status numbered_source(void *context, int index, const model_parameter *parameter,
                                   const float **data) {
    numbered *values = context;
    if (index == values->fail_at)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "made to fail");
    for (int64_t i = 0; i < shape_elements(&parameter->shape); i++)
        values->data[i] = (float)index + (float)i / 1024;
    *data = values->data;
    return DYNO_OK;
}

static dyno_status write_tiny(const char *path) {
    numbered values = {.fail_at = -1};
    return hf_directory_write(path, &tiny, numbered_source, &values);
}

static void assert_numbered(const hf_directory *directory) {
    for (int p = 0; p < model_parameter_count(&tiny); p++) {
        model_parameter parameter = model_parameter_at(&tiny, p);
        float data[4096];
        assert_int_equal(hf_directory_read(directory, parameter.name, data), DYNO_OK);
        for (int64_t i = 0; i < shape_elements(&parameter.shape); i++)
            assert_true(data[i] == (float)p + (float)i / 1024);
    }
}

static dyno_status open_and_close(const char *path) {
    hf_directory *directory;
    dyno_status status = hf_directory_open(path, &directory);
    if (status != DYNO_OK)
        assert_null(directory);
    hf_directory_close(directory);
    return status;
}

/* How one weights file differs from what the model wants. */
typedef struct flaws {
    const char *without;  /* this tensor is left out */
    const char *extra;    /* this tensor is added */
    const char *misshape; /* this tensor gets one more row */
    const char *retype;   /* this tensor becomes `type` */
    dtype type;
    int first, count; /* only these parameters; count 0: all */
} flaws;

static void write_weights(const scratch *made, const char *name, flaws with) {
    safetensors_tensor tensors[64];
    model_parameter parameters[64];
    int count = 0;
    int64_t bytes = 0;
    int end = with.count ? with.first + with.count : model_parameter_count(&tiny);
    for (int p = with.first; p < end; p++) {
        parameters[count] = model_parameter_at(&tiny, p);
        const char *parameter = parameters[count].name;
        if (with.without && strcmp(parameter, with.without) == 0)
            continue;
        tensors[count] = (safetensors_tensor){
            .name = parameter, .type = DTYPE_F32, .shape = parameters[count].shape};
        if (with.misshape && strcmp(parameter, with.misshape) == 0)
            tensors[count].shape.dim[0]++;
        if (with.retype && strcmp(parameter, with.retype) == 0)
            tensors[count].type = with.type;
        count++;
    }
    if (with.extra)
        tensors[count++] =
            (safetensors_tensor){.name = with.extra, .type = DTYPE_F32, .shape = SHAPE(2)};
    for (int i = 0; i < count; i++)
        bytes += shape_elements(&tensors[i].shape) * dtype_bytes(tensors[i].type);
    safetensors_writer *writer;
    assert_int_equal(
        safetensors_writer_create(scratch_join(made, name).text, tensors, count, NULL, &writer),
        DYNO_OK);
    char *zeros = calloc((size_t)bytes, 1);
    assert_int_equal(safetensors_writer_append(writer, zeros, (size_t)bytes), DYNO_OK);
    free(zeros);
    assert_int_equal(safetensors_writer_commit(writer), DYNO_OK);
}

/* config.json alone. */
static scratch make_directory(void) {
    scratch made = scratch_create();
    json_t *config = model_config_to_json(&tiny);
    assert_int_equal(json_write_file(scratch_join(&made, "config.json").text, config), DYNO_OK);
    json_decref(config);
    return made;
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "deep/model");
    assert_int_equal(write_tiny(path.text), DYNO_OK);
    assert_int_equal(scratch_count(path.text), 2);
    hf_directory *directory;
    assert_int_equal(hf_directory_open(path.text, &directory), DYNO_OK);
    const model_config *config = hf_directory_config(directory);
    assert_string_equal(config->name, "model");
    assert_int_equal(config->d_model, tiny.d_model);
    assert_int_equal(config->kv_heads, tiny.kv_heads);
    assert_true(config->norm_eps == tiny.norm_eps);
    assert_numbered(directory);
    float unused[1];
    assert_int_equal(hf_directory_read(directory, "model.layers.2.mlp.up_proj.weight", unused),
                     DYNO_NOT_FOUND);
    hf_directory_close(directory);
    hf_directory_close(NULL);
    assert_int_equal(write_tiny(path.text), DYNO_OK); /* over itself */
    assert_int_equal(scratch_count(path.text), 2);
    scratch_remove(&made);
}

static void failed_write_leaves_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "model");
    numbered values = {.fail_at = 7};
    assert_int_equal(hf_directory_write(path.text, &tiny, numbered_source, &values),
                     DYNO_OUT_OF_MEMORY);
    assert_int_equal(scratch_count(path.text), -1);
    model_config bad = tiny;
    bad.head_dim = 3;
    assert_int_equal(hf_directory_write(path.text, &bad, numbered_source, &values), DYNO_INVALID);
    assert_int_equal(scratch_count(made.path), 0);
    const long limits[] = {0, 100, 1000, 8000};
    for (int i = 0; i < 4; i++) {
        scratch_limit_file_size(limits[i]);
        dyno_status status = write_tiny(path.text);
        scratch_limit_file_size(-1);
        assert_int_equal(status, DYNO_IO);
        assert_int_equal(scratch_count(made.path), 0);
    }
    /* With an old model in place, that one stays whole. */
    assert_int_equal(write_tiny(path.text), DYNO_OK);
    scratch_limit_file_size(8000);
    dyno_status status = write_tiny(path.text);
    scratch_limit_file_size(-1);
    assert_int_equal(status, DYNO_IO);
    assert_int_equal(scratch_count(path.text), 2);
    hf_directory *directory;
    assert_int_equal(hf_directory_open(path.text, &directory), DYNO_OK);
    assert_numbered(directory);
    hf_directory_close(directory);
    scratch_remove(&made);
}

static void directory_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "file", "x", 1);
    assert_int_equal(write_tiny(scratch_join(&made, "file/model").text), DYNO_IO);
    assert_int_equal(write_tiny("/proc/model"), DYNO_IO); /* root neither */
    assert_int_equal(scratch_count(made.path), 1);
    scratch_remove(&made);
}

static void other_float_types_are_converted(void **state) {
    (void)state;
    const dtype types[] = {DTYPE_F64, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < 3; i++) {
        scratch made = make_directory();
        write_weights(&made, "model.safetensors",
                      (flaws){.retype = "model.norm.weight", .type = types[i]});
        hf_directory *directory;
        assert_int_equal(hf_directory_open(made.path, &directory), DYNO_OK);
        float data[16];
        memset(data, 0xff, sizeof data);
        assert_int_equal(hf_directory_read(directory, "model.norm.weight", data), DYNO_OK);
        for (int k = 0; k < 16; k++)
            assert_true(data[k] == 0);
        hf_directory_close(directory);
        scratch_remove(&made);
    }
}

static void wrong_weights_are_named(void **state) {
    (void)state;
    const char *v = "model.layers.1.self_attn.v_proj.weight";
    const struct {
        flaws with;
        dyno_status status;
        const char *tensor, *message;
    } cases[] = {
        {{.without = v}, DYNO_NOT_FOUND, v, "model.safetensors' has no tensor"},
        {{.without = "lm_head.weight"}, DYNO_NOT_FOUND, "lm_head.weight", "no tensor"},
        {{.misshape = v}, DYNO_CORRUPT, v, "shape [9,16], config.json makes it [8,16]"},
        {{.retype = v, .type = DTYPE_I32}, DYNO_UNSUPPORTED, v, "i32"},
        {{.extra = "model.layers.2.mlp.up_proj.weight"},
         DYNO_UNSUPPORTED,
         "model.layers.2.mlp.up_proj.weight",
         "does not have"},
        {{.extra = "model.layers.0.self_attn.q_proj.bias"},
         DYNO_UNSUPPORTED,
         "model.layers.0.self_attn.q_proj.bias",
         "does not have"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch made = make_directory();
        write_weights(&made, "model.safetensors", cases[i].with);
        assert_int_equal(open_and_close(made.path), cases[i].status);
        assert_message_has(cases[i].tensor);
        assert_message_has(cases[i].message);
        scratch_remove(&made);
    }
}

static void stored_rotary_frequencies_are_ignored(void **state) {
    (void)state;
    scratch made = make_directory();
    write_weights(&made, "model.safetensors",
                  (flaws){.extra = "model.layers.0.self_attn.rotary_emb.inv_freq"});
    assert_int_equal(open_and_close(made.path), DYNO_OK);
    scratch_remove(&made);
}

static void incomplete_directories_are_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    assert_int_equal(open_and_close(scratch_join(&made, "absent").text), DYNO_NOT_FOUND);
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    assert_message_has("config.json");
    scratch_write(&made, "config.json", "{}", 2);
    assert_int_equal(open_and_close(scratch_join(&made, "config.json").text), DYNO_INVALID);
    assert_message_has("not a directory");
    assert_int_equal(open_and_close(made.path), DYNO_CORRUPT);
    scratch_remove(&made);
    made = make_directory();
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    assert_message_has("model.safetensors.index.json");
    scratch_write(&made, "model.safetensors", "123456789", 9);
    assert_int_equal(open_and_close(made.path), DYNO_CORRUPT);
    scratch_remove(&made);
}

/* An index that sends the first `first` parameters to one file and the others to another. */
static json_t *make_index(int first, const char *one, const char *other) {
    json_t *map = json_object();
    for (int p = 0; p < model_parameter_count(&tiny); p++) {
        model_parameter parameter = model_parameter_at(&tiny, p);
        json_object_set_new(map, parameter.name, json_string(p < first ? one : other));
    }
    return json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
}

static void write_index(const scratch *made, json_t *index) {
    assert_int_equal(
        json_write_file(scratch_join(made, "model.safetensors.index.json").text, index), DYNO_OK);
    json_decref(index);
}

enum { SPLIT = 9 };

static scratch make_sharded(void) {
    scratch made = make_directory();
    write_weights(&made, "a.safetensors", (flaws){.first = 0, .count = SPLIT});
    write_weights(&made, "b.safetensors",
                  (flaws){.first = SPLIT, .count = model_parameter_count(&tiny) - SPLIT});
    write_index(&made, make_index(SPLIT, "a.safetensors", "b.safetensors"));
    return made;
}

static void several_files_are_read_through_their_index(void **state) {
    (void)state;
    scratch made = make_sharded();
    hf_directory *directory;
    assert_int_equal(hf_directory_open(made.path, &directory), DYNO_OK);
    float data[4096];
    for (int p = 0; p < model_parameter_count(&tiny); p++) {
        model_parameter parameter = model_parameter_at(&tiny, p);
        assert_int_equal(hf_directory_read(directory, parameter.name, data), DYNO_OK);
    }
    hf_directory_close(directory);
    scratch_remove(&made);
}

static void index_that_contradicts_its_files_is_refused(void **state) {
    (void)state;
    scratch made = make_sharded();
    write_index(&made, make_index(SPLIT + 1, "a.safetensors", "b.safetensors"));
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    assert_message_has("a.safetensors' has no tensor");
    json_t *index = make_index(SPLIT, "a.safetensors", "b.safetensors");
    json_object_del(json_object_get(index, "weight_map"), "lm_head.weight");
    write_index(&made, index);
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    assert_message_has("names no file for the tensor 'lm_head.weight'");
    write_index(&made, make_index(SPLIT, "a.safetensors", "c.safetensors"));
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    assert_message_has("c.safetensors");
    /* A tensor that is in both files. */
    write_weights(&made, "a.safetensors", (flaws){.first = 0, .count = SPLIT + 1});
    write_index(&made, make_index(SPLIT, "a.safetensors", "b.safetensors"));
    assert_int_equal(open_and_close(made.path), DYNO_UNSUPPORTED);
    assert_message_has("a.safetensors");
    scratch_remove(&made);
}

static void malformed_index_is_refused(void **state) {
    (void)state;
    scratch made = make_sharded();
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"weight_map\": null}",
        "{\"weight_map\": []}",
        "{\"weight_map\": \"a.safetensors\"}",
        "{\"weight_map\": {\"lm_head.weight\": 7}}",
        "{\"weight_map\": {\"lm_head.weight\": null}}",
        "{\"weight_map\": {\"a\": \"a.safetensors\", \"a\": \"a.safetensors\"}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write(&made, "model.safetensors.index.json", bad[i], strlen(bad[i]));
        assert_int_equal(open_and_close(made.path), DYNO_CORRUPT);
    }
    scratch_write(&made, "model.safetensors.index.json", "{\"weight_map\": {}}", 18);
    assert_int_equal(open_and_close(made.path), DYNO_NOT_FOUND);
    scratch_remove(&made);
}

static void index_cannot_lead_out_of_the_directory(void **state) {
    (void)state;
    scratch made = make_sharded();
    static const char *const bad[] = {
        "../a.safetensors",
        "/etc/passwd",
        "sub/a.safetensors",
        "..",
        ".",
        "",
        ".a.safetensors",
        "a.bin",
        ".safetensors",
        "a..safetensors",
        "/a.safetensors",
        "..\\a.safetensors",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_index(&made, make_index(SPLIT, "a.safetensors", bad[i]));
        assert_int_equal(open_and_close(made.path), DYNO_CORRUPT);
        assert_message_has("plain name");
    }
    scratch_remove(&made);
}

static void index_of_too_many_files_is_refused(void **state) {
    (void)state;
    scratch made = make_directory();
    json_t *map = json_object();
    const unsigned char empty[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    for (int i = 0; i < 600; i++) {
        char name[64];
        snprintf(name, sizeof name, "%d.safetensors", i);
        scratch_write(&made, name, empty, sizeof empty);
        json_object_set_new(map, name, json_string(name));
    }
    write_index(&made, json_pack("{s:o}", "weight_map", map));
    assert_int_equal(open_and_close(made.path), DYNO_UNSUPPORTED);
    assert_message_has("512 files");
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(failed_write_leaves_nothing),
        cmocka_unit_test(directory_that_cannot_be_written_is_an_error),
        cmocka_unit_test(other_float_types_are_converted),
        cmocka_unit_test(wrong_weights_are_named),
        cmocka_unit_test(stored_rotary_frequencies_are_ignored),
        cmocka_unit_test(incomplete_directories_are_refused),
        cmocka_unit_test(several_files_are_read_through_their_index),
        cmocka_unit_test(index_that_contradicts_its_files_is_refused),
        cmocka_unit_test(malformed_index_is_refused),
        cmocka_unit_test(index_cannot_lead_out_of_the_directory),
        cmocka_unit_test(index_of_too_many_files_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
