/* test_library.c - the library as a stranger sees it: dyno.h and nothing else. What it refuses is in
 * test_library_bad_calls.c. */
#define _GNU_SOURCE
#include "api/library.h"

#include <math.h>

#include "support/own_cache.h"
#include "support/scratch.h"

static void names_end_with_null(void **state) {
    (void)state;
    assert_string_equal(dyno_preset_name(0), "small");
    assert_string_equal(dyno_experiment_name(0), "doctor");
    assert_non_null(dyno_target_name(0));
    const char *(*const lists[])(int) = {dyno_preset_name, dyno_target_name, dyno_experiment_name,
                                         dyno_suite_name};
    for (int i = 0; i < 4; i++) {
        int count = 0;
        while (lists[i](count))
            count++;
        assert_in_range(count, i == 3 ? 3 : 4, 100); /* suites are fewest */
        assert_null(lists[i](-1));
        assert_null(lists[i](1 << 30));
    }
    assert_string_equal(dyno_formats(), "table|md|csv|json");
    assert_string_equal(dyno_status_name(DYNO_DEVICE_FAILED), "device failed");
    assert_string_equal(dyno_status_name((dyno_status)99), "unknown status");
    assert_string_equal(dyno_status_name((dyno_status)-1), "unknown status");
}

static void lists_are_tables_in_any_format(void **state) {
    (void)state;
    dyno_render_options how = {.size = sizeof how, .format = "csv"};
    char *out;
    OK(dyno_list("presets", &how, &out));
    assert_ptr_equal(strstr(out, "name,d_model"), out);
    dyno_text_free(out);
    OK(dyno_list(NULL, NULL, &out));
    assert_non_null(strstr(out, "h200"));
    dyno_text_free(out);
    FAILS(DYNO_INVALID, "did you mean 'kernels'", dyno_list("kernals", NULL, &out));
    assert_null(out);
    how.format = "html";
    FAILS(DYNO_INVALID, "html", dyno_list(NULL, &how, &out));
}

static size_t widest_line(const char *shown) {
    size_t widest = 0;
    for (const char *line = shown; *line;) {
        size_t length = strcspn(line, "\n");
        widest = length > widest ? length : widest;
        line += length + (line[length] == '\n');
    }
    return widest;
}

static bool stop_at_once(void *caller) {
    (void)caller;
    return true;
}

static void trace_of_another_program_is_profiled(void **state) {
    (void)state;
    const char *settings[] = {"from=" DYNO_TEST_DIR "/traces/nsys.sqlite", "by=phase"};
    dyno_render_options how = {.size = sizeof how, .format = "csv"};
    dyno_experiment_options o = {
        .size = sizeof o, .name = "profile", .settings = settings, .setting_count = 2};
    dyno_results *found;
    char *out;
    OK(dyno_experiment_run(&o, &found));
    OK(dyno_results_render(found, &how, &out));
    assert_ptr_equal(strstr(out, "phase,count,time ms,%"), out);
    assert_non_null(strstr(out, "\nbackward,10,0.223,"));
    dyno_text_free(out);
    dyno_results_destroy(found);
    o.should_stop = stop_at_once;
    FAILS(DYNO_INTERRUPTED, "interrupted", dyno_experiment_run(&o, &found));
    OK(dyno_results_json(found, &out));
    assert_non_null(strstr(out, "\"INCOMPLETE\""));
    dyno_text_free(out);
    dyno_results_destroy(found);
    settings[0] = "from=" DYNO_TEST_DIR "/CMakeLists.txt";
    o.should_stop = NULL;
    FAILS(DYNO_UNSUPPORTED, "is neither an .sqlite export", dyno_experiment_run(&o, &found));
    assert_null(found);
}

static void tables_and_help_fit_a_terminal(void **state) {
    (void)state;
    dyno_render_options how = {.size = sizeof how, .columns = 80};
    const char *settings[] = {"layers=1", "d-model=8", "heads=2", "d-ff=16", "vocab=32", "wide"};
    dyno_experiment_options o = {
        .size = sizeof o, .name = "plan", .settings = settings, .setting_count = 5};
    dyno_results *found;
    char *out;
    OK(dyno_list("ops", &how, &out));
    assert_in_range(widest_line(out), 40, 80);
    dyno_text_free(out);
    OK(dyno_experiment_run(&o, &found));
    OK(dyno_results_render(found, &how, &out));
    assert_in_range(widest_line(out), 40, 80);
    assert_non_null(strstr(out, "left out to fit 80 columns: "));
    dyno_text_free(out);
    OK(dyno_results_render(found, NULL, &out)); /* without a width: everything */
    assert_true(widest_line(out) > 80);
    dyno_text_free(out);
    dyno_results_destroy(found);
    o.setting_count = 6;
    OK(dyno_experiment_run(&o, &found));
    OK(dyno_results_render(found, &how, &out));
    assert_null(strstr(out, "left out"));
    dyno_text_free(out);
    dyno_results_destroy(found);
    OK(dyno_experiment_help_wrapped("bench", 72, &out));
    assert_in_range(widest_line(out), 40, 72);
    dyno_text_free(out);
    FAILS(DYNO_INVALID, "columns is -1", dyno_experiment_help_wrapped("bench", -1, &out));
    how.columns = -1;
    FAILS(DYNO_INVALID, "columns is -1", dyno_list(NULL, &how, &out));
    how.columns = INT64_MAX;
    FAILS(DYNO_INVALID, "columns is", dyno_list(NULL, &how, &out));
}

static void models_have_parameters_by_name(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_tensor t;
    int64_t elements = 0;
    for (int i = 0; i < dyno_model_parameter_count(model); i++) {
        int64_t count = 1;
        OK(dyno_model_parameter(model, i, &t));
        for (int j = 0; j < t.rank; j++)
            count *= t.shape[j];
        elements += count;
    }
    assert_int_equal(elements, dyno_model_elements(model));
    OK(dyno_model_parameter(model, 0, &t));
    assert_string_equal(t.name, EMBEDDING);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], VOCABULARY);
    assert_int_equal(t.shape[1], 32);
    assert_string_equal(dyno_model_name(model), "layers 2, d-model 32, d-ff 64, heads 2, vocab 50");
    assert_int_equal(dyno_model_vocabulary(model), VOCABULARY);
    FAILS(DYNO_INVALID, "no parameter -1", dyno_model_parameter(model, -1, &t));
    FAILS(DYNO_INVALID, "the model has", dyno_model_parameter(model, 1000, &t));
    dyno_model_destroy(model);
}

static void a_plan_knows_what_a_step_takes(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_plan_options o = {.size = sizeof o, .batch = BATCH, .context = CONTEXT, .device = "cpu"};
    static const char *const extents[] = {"forward", "forward+backward", "step"};
    dyno_cost last = {0};
    dyno_plan *plan;
    for (int i = 0; i < 3; i++) {
        dyno_cost cost = {.size = sizeof cost};
        o.extent = extents[i];
        OK(dyno_plan_create(model, &o, &plan));
        OK(dyno_plan_cost(plan, &cost));
        assert_true(cost.launches > last.launches && cost.flops > last.flops);
        assert_true(cost.reserved_bytes >= cost.peak_bytes && cost.peak_bytes > last.peak_bytes);
        last = cost;
        dyno_plan_destroy(plan);
    }
    char *shown;
    o = (dyno_plan_options){.size = sizeof o,
                            .mode = "compiled",
                            .precision = "bf16",
                            .attention = "naive",
                            .recompute = "every:1",
                            .gradients = "fp32",
                            .target = "h100"};
    OK(dyno_plan_create(model, &o, &plan));
    OK(dyno_plan_text(plan, &shown));
    assert_non_null(strstr(shown, EMBEDDING));
    dyno_text_free(shown);
    OK(dyno_plan_source(plan, &shown));
    assert_non_null(strstr(shown, "__global__"));
    dyno_text_free(shown);
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
}

/* What MFU counts does not depend on how the step is run; what HFU counts does. */
static void the_models_own_flops_are_the_same_for_every_way_to_run_it(void **state) {
    (void)state;
    dyno_model_options sizes = {.size = sizeof sizes,
                                .d_model = 32,
                                .d_ff = 64,
                                .layers = 3,
                                .heads = 4,
                                .vocab = VOCABULARY};
    static const struct {
        const char *mode, *attention, *recompute;
    } ways[] = {{"eager", "naive", "none"},     {"eager", "naive", "full"},
                {"eager", "naive", "nested"},   {"compiled", "flash", "none"},
                {"compiled", "naive", "none"},  {"compiled", "flash", "full"},
                {"compiled", "naive", "mlp:1"}, {"compiled", "flash", "every:2"}};
    static const char *const precisions[] = {"fp32", "bf16"};
    double rows = BATCH * CONTEXT, flops[sizeof ways / sizeof *ways];
    double forward =
        3 * (2 * rows * (4 * 32 * 32 + 3 * 32 * 64) + 2.0 * BATCH * 4 * CONTEXT * CONTEXT * 8) +
        2 * rows * 32 * VOCABULARY;
    dyno_model *model;
    OK(dyno_model_create(&sizes, &model));
    for (size_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
        dyno_plan_options o = {.size = sizeof o,
                               .batch = BATCH,
                               .context = CONTEXT,
                               .mode = ways[i / 2].mode,
                               .attention = ways[i / 2].attention,
                               .recompute = ways[i / 2].recompute,
                               .precision = precisions[i % 2],
                               .device = "cpu"};
        dyno_plan *plan;
        dyno_cost cost = {.size = sizeof cost};
        OK(dyno_plan_create(model, &o, &plan));
        OK(dyno_plan_cost(plan, &cost));
        assert_true(cost.model_flops == 3 * forward);
        flops[i / 2] = cost.flops;
        dyno_plan_destroy(plan);
    }
    assert_true(flops[1] > flops[0] && flops[2] > flops[0]); /* recompute */
    assert_true(flops[4] > flops[3]);                        /* naive computes masked scores */
    dyno_plan_options o = {
        .size = sizeof o, .batch = BATCH, .context = CONTEXT, .extent = "forward", .device = "cpu"};
    dyno_plan *plan;
    dyno_cost cost = {.size = sizeof cost};
    OK(dyno_plan_create(model, &o, &plan));
    OK(dyno_plan_cost(plan, &cost));
    assert_true(cost.model_flops == forward);
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
}

static void a_plan_that_does_not_fit_comes_with_advice(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_plan_options o = {.size = sizeof o, .device = "cpu"};
    dyno_cost cost = {.size = sizeof cost};
    dyno_plan *plan;
    char *advice;
    bool fits;
    OK(dyno_plan_create(model, &o, &plan));
    OK(dyno_plan_cost(plan, &cost));
    OK(dyno_plan_fits(plan, cost.reserved_bytes, &fits, &advice));
    assert_true(fits);
    assert_string_equal(advice, "");
    dyno_text_free(advice);
    OK(dyno_plan_fits(plan, cost.reserved_bytes - 1, &fits, &advice));
    assert_false(fits);
    assert_non_null(strstr(advice, "--"));
    dyno_text_free(advice);
    OK(dyno_plan_fits(plan, 1, &fits, NULL));
    assert_false(fits);
    FAILS(DYNO_INVALID, "memory_bytes is 0", dyno_plan_fits(plan, 0, &fits, &advice));
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
}

static void training_lowers_the_loss(void **state) {
    (void)state;
    dyno_trainer_options o = small_steps();
    dyno_trainer *trainer = small_trainer(&o);
    int32_t ids[ROWS + 1];
    float first, loss, before, after;
    fill_ids(ids);
    OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &before, NULL));
    OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-2, &first));
    assert_true(before == first);
    for (int i = 0; i < 20; i++)
        OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-2, &loss));
    OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &after, NULL));
    assert_true(after <= loss && loss < first / 2);
    dyno_trainer_destroy(trainer);
}

/* The loss is the mean of -log softmax(logits)[target]. */
static double loss_of(const float *logits, const int32_t *targets) {
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        const float *row = logits + i * VOCABULARY;
        double total = 0;
        for (int j = 0; j < VOCABULARY; j++)
            total += exp((double)row[j]);
        sum += log(total) - (double)row[targets[i]];
    }
    return sum / ROWS;
}

/* In every way to run a step: evaluation has a plan of its own that finds the weights where the
 * step's left them, and training goes on as if it had not been. */
static void evaluation_changes_nothing(void **state) {
    (void)state;
    static const char *const modes[] = {"eager", "compiled"};
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 6; i++) {
        dyno_trainer_options o = small_steps();
        o.mode = modes[i / 3];
        o.precision = precisions[i % 3];
        dyno_trainer *alone = small_trainer(&o), *watched = small_trainer(&o);
        int32_t ids[ROWS + 1];
        float *logits = malloc(sizeof(float[ROWS * VOCABULARY])), loss, other, seen, again;
        double limit = i % 3 ? 2e-2 : 1e-5;
        fill_ids(ids);
        for (int k = 0; k < 4; k++) {
            OK(dyno_trainer_evaluate(watched, ids, ids + 1, &seen, NULL));
            OK(dyno_trainer_evaluate(watched, ids, ids + 1, &again, logits));
            OK(dyno_trainer_step(alone, ids, ids + 1, 1e-2, &loss));
            OK(dyno_trainer_step(watched, ids, ids + 1, 1e-2, &other));
            assert_true(loss == other);
            assert_true(fabsf(seen - loss) <= (float)limit && fabsf(again - loss) <= (float)limit);
            assert_true(fabs(loss_of(logits, ids + 1) - (double)loss) <= limit);
        }
        free(logits);
        dyno_trainer_destroy(alone);
        dyno_trainer_destroy(watched);
    }
}

static void weights_are_read_and_written_by_name(void **state) {
    (void)state;
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 3; i++) {
        dyno_trainer_options o = small_steps();
        o.mode = "compiled";
        o.precision = precisions[i];
        dyno_trainer *trainer = small_trainer(&o);
        float written[EMBEDDING_SIZE], read[EMBEDDING_SIZE], loss, changed;
        int32_t ids[ROWS + 1];
        fill_ids(ids);
        OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &loss, NULL));
        OK(dyno_trainer_read(trainer, EMBEDDING, written, EMBEDDING_SIZE));
        for (int j = 0; j < EMBEDDING_SIZE; j++)
            written[j] = written[j] / 3 + 0.001f * (float)j;
        OK(dyno_trainer_write(trainer, EMBEDDING, written, EMBEDDING_SIZE));
        OK(dyno_trainer_read(trainer, EMBEDDING, read, EMBEDDING_SIZE));
        assert_memory_equal(read, written, sizeof read);
        OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &changed, NULL));
        assert_true(changed != loss);
        dyno_trainer_destroy(trainer);
    }
}

static void what_a_step_computed_can_be_read(void **state) {
    (void)state;
    dyno_trainer_options o = small_steps();
    o.keeps_logits = o.keeps_gradients = true;
    dyno_trainer *trainer = small_trainer(&o);
    static float logits[ROWS * VOCABULARY], gradient[EMBEDDING_SIZE];
    float loss, kept, largest = 0;
    int32_t ids[ROWS + 1];
    fill_ids(ids);
    OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-3, &loss));
    OK(dyno_trainer_read(trainer, "loss", &kept, 1));
    assert_true(kept == loss);
    OK(dyno_trainer_read(trainer, "logits", logits, ROWS * VOCABULARY));
    assert_true(fabs(loss_of(logits, ids + 1) - (double)loss) < 1e-5);
    OK(dyno_trainer_read(trainer, "g.model.embed_tokens.weight", gradient, EMBEDDING_SIZE));
    for (int i = 0; i < EMBEDDING_SIZE; i++)
        largest = fmaxf(largest, fabsf(gradient[i]));
    assert_true(largest > 0);
    FAILS(DYNO_INVALID, "800 elements, 3 are", dyno_trainer_read(trainer, "logits", logits, 3));
    FAILS(DYNO_INVALID, "only parameters", dyno_trainer_write(trainer, "loss", &kept, 1));
    FAILS(DYNO_NOT_FOUND, "'nothing'", dyno_trainer_read(trainer, "nothing", logits, 1));
    FAILS(DYNO_NOT_FOUND, "'tokens'", dyno_trainer_read(trainer, "tokens", logits, ROWS));
    dyno_trainer_destroy(trainer);

    o.keeps_logits = o.keeps_gradients = false;
    trainer = small_trainer(&o);
    OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-3, &loss));
    FAILS(DYNO_NOT_FOUND, "keeps_logits", dyno_trainer_read(trainer, "logits", logits, 1));
    dyno_trainer_destroy(trainer);
}

static void a_saved_model_is_loaded_as_it_was(void **state) {
    (void)state;
    scratch made = scratch_create();
    char directory[300], config[320];
    dyno_trainer_options o = small_steps();
    dyno_trainer *trainer = small_trainer(&o), *loaded;
    int32_t ids[ROWS + 1];
    float loss, again;
    fill_ids(ids);
    snprintf(directory, sizeof directory, "%s/model", made.path);
    snprintf(config, sizeof config, "%s/config.json", directory);
    OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-2, &loss));
    OK(dyno_trainer_save(trainer, directory));
    OK(dyno_trainer_load(directory, &o, &loaded));
    OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &loss, NULL));
    OK(dyno_trainer_evaluate(loaded, ids, ids + 1, &again, NULL));
    assert_true(loss == again);
    assert_int_equal(dyno_model_vocabulary(dyno_trainer_model(loaded)), VOCABULARY);
    dyno_trainer_destroy(loaded);
    dyno_trainer_destroy(trainer);

    /* Drawn weights are the same, in a file and in a trainer. */
    dyno_model_options from = {.size = sizeof from, .config = config};
    dyno_model *model;
    OK(dyno_model_create(&from, &model));
    OK(dyno_model_save(model, 7, directory));
    OK(dyno_trainer_load(directory, &o, &loaded));
    trainer = small_trainer(&o);
    OK(dyno_trainer_evaluate(trainer, ids, ids + 1, &loss, NULL));
    OK(dyno_trainer_evaluate(loaded, ids, ids + 1, &again, NULL));
    assert_true(loss == again);
    dyno_trainer_destroy(trainer);
    dyno_trainer_destroy(loaded);
    dyno_model_destroy(model);
    FAILS(DYNO_NOT_FOUND, "nowhere", dyno_trainer_load("/nowhere", &o, &loaded));
    assert_null(loaded);
    scratch_remove(&made);
}

static void a_step_can_be_taken_in_parts(void **state) {
    (void)state;
    dyno_trainer_options o = small_steps();
    dyno_trainer *whole = small_trainer(&o), *parts = small_trainer(&o);
    int32_t ids[ROWS + 1];
    float loss, other;
    fill_ids(ids);
    OK(dyno_trainer_give(parts, ids, ids + 1));
    for (int k = 0; k < 3; k++) {
        OK(dyno_trainer_step(whole, ids, ids + 1, 1e-2, &loss));
        OK(dyno_trainer_start(parts, 1e-2));
        FAILS(DYNO_INVALID, "under way", dyno_trainer_start(parts, 1e-2));
        FAILS(DYNO_INVALID, "under way", dyno_trainer_read(parts, "loss", &other, 1));
        FAILS(DYNO_INVALID, "under way", dyno_trainer_evaluate(parts, ids, ids + 1, &other, NULL));
        OK(dyno_trainer_give(parts, ids, ids + 1));
        OK(dyno_trainer_finish(parts, &other));
        assert_true(loss == other);
    }
    dyno_trainer_destroy(whole);
    dyno_trainer_destroy(parts);
}

static void tokens_are_read_and_checked(void **state) {
    (void)state;
    scratch made = scratch_create();
    char path[300];
    snprintf(path, sizeof path, "%s/tokens.bin", made.path);
    FILE *file = fopen(path, "wb");
    const unsigned char bytes[] = {1, 0, 2, 0, 3, 1};
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
    dyno_tokens *tokens;
    int32_t ids[3];
    OK(dyno_tokens_open(path, 2, &tokens));
    assert_int_equal(dyno_tokens_count(tokens), 3);
    OK(dyno_tokens_read(tokens, 1, 2, 1000, ids));
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 259);
    FAILS(DYNO_CORRUPT, "token 2 is 259", dyno_tokens_read(tokens, 0, 3, 259, ids));
    FAILS(DYNO_INVALID, "too short", dyno_tokens_read(tokens, 0, 4, 1000, ids));
    FAILS(DYNO_INVALID, "vocabulary is 0", dyno_tokens_read(tokens, 0, 3, 0, ids));
    dyno_tokens_close(tokens);
    FAILS(DYNO_INVALID, "3 bytes a token", dyno_tokens_open(path, 3, &tokens));
    scratch_remove(&made);
}

static void tensor_files_appear_whole_or_never(void **state) {
    (void)state;
    scratch made = scratch_create();
    char path[300];
    snprintf(path, sizeof path, "%s/a.safetensors", made.path);
    const dyno_tensor tensors[] = {{"a", 2, {2, 2}}, {.name = "b"}};
    const float values[] = {1, 2, 3, 4, 5};
    dyno_tensor_file *file;
    OK(dyno_tensor_file_create(path, tensors, 2, &file));
    OK(dyno_tensor_file_append(file, values, 2));
    dyno_tensor_file_abandon(file);
    assert_null(fopen(path, "rb"));
    OK(dyno_tensor_file_create(path, tensors, 2, &file));
    OK(dyno_tensor_file_append(file, values, 5));
    OK(dyno_tensor_file_commit(file));
    FILE *written = fopen(path, "rb");
    float last;
    assert_non_null(written);
    assert_int_equal(fseek(written, -(long)sizeof last, SEEK_END), 0);
    assert_int_equal(fread(&last, sizeof last, 1, written), 1);
    assert_true(last == 5);
    fclose(written);
    FAILS(DYNO_INVALID, "the rank is 7",
          dyno_tensor_file_create(path, &(dyno_tensor){"a", 7, {1}}, 1, &file));
    FAILS(DYNO_INVALID, "is no shape",
          dyno_tensor_file_create(path, &(dyno_tensor){"a", 1, {-1}}, 1, &file));
    assert_null(file);
    scratch_remove(&made);
}

/* What is there is kept unless the caller says otherwise, and what is not finite is not saved. */
static void existing_things_are_kept(void **state) {
    (void)state;
    scratch made = scratch_create();
    char directory[300], path[300];
    snprintf(directory, sizeof directory, "%s/model", made.path);
    snprintf(path, sizeof path, "%s/a.safetensors", made.path);
    dyno_save_options keep = {.size = sizeof keep, .note = "first"};
    dyno_save_options replace = {.size = sizeof replace, .replaces = true};
    dyno_model *model = small_model();
    OK(dyno_save_check(directory, NULL, &keep));
    OK(dyno_model_save_as(model, 7, directory, &keep));
    FAILS(DYNO_INVALID, "--force", dyno_model_save_as(model, 8, directory, &keep));
    FAILS(DYNO_INVALID, "--force", dyno_save_check(directory, directory, &keep));
    OK(dyno_save_check(directory, directory, &replace));
    OK(dyno_model_save_as(model, 8, directory, &replace));
    assert_true(dyno_save_writes("config.json") && dyno_save_writes("tokenizer.json"));
    assert_false(dyno_save_writes("notes.txt") || dyno_save_writes(NULL));
    dyno_model_destroy(model);

    const dyno_tensor tensors[] = {{"a", 1, {2}}, {"b", 1, {3}}};
    const float values[] = {1, 2, 3};
    dyno_tensor_file *file;
    for (int i = 0; i < 2; i++) {
        OK(dyno_tensor_file_create_as(path, tensors, 2, i ? &replace : &keep, &file));
        OK(dyno_tensor_file_append(file, values, 2));
        FAILS(DYNO_INVALID, "declared anew",
              dyno_tensor_file_redeclare(file, &(dyno_tensor){.name = "c"}, 1, NULL));
        OK(dyno_tensor_file_redeclare(file, tensors, 1, "cut"));
        OK(dyno_tensor_file_commit(file));
        FAILS(DYNO_INVALID, "exists", dyno_tensor_file_create_as(path, tensors, 2, &keep, &file));
    }
    FAILS(DYNO_INVALID, "UTF-8",
          dyno_tensor_file_create_as(
              "x", tensors, 2, &(dyno_save_options){.size = sizeof keep, .note = "\xff"}, &file));
    scratch_remove(&made);
}

static void steps_that_are_not_finite_are_treated_as_asked(void **state) {
    (void)state;
    scratch made = scratch_create();
    char directory[300];
    snprintf(directory, sizeof directory, "%s/model", made.path);
    static const char *const ways[] = {NULL, "stop", "skip", "ignore"};
    int32_t ids[ROWS + 1];
    fill_ids(ids);
    for (int i = 0; i < 4; i++) {
        dyno_trainer_options o = small_steps();
        o.on_nan = ways[i];
        dyno_trainer *trainer = small_trainer(&o);
        float loss, norm[32];
        assert_string_equal(dyno_trainer_left_out(trainer), "");
        for (int k = 0; k < 32; k++)
            norm[k] = INFINITY;
        OK(dyno_trainer_write(trainer, "model.norm.weight", norm, 32));
        FAILS(DYNO_NOT_FINITE, "weight 'model.norm.weight' has Inf in 32 of 32 elements",
              dyno_trainer_check(trainer));
        if (i < 2)
            FAILS(DYNO_NOT_FINITE, "step 0: the loss is NaN: weight 'model.norm.weight' has Inf",
                  dyno_trainer_step(trainer, ids, ids + 1, 1e-3, &loss));
        else
            OK(dyno_trainer_step(trainer, ids, ids + 1, 1e-3, &loss));
        assert_true(isnan(loss));
        assert_int_equal(dyno_trainer_skipped(trainer), i == 2);
        if (i < 3)
            FAILS(DYNO_NOT_FINITE, "model.norm.weight", dyno_trainer_save(trainer, directory));
        else
            OK(dyno_trainer_save(trainer, directory));
        dyno_trainer_destroy(trainer);
    }
    dyno_trainer_options o = small_steps();
    dyno_trainer *trainer;
    FAILS(DYNO_NOT_FINITE, "weight '", dyno_trainer_load(directory, &o, &trainer));
    assert_null(trainer);
    o.on_nan = "ignore";
    OK(dyno_trainer_load(directory, &o, &trainer));
    dyno_trainer_destroy(trainer);
    o.on_nan = "halt";
    FAILS(DYNO_INVALID, "halt", dyno_trainer_load(directory, &o, &trainer));
    assert_string_equal(dyno_status_name(DYNO_NOT_FINITE), "not finite");
    scratch_remove(&made);
}

/* ---- experiments ---- */

static const char *const BENCH[] = {"d-model=32",   "d-ff=64",   "layers=1",
                                    "heads=2",      "vocab=50",  "device=cpu",
                                    "context=8,16", "pass=step", "steps=2"};

typedef struct listener {
    int reports, stop_at; /* 0: never */
    char label[96], note[256];
} listener;

static void on_progress(void *caller, double done, double total, const char *label) {
    listener *l = caller;
    assert_true(done <= total);
    l->reports++;
    snprintf(l->label, sizeof l->label, "%s", label);
}

static void on_note(void *caller, const char *note) {
    listener *l = caller;
    snprintf(l->note, sizeof l->note, "%s", note);
}

static bool should_stop(void *caller) {
    const listener *l = caller;
    return l->stop_at && l->reports >= l->stop_at;
}

static void a_bench_gives_its_record_and_its_table(void **state) {
    (void)state;
    scratch made = scratch_create();
    listener l = {0};
    dyno_experiment_options o = {.size = sizeof o,
                                 .name = "bench",
                                 SETTINGS(BENCH),
                                 .caller = &l,
                                 .on_progress = on_progress,
                                 .on_note = on_note,
                                 .should_stop = should_stop};
    dyno_render_options how = {.size = sizeof how, .format = "csv"};
    dyno_results *results, *again;
    char *json, *json_again, *shown;
    OK(dyno_experiment_run(&o, &results));
    assert_int_equal(l.reports, 1 + 2 * (1 + 2));
    assert_string_equal(
        l.label, "context 16, step, eager fp32: layers 1, d-model 32, d-ff 64, heads 2, vocab 50");
    OK(dyno_results_json(results, &json));
    assert_non_null(strstr(json, "\"--context=8,16\""));
    assert_non_null(strstr(json, "\"complete\": true"));
    OK(dyno_results_render(results, NULL, &shown));
    assert_non_null(strstr(shown, "tokens/s"));
    dyno_text_free(shown);
    OK(dyno_results_render(results, &how, &shown));
    assert_ptr_equal(strstr(shown, "model,"), shown);
    dyno_text_free(shown);
    how.format = "pdf";
    FAILS(DYNO_INVALID, "pdf", dyno_results_render(results, &how, &shown));
    OK(dyno_results_write(results, made.path));
    OK(dyno_results_read(made.path, &again));
    OK(dyno_results_json(again, &json_again));
    assert_string_equal(json, json_again);
    dyno_text_free(json);
    dyno_text_free(json_again);
    dyno_results_destroy(again);
    dyno_results_destroy(results);
    FAILS(DYNO_NOT_FOUND, "nothing", dyno_results_read("nothing", &results));
    scratch_remove(&made);
}

static void a_stopped_experiment_keeps_what_it_has(void **state) {
    (void)state;
    scratch made = scratch_create();
    char out[300];
    snprintf(out, sizeof out, "out=%s/run", made.path);
    const char *settings[sizeof BENCH / sizeof *BENCH + 1];
    memcpy(settings, BENCH, sizeof BENCH);
    settings[sizeof BENCH / sizeof *BENCH] = out;
    listener l = {.stop_at = 1 + 3 + 1};
    dyno_experiment_options o = {.size = sizeof o,
                                 .name = "bench",
                                 SETTINGS(settings),
                                 .caller = &l,
                                 .on_progress = on_progress,
                                 .should_stop = should_stop};
    dyno_results *results, *kept;
    char *json;
    FAILS(DYNO_INTERRUPTED, "interrupted", dyno_experiment_run(&o, &results));
    assert_non_null(results);
    OK(dyno_results_read(out + strlen("out="), &kept));
    OK(dyno_results_json(kept, &json));
    assert_non_null(strstr(json, "\"complete\": false"));
    dyno_text_free(json);
    dyno_results_destroy(kept);
    dyno_results_destroy(results);
    scratch_remove(&made);
}

static void experiments_take_a_users_arguments(void **state) {
    (void)state;
    static const char *const arguments[] = {"--layers", "1", "--format", "md", "--device", "cpu"};
    static const char *const source[] = {"--mode=compiled", "--source", "--layers=1",
                                         "--device=cpu"};
    static const char *const help[] = {"--help"};
    dyno_experiment_options o = {
        .size = sizeof o, .name = "plan", .arguments = arguments, .argument_count = 6};
    dyno_results *results;
    char *shown;
    OK(dyno_experiment_run(&o, &results));
    OK(dyno_results_render(results, NULL, &shown)); /* in the format of the arguments */
    assert_non_null(strstr(shown, "| model |"));
    dyno_text_free(shown);
    dyno_results_destroy(results);
    o.arguments = source;
    o.argument_count = 4;
    OK(dyno_experiment_run(&o, &results));
    OK(dyno_results_render(results, NULL, &shown)); /* the listing is what there is to see */
    assert_non_null(strstr(shown, "void "));
    dyno_text_free(shown);
    dyno_results_destroy(results);
    o.arguments = help;
    o.argument_count = 1;
    FAILS(DYNO_INVALID, "dyno_experiment_help", dyno_experiment_run(&o, &results));
    o.settings = BENCH;
    o.setting_count = 1;
    FAILS(DYNO_INVALID, "not both", dyno_experiment_run(&o, &results));
    OK(dyno_experiment_help("plan", &shown));
    assert_non_null(strstr(shown, "--memory SIZE"));
    assert_non_null(strstr(shown, "--out DIR"));
    dyno_text_free(shown);
    FAILS(DYNO_INVALID, "there is no experiment 'step'", dyno_experiment_help("step", &shown));
    assert_null(shown);
}

/* ---- ranks ---- */

static void ranks_are_started_and_waited_for(void **state) {
    (void)state;
    /* Each rank is a shell that knows its number. */
    static const char *const all_well[] = {"sh", "-c", "test $DYNO_RANKS = 3", NULL};
    static const char *const one_fails[] = {"sh", "-c", "exit $((7 * (DYNO_RANK == 1)))", NULL};
    static const char *const one_dies[] = {"sh", "-c", "[ $DYNO_RANK != 2 ] || kill -9 $$", NULL};
    dyno_ranks_options o = {
        .size = sizeof o, .ranks = 3, .program = "/bin/sh", .arguments = all_well, .timeout_s = 5};
    int code, rank, count;
    OK(dyno_ranks_start(&o, &code));
    assert_int_equal(code, 0);
    o.arguments = one_fails;
    FAILS(DYNO_RANK_FAILED, "ended with exit code 7", dyno_ranks_start(&o, &code));
    assert_int_equal(code, 7);
    o.arguments = one_dies;
    FAILS(DYNO_RANK_FAILED, "rank 2", dyno_ranks_start(&o, &code));
    assert_int_equal(code, 1);
    o.program = "/nowhere/program";
    FAILS(DYNO_IO, "starting rank 0 of 3: No such file", dyno_ranks_start(&o, &code));
    assert_int_equal(code, 1);
    o.ranks = 0;
    FAILS(DYNO_INVALID, "there must be 1 to 1024", dyno_ranks_start(&o, &code));
    OK(dyno_rank(&rank, &count));
    assert_int_equal(rank, 0);
    assert_int_equal(count, 1);
    assert_true(dyno_rank_reports());
}

static void an_experiment_says_how_many_ranks_it_wants(void **state) {
    (void)state;
    static const char *const settings[] = {"ranks=2,5,3", "timeout=7"};
    dyno_experiment_options o = {
        .size = sizeof o, .name = "allreduce", .settings = settings, .setting_count = 2};
    int ranks;
    double timeout_s;
    dyno_results *results;
    OK(dyno_experiment_ranks(&o, &ranks, &timeout_s));
    assert_int_equal(ranks, 5);
    assert_true(timeout_s > 6.9 && timeout_s < 7.1);
    FAILS(DYNO_INVALID, "this process is alone", dyno_experiment_run(&o, &results));
    o.name = "plan";
    o.setting_count = 0;
    OK(dyno_experiment_ranks(&o, &ranks, &timeout_s));
    assert_int_equal(ranks, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_started_and_waited_for),
        cmocka_unit_test(an_experiment_says_how_many_ranks_it_wants),
        cmocka_unit_test(names_end_with_null),
        cmocka_unit_test(lists_are_tables_in_any_format),
        cmocka_unit_test(trace_of_another_program_is_profiled),
        cmocka_unit_test(tables_and_help_fit_a_terminal),
        cmocka_unit_test(models_have_parameters_by_name),
        cmocka_unit_test(a_plan_knows_what_a_step_takes),
        cmocka_unit_test(the_models_own_flops_are_the_same_for_every_way_to_run_it),
        cmocka_unit_test(a_plan_that_does_not_fit_comes_with_advice),
        cmocka_unit_test(training_lowers_the_loss),
        cmocka_unit_test(evaluation_changes_nothing),
        cmocka_unit_test(weights_are_read_and_written_by_name),
        cmocka_unit_test(what_a_step_computed_can_be_read),
        cmocka_unit_test(a_saved_model_is_loaded_as_it_was),
        cmocka_unit_test(a_step_can_be_taken_in_parts),
        cmocka_unit_test(tokens_are_read_and_checked),
        cmocka_unit_test(tensor_files_appear_whole_or_never),
        cmocka_unit_test(existing_things_are_kept),
        cmocka_unit_test(steps_that_are_not_finite_are_treated_as_asked),
        cmocka_unit_test(a_bench_gives_its_record_and_its_table),
        cmocka_unit_test(a_stopped_experiment_keeps_what_it_has),
        cmocka_unit_test(experiments_take_a_users_arguments),
    };
    return cmocka_run_group_tests(tests, own_cache_set_up, own_cache_tear_down);
}
