/* test_golden.c - whole training steps against vectors that a float64 model made with PyTorch
 * (tests/golden/generate.py says how), for every case there is. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/threads.h"
#include "support/numbers.h"
#include "support/scratch.h"
#include "train/hf_directory.h"
#include "train/safetensors.h"
#include "train/tokens.h"
#include "train/trainer.h"

enum { MAX_CASES = 32, MEMORY_LIMIT = 1 << 28 };

typedef struct golden {
    char path[512];
    hf_directory *model;
    step_options options;
    int64_t steps;
    double learning_rate;
    int32_t *ids; /* of all steps, and the last target */
} golden;

static void expect_ok(dyno_status status, const char *where) {
    if (status != DYNO_OK)
        fail_msg("%s: %s", where, dyno_error_message());
}

static int is_case(const struct dirent *entry) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s/case.json", DYNO_TEST_DIR, entry->d_name);
    return access(path, R_OK) == 0;
}

static double setting(const json_t *root, const char *key) {
    const json_t *found = json_object_get(root, key);
    assert_true(json_is_number(found));
    return json_number_value(found);
}

static golden golden_open(const char *name) {
    golden c = {0};
    char file[600];
    json_t *root;
    snprintf(c.path, sizeof c.path, "%s/golden/%s", DYNO_TEST_DIR, name);
    expect_ok(hf_directory_open(c.path, &c.model), c.path);
    snprintf(file, sizeof file, "%s/case.json", c.path);
    expect_ok(json_read_file(file, &root), file);
    c.steps = (int64_t)setting(root, "steps");
    c.learning_rate = setting(root, "lr");
    c.options = (step_options){
        .config = *hf_directory_config(c.model),
        .batch = (int64_t)setting(root, "batch"),
        .context = (int64_t)setting(root, "context"),
        .keep_logits = true,
        .pipeline = {.pass = STEP_FULL,
                     .target = BACKEND_CPU,
                     .keep_gradients = true,
                     .optimizer = {.adamw = {.beta1 = setting(root, "beta1"),
                                             .beta2 = setting(root, "beta2"),
                                             .eps = setting(root, "eps"),
                                             .weight_decay = setting(root, "weight_decay")},
                                   .clip_norm = setting(root, "clip")}}};
    json_decref(root);
    snprintf(file, sizeof file, "%s/tokens.bin", c.path);
    tokens *source;
    expect_ok(tokens_open(file, 2, &source), file);
    int64_t count = c.steps * c.options.batch * c.options.context + 1;
    assert_int_equal(tokens_count(source), count);
    c.ids = memory_allocate((size_t)count, sizeof *c.ids);
    expect_ok(tokens_read(source, 0, count, c.options.config.vocab, c.ids), file);
    tokens_close(source);
    return c;
}

static void golden_close(golden *c) {
    hf_directory_close(c->model);
    free(c->ids);
}

/* Everything a case's steps compute, in one row of floats: logits and gradients of the first
 * step, each loss, weights after the last. */
typedef struct answers {
    char (*names)[128];
    float **slices; /* into data, one for each name */
    int64_t *sizes;
    int count;
    float *data;
    int64_t used;
} answers;

static void answers_add(answers *a, const char *name, const void *data, int64_t elements) {
    snprintf(a->names[a->count], sizeof *a->names, "%s", name);
    a->slices[a->count] = a->data + a->used;
    a->sizes[a->count++] = elements;
    memcpy(a->data + a->used, data, (size_t)elements * sizeof(float));
    a->used += elements;
}

static void answers_add_tensor(answers *a, const trainer *t, const char *name, const char *prefix) {
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    tensor found = trainer_find(t, strcmp(prefix, "g.") == 0 ? full : name);
    assert_non_null(found.data);
    assert_true(tensor_is_contiguous(&found) && found.type == DTYPE_F32);
    answers_add(a, full, found.data, shape_elements(&found.shape));
}

static void answers_add_parameters(answers *a, const trainer *t, const golden *c,
                                   const char *prefix) {
    const model_config *config = &c->options.config;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        answers_add_tensor(a, t, p.name, prefix);
    }
}

static answers answers_reserve(const golden *c) {
    const model_config *config = &c->options.config;
    int64_t rows = c->options.batch * c->options.context;
    size_t names = 1 + (size_t)c->steps + 2 * (size_t)model_parameter_count(config);
    size_t floats =
        (size_t)(rows * config->vocab + c->steps + 2 * model_parameter_elements(config));
    answers a = {0};
    a.names = memory_allocate(names, sizeof *a.names);
    a.slices = memory_allocate(names, sizeof *a.slices);
    a.sizes = memory_allocate(names, sizeof *a.sizes);
    a.data = memory_allocate(floats, sizeof *a.data);
    return a;
}

static void answers_release(answers *a) {
    free(a->names);
    free(a->slices);
    free(a->sizes);
    free(a->data);
}

/* Leaves the trainer in *model if it is not NULL. */
static answers run_steps(const golden *c, int threads, trainer **model) {
    trainer *t;
    answers a = answers_reserve(c);
    int64_t rows = c->options.batch * c->options.context;
    threads_set_count(threads);
    expect_ok(trainer_create(device_cpu(), &c->options, MEMORY_LIMIT, &t), c->path);
    expect_ok(weights_load(trainer_storage(t), c->model), c->path);
    for (int64_t k = 0; k < c->steps; k++) {
        float loss;
        char name[32];
        const int32_t *ids = c->ids + k * rows;
        expect_ok(trainer_step(t, ids, ids + 1, c->learning_rate, &loss), c->path);
        if (k == 0) {
            answers_add_tensor(&a, t, "logits", "");
            answers_add_parameters(&a, t, c, "g.");
        }
        snprintf(name, sizeof name, "loss.%lld", (long long)k);
        answers_add(&a, name, &loss, 1);
    }
    answers_add_parameters(&a, t, c, "w.");
    threads_set_count(0);
    if (model)
        *model = t;
    else
        trainer_destroy(t);
    return a;
}

static void compare(const golden *c, const answers *a) {
    char path[600];
    safetensors_file *file;
    snprintf(path, sizeof path, "%s/expected.safetensors", c->path);
    expect_ok(safetensors_open(path, &file), path);
    assert_int_equal(safetensors_count(file), a->count);
    for (int i = 0; i < a->count; i++) {
        const safetensors_entry *entry = safetensors_find(file, a->names[i]);
        if (!entry || entry->type != DTYPE_F64 || shape_elements(&entry->shape) != a->sizes[i])
            fail_msg("%s: no f64 '%s' of %lld elements", path, a->names[i], (long long)a->sizes[i]);
        size_t count = (size_t)a->sizes[i];
        double *wanted = memory_allocate(count, sizeof *wanted);
        double *got = memory_allocate(count, sizeof *got);
        expect_ok(safetensors_read_f64(file, entry, wanted), path);
        for (size_t j = 0; j < count; j++)
            got[j] = (double)a->slices[i][j];
        double limit = strncmp(a->names[i], "g.", 2) == 0 ? 1e-4 : 1e-5;
        double error = relative_error(got, wanted, a->sizes[i]);
        if (!(error <= limit))
            fail_msg("%s: '%s' is off by %g, the limit is %g", c->path, a->names[i], error, limit);
        free(wanted);
        free(got);
    }
    safetensors_close(file);
}

static void for_each_case(void (*check)(const golden *c)) {
    struct dirent **entries;
    int count = scandir(DYNO_TEST_DIR "/golden", &entries, is_case, alphasort);
    assert_in_range(count, 6, MAX_CASES);
    for (int i = 0; i < count; i++) {
        golden c = golden_open(entries[i]->d_name);
        check(&c);
        golden_close(&c);
        free(entries[i]);
    }
    free(entries);
}

static void check_numbers(const golden *c) {
    answers a = run_steps(c, 0, NULL);
    compare(c, &a);
    answers_release(&a);
}

static void steps_agree_with_the_float64_model(void **state) {
    (void)state;
    for_each_case(check_numbers);
}

static void check_threads(const golden *c) {
    static const int threads[] = {1, 2, 3, 5};
    answers first = run_steps(c, 1, NULL);
    for (int i = 0; i < 4; i++) {
        answers other = run_steps(c, threads[i], NULL);
        assert_int_equal(first.used, other.used);
        for (int j = 0; j < first.count; j++)
            if (memcmp(first.slices[j], other.slices[j], (size_t)first.sizes[j] * sizeof(float)))
                fail_msg("%s: '%s' differs with %d threads", c->path, first.names[j], threads[i]);
        answers_release(&other);
    }
    answers_release(&first);
}

/* The list of thread counts begins with the first run's own: that is the second run. */
static void steps_give_the_same_bits_again_and_for_any_number_of_threads(void **state) {
    (void)state;
    for_each_case(check_threads);
}

static void check_round_trip(const golden *c) {
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "saved");
    const model_config *config = &c->options.config;
    trainer *t;
    answers a = run_steps(c, 0, &t);
    hf_directory *saved;
    expect_ok(weights_save(trainer_storage(t), config, path.text), path.text);
    expect_ok(hf_directory_open(path.text, &saved), path.text);
    model_config read = *hf_directory_config(saved);
    assert_int_equal(read.d_model, config->d_model);
    assert_int_equal(read.d_ff, config->d_ff);
    assert_int_equal(read.layers, config->layers);
    assert_int_equal(read.heads, config->heads);
    assert_int_equal(read.kv_heads, config->kv_heads);
    assert_int_equal(read.head_dim, config->head_dim);
    assert_int_equal(read.vocab, config->vocab);
    assert_true(read.norm_eps == config->norm_eps && read.rope_theta == config->rope_theta);
    float *data = memory_allocate((size_t)model_parameter_elements(config), sizeof *data);
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        expect_ok(hf_directory_read(saved, p.name, data), p.name);
        assert_memory_equal(data, storage_find(trainer_storage(t), p.name),
                            (size_t)shape_elements(&p.shape) * sizeof(float));
    }
    free(data);
    hf_directory_close(saved);
    answers_release(&a);
    trainer_destroy(t);
    scratch_remove(&made);
}

static void saved_weights_are_loaded_back_to_the_bit(void **state) {
    (void)state;
    for_each_case(check_round_trip);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_agree_with_the_float64_model),
        cmocka_unit_test(steps_give_the_same_bits_again_and_for_any_number_of_threads),
        cmocka_unit_test(saved_weights_are_loaded_back_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
