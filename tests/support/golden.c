#define _GNU_SOURCE
#include "support/golden.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "dyno.h"
#include "formats/safetensors.h"
#include "support/numbers.h"

enum { MAX_CASES = 32 };

/* Address space; products on a GPU want workspaces of some size. */
static const int64_t MEMORY_LIMIT = (int64_t)1 << 31;

static const char *tests_directory; /* while golden_for_each runs */

static void expect_ok(dyno_status status, const char *where) {
    if (status != DYNO_OK)
        fail_msg("%s: %s", where, dyno_error_message());
}

static int is_case(const struct dirent *entry) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s/case.json", tests_directory, entry->d_name);
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
    snprintf(c.path, sizeof c.path, "%s/golden/%s", tests_directory, name);
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
        .pipeline = {.extent = STEP_FULL,
                     .target = target_this_cpu(),
                     .keep_gradients = true,
                     .optimizer = {.adamw = {.beta1 = setting(root, "beta1"),
                                             .beta2 = setting(root, "beta2"),
                                             .eps = setting(root, "eps"),
                                             .weight_decay = setting(root, "weight_decay")},
                                   .clip_norm = setting(root, "clip")}}};
    json_decref(root);
    snprintf(file, sizeof file, "%s/tokens.bin", c.path);
    dyno_tokens *source;
    expect_ok(dyno_tokens_open(file, 2, &source), file);
    int64_t count = c.steps * c.options.batch * c.options.context + 1;
    assert_int_equal(dyno_tokens_count(source), count);
    c.ids = memory_allocate((size_t)count, sizeof *c.ids);
    expect_ok(dyno_tokens_read(source, 0, count, c.options.config.vocab, c.ids), file);
    dyno_tokens_close(source);
    return c;
}

static void golden_close(golden *c) {
    hf_directory_close(c->model);
    free(c->ids);
}

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
    const char *wanted = strcmp(prefix, "g.") == 0 ? full : name;
    tensor found = trainer_find(t, wanted);
    assert_non_null(found.data);
    assert_true(tensor_is_contiguous(&found) && found.type == DTYPE_F32);
    int64_t bytes = tensor_bytes(&found);
    float *copy = memory_allocate((size_t)bytes, 1);
    expect_ok(trainer_read(t, wanted, copy, bytes), wanted);
    answers_add(a, full, copy, shape_elements(&found.shape));
    free(copy);
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

void answers_release(answers *a) {
    free(a->names);
    free(a->slices);
    free(a->sizes);
    free(a->data);
}

answers golden_run(const golden *c, device *d, trainer **model) {
    trainer *t;
    answers a = answers_reserve(c);
    int64_t rows = c->options.batch * c->options.context;
    expect_ok(trainer_create(d, &c->options, MEMORY_LIMIT, &t), c->path);
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
    if (model)
        *model = t;
    else
        trainer_destroy(t);
    return a;
}

/* As doubles (free). */
static double *read_expected(safetensors_file *file, const char *name, int64_t elements) {
    const safetensors_entry *entry = safetensors_find(file, name);
    if (!entry || entry->type != DTYPE_F64 || shape_elements(&entry->shape) != elements)
        fail_msg("there is no f64 '%s' of %lld elements", name, (long long)elements);
    double *data = memory_allocate((size_t)elements, sizeof *data);
    expect_ok(safetensors_read_f64(file, entry, data), name);
    return data;
}

static bool has_zero_gradient(safetensors_file *file, const char *weight, int64_t elements) {
    char name[128];
    snprintf(name, sizeof name, "g.%s", weight + 2);
    double *gradient = read_expected(file, name, elements), largest = 0;
    for (int64_t i = 0; i < elements; i++)
        largest = fmax(largest, fabs(gradient[i]));
    free(gradient);
    return largest < 1e-12;
}

static void compare_one(const golden *c, const char *name, const float *got, const double *wanted,
                        int64_t elements, bool is_noise) {
    double *given = memory_allocate((size_t)elements, sizeof *given), farthest = 0;
    for (int64_t j = 0; j < elements; j++) {
        given[j] = (double)got[j];
        double distance = fabs(given[j] - wanted[j]);
        farthest = distance > farthest ? distance : farthest; /* fmax breaks gcc 12 on aarch64 */
    }
    double limit = strncmp(name, "g.", 2) == 0 ? 1e-4 : 1e-5;
    double error = relative_error(given, wanted, elements);
    bool is_near =
        is_noise ? farthest <= 2.2 * (double)c->steps * c->learning_rate : error <= limit;
    if (!is_near)
        fail_msg("%s: '%s' is off by %g, the limit is %g", c->path, name, error, limit);
    free(given);
}

void golden_compare(const golden *c, const answers *a, bool is_noise_forgiven) {
    char path[600];
    safetensors_file *file;
    snprintf(path, sizeof path, "%s/expected.safetensors", c->path);
    expect_ok(safetensors_open(path, &file), path);
    assert_int_equal(safetensors_count(file), a->count);
    for (int i = 0; i < a->count; i++) {
        double *wanted = read_expected(file, a->names[i], a->sizes[i]);
        bool is_noise = is_noise_forgiven && strncmp(a->names[i], "w.", 2) == 0 &&
                        has_zero_gradient(file, a->names[i], a->sizes[i]);
        compare_one(c, a->names[i], a->slices[i], wanted, a->sizes[i], is_noise);
        free(wanted);
    }
    safetensors_close(file);
}

void golden_for_each(const char *directory, void (*check)(const golden *c, void *context),
                     void *context) {
    struct dirent **entries;
    char path[512];
    tests_directory = directory;
    snprintf(path, sizeof path, "%s/golden", directory);
    int count = scandir(path, &entries, is_case, alphasort);
    assert_in_range(count, 6, MAX_CASES);
    for (int i = 0; i < count; i++) {
        golden c = golden_open(entries[i]->d_name);
        check(&c, context);
        golden_close(&c);
        free(entries[i]);
    }
    free(entries);
}
