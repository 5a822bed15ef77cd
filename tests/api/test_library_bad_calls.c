/* test_library_bad_calls.c - what the library refuses: NULL, values that the command line refuses as
 * well, structs of other times; and what is left of a failure after a success. */
#define _GNU_SOURCE
#include "api/library.h"

#include <math.h>
#include <sys/wait.h>

#include "support/own_cache.h"
#include "support/scratch.h"

static void models_are_refused_as_the_command_line_refuses_them(void **state) {
    (void)state;
    dyno_model *model;
    dyno_model_options o = {.size = sizeof o, .preset = "smal"};
    FAILS(DYNO_INVALID, "did you mean 'small'", dyno_model_create(&o, &model));
    assert_null(model);
    o = (dyno_model_options){.size = sizeof o, .heads = 7};
    FAILS(DYNO_INVALID, "must divide", dyno_model_create(&o, &model));
    o = (dyno_model_options){.size = sizeof o, .layers = -3};
    FAILS(DYNO_INVALID, "layers is -3", dyno_model_create(&o, &model));
    o = (dyno_model_options){.size = sizeof o, .preset = "small", .config = "x/config.json"};
    FAILS(DYNO_INVALID, "give one of them", dyno_model_create(&o, &model));
    o.preset = NULL;
    FAILS(DYNO_NOT_FOUND, "x/config.json", dyno_model_create(&o, &model));
}

static void words_are_refused_as_the_command_line_refuses_them(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_plan *plan;
#define REFUSED(part, ...)                                                                         \
    do {                                                                                           \
        dyno_plan_options o = {.size = sizeof o, __VA_ARGS__};                                     \
        FAILS(DYNO_INVALID, part, dyno_plan_create(model, &o, &plan));                             \
        assert_null(plan);                                                                         \
    } while (0)
    REFUSED("there is no mode 'fast'", .mode = "fast");
    REFUSED("'fp64'", .precision = "fp64");
    REFUSED("'every:0'", .recompute = "every:0");
    REFUSED("'quick'", .attention = "quick");
    REFUSED("'half'", .gradients = "half");
    REFUSED("attention flash in mode eager", .attention = "flash");
    REFUSED("gradients low in mode eager", .gradients = "low", .precision = "bf16");
    REFUSED("every:1000: segments of 1000 blocks", .recompute = "every:1000");
    REFUSED("'all'", .extent = "all");
    REFUSED("'z80'", .target = "z80");
    REFUSED("'tpu'", .device = "tpu");
    REFUSED("give one of them", .device = "cpu", .target = "h100");
    REFUSED("batch: -1 is outside 1 to", .batch = -1);
    REFUSED("context: 16777217 is outside", .context = (1 << 24) + 1);
    dyno_model_destroy(model);
}

static void training_is_refused_as_the_command_line_refuses_it(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_trainer *trainer;
    const dyno_adamw usual = {
        .size = sizeof usual, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    dyno_adamw adamw;
    dyno_trainer_options o = small_steps();
    o.adamw = &adamw;
#define REFUSED_ADAMW(part, field, number)                                                         \
    do {                                                                                           \
        adamw = usual;                                                                             \
        adamw.field = number;                                                                      \
        FAILS(DYNO_INVALID, part, dyno_trainer_create(model, 0, &o, &trainer));                    \
        assert_null(trainer);                                                                      \
    } while (0)
    REFUSED_ADAMW("beta1: 2 is outside 0 to", beta1, 2);
    REFUSED_ADAMW("beta2: nan is outside", beta2, (double)NAN);
    REFUSED_ADAMW("eps: -1 is outside", eps, -1);
    REFUSED_ADAMW("weight-decay: inf is outside", weight_decay, (double)INFINITY);
    adamw = usual;
    o.clip_norm = -1;
    FAILS(DYNO_INVALID, "clip: -1", dyno_trainer_create(model, 0, &o, &trainer));
    o = small_steps();
    o.memory_bytes = -5;
    FAILS(DYNO_INVALID, "memory_bytes is -5", dyno_trainer_create(model, 0, &o, &trainer));
    o.memory_bytes = 10000;
    FAILS(DYNO_OUT_OF_MEMORY, "smaller batch", dyno_trainer_create(model, 0, &o, &trainer));
    o = small_steps();
    o.device = "abacus";
    FAILS(DYNO_INVALID, "abacus", dyno_trainer_create(model, 0, &o, &trainer));
    dyno_model_destroy(model);

    o = small_steps();
    trainer = small_trainer(&o);
    int32_t ids[ROWS + 1];
    float loss;
    fill_ids(ids);
    FAILS(DYNO_INVALID, "lr: nan", dyno_trainer_step(trainer, ids, ids + 1, (double)NAN, &loss));
    FAILS(DYNO_INVALID, "lr: -1", dyno_trainer_start(trainer, -1));
    FAILS(DYNO_INVALID, "no step was started", dyno_trainer_finish(trainer, &loss));
    ids[5] = VOCABULARY;
    FAILS(DYNO_INVALID, "tokens[5] is 50", dyno_trainer_step(trainer, ids, ids + 1, 1, &loss));
    FAILS(DYNO_INVALID, "targets[4] is 50",
          dyno_trainer_evaluate(trainer, (int32_t[ROWS]){0}, ids + 1, &loss, NULL));
    ids[5] = -1;
    FAILS(DYNO_INVALID, "tokens[5] is -1", dyno_trainer_give(trainer, ids, ids + 1));
    dyno_trainer_destroy(trainer);
    FAILS(DYNO_INVALID, "threads: -1 is outside 0 to 4096", dyno_set_threads(-1));
    FAILS(DYNO_INVALID, "threads: 5000", dyno_set_threads(5000));
}

static void bad_settings_are_refused(void **state) {
    (void)state;
    dyno_results *results;
#define REFUSED_SETTING(part, experiment, setting)                                                 \
    do {                                                                                           \
        const char *const list[] = {setting};                                                      \
        dyno_experiment_options o = {.size = sizeof o, .name = experiment, SETTINGS(list)};        \
        FAILS(DYNO_INVALID, part, dyno_experiment_run(&o, &results));                              \
        assert_null(results);                                                                      \
    } while (0)
    REFUSED_SETTING("--context", "bench", "context=0");
    REFUSED_SETTING("--contxt", "bench", "contxt=8");
    REFUSED_SETTING("--format", "plan", "format=html");
    REFUSED_SETTING("--out", "doctor", "out=x");
    REFUSED_SETTING("there is no experiment 'dance'", "dance", "a=1");
    REFUSED_SETTING("settings[0] is NULL", "bench", NULL);
    dyno_experiment_options o = {.size = sizeof o, .name = "bench", .setting_count = 2};
    FAILS(DYNO_INVALID, "2 settings", dyno_experiment_run(&o, &results));
    o.setting_count = -1;
    FAILS(DYNO_INVALID, "-1 settings", dyno_experiment_run(&o, &results));
    const char *const out[] = {"out=/proc/none", "layers=1", "device=cpu"};
    o = (dyno_experiment_options){.size = sizeof o, .name = "plan", SETTINGS(out)};
    FAILS(DYNO_IO, "/proc/none", dyno_experiment_run(&o, &results));
    assert_null(results);
}

/* ---- programs of other times ---- */

static void old_programs_keep_working(void **state) {
    (void)state;
    /* As the struct was when it ended with d_ff. */
    struct {
        size_t size;
        const char *preset, *config;
        int64_t d_model, d_ff;
        int64_t garbage;
    } old = {offsetof(dyno_model_options, layers), NULL, NULL, 0, 1000, -77};
    dyno_model *model;
    dyno_tensor t;
    OK(dyno_model_create((const dyno_model_options *)&old, &model));
    int i = 0;
    do
        OK(dyno_model_parameter(model, i++, &t));
    while (strcmp(t.name, "model.layers.0.mlp.gate_proj.weight") != 0);
    assert_int_equal(t.shape[0], 1000);
    assert_int_equal(dyno_model_vocabulary(model), 10000);

    struct {
        size_t size;
        int64_t launches;
        double garbage;
    } old_cost = {offsetof(dyno_cost, flops), 0, 42};
    dyno_plan_options o = {.size = offsetof(dyno_plan_options, mode), .mode = "not looked at"};
    dyno_plan *plan;
    OK(dyno_plan_create(model, &o, &plan));
    OK(dyno_plan_cost(plan, (dyno_cost *)&old_cost));
    assert_true(old_cost.launches > 0 && old_cost.garbage == 42);
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);

    dyno_adamw adamw = {.size = offsetof(dyno_adamw, eps), .beta1 = 0.5, .eps = -1};
    dyno_trainer_options steps = small_steps();
    steps.adamw = &adamw;
    dyno_trainer_destroy(small_trainer(&steps));
}

static void newer_programs_work_if_they_ask_for_nothing_new(void **state) {
    (void)state;
    struct {
        dyno_model_options known;
        int64_t unknown;
    } newer = {{.size = sizeof newer}, 0};
    struct {
        dyno_cost known;
        double unknown;
    } newer_cost = {{.size = sizeof newer_cost}, 42};
    dyno_plan_options o = {.size = sizeof o, .device = "cpu"};
    dyno_model *model;
    dyno_plan *plan;
    OK(dyno_model_create(&newer.known, &model));
    OK(dyno_plan_create(model, &o, &plan));
    OK(dyno_plan_cost(plan, &newer_cost.known));
    assert_true(newer_cost.known.flops > 0 && newer_cost.unknown == 0);
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
    newer.unknown = 1;
    FAILS(DYNO_UNSUPPORTED, "a newer library", dyno_model_create(&newer.known, &model));
    assert_null(model);
}

static void a_size_that_was_forgotten_is_an_error(void **state) {
    (void)state;
    dyno_model *model = small_model(), *none;
    dyno_plan *plan;
    dyno_trainer *trainer;
    dyno_results *results;
    dyno_cost cost = {0};
    char *out;
    FAILS(DYNO_INVALID, "dyno_model_options: size is 0",
          dyno_model_create(&(dyno_model_options){0}, &none));
    FAILS(DYNO_INVALID, "size is 0", dyno_plan_create(model, &(dyno_plan_options){0}, &plan));
    FAILS(DYNO_INVALID, "size is 0",
          dyno_trainer_create(model, 0, &(dyno_trainer_options){0}, &trainer));
    FAILS(DYNO_INVALID, "size is 0", dyno_experiment_run(&(dyno_experiment_options){0}, &results));
    FAILS(DYNO_INVALID, "size is 0", dyno_list(NULL, &(dyno_render_options){0}, &out));
    OK(dyno_plan_create(model, &(dyno_plan_options){.size = sizeof(dyno_plan_options)}, &plan));
    FAILS(DYNO_INVALID, "dyno_cost: size is 0", dyno_plan_cost(plan, &cost));
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
}

/* ---- NULL ---- */

/* tests/scripts/test_library_nulls.py checks that there is one for every pointer of dyno.h that may
 * not be NULL. */
#define NAMED(function, parameter, ...)                                                            \
    FAILS(DYNO_INVALID, #function ": " #parameter " is NULL", function(__VA_ARGS__))

static void null_is_named_by_models_and_plans(void **state) {
    (void)state;
    dyno_model *model = small_model(), *other_model;
    dyno_model_options sizes = {.size = sizeof sizes};
    dyno_plan_options planned = {.size = sizeof planned, .device = "cpu"};
    dyno_save_options saving = {.size = sizeof saving};
    dyno_plan *plan, *other_plan;
    dyno_cost cost = {.size = sizeof cost};
    dyno_tensor tensor;
    bool fits;
    char *out;
    OK(dyno_plan_create(model, &planned, &plan));
    NAMED(dyno_list, out, NULL, NULL, NULL);
    NAMED(dyno_model_create, options, NULL, &other_model);
    NAMED(dyno_model_create, out, &sizes, NULL);
    NAMED(dyno_model_parameter, model, NULL, 0, &tensor);
    NAMED(dyno_model_parameter, out, model, 0, NULL);
    NAMED(dyno_model_save, model, NULL, 0, "x");
    NAMED(dyno_model_save, directory, model, 0, NULL);
    NAMED(dyno_model_save_as, model, NULL, 0, "x", &saving);
    NAMED(dyno_model_save_as, directory, model, 0, NULL, &saving);
    NAMED(dyno_model_save_as, options, model, 0, "x", NULL);
    NAMED(dyno_save_check, directory, NULL, NULL, &saving);
    NAMED(dyno_save_check, options, "x", NULL, NULL);
    NAMED(dyno_plan_create, model, NULL, &planned, &other_plan);
    NAMED(dyno_plan_create, options, model, NULL, &other_plan);
    NAMED(dyno_plan_create, out, model, &planned, NULL);
    NAMED(dyno_plan_cost, p, NULL, &cost);
    NAMED(dyno_plan_cost, out, plan, NULL);
    NAMED(dyno_plan_fits, p, NULL, 1, &fits, &out);
    NAMED(dyno_plan_fits, fits, plan, 1, NULL, &out);
    NAMED(dyno_plan_text, p, NULL, &out);
    NAMED(dyno_plan_text, out, plan, NULL);
    NAMED(dyno_plan_source, p, NULL, &out);
    NAMED(dyno_plan_source, out, plan, NULL);
    assert_null(other_model);
    assert_null(other_plan);
    assert_null(out);
    OK(dyno_list(NULL, NULL, &out)); /* these may be NULL */
    dyno_text_free(out);
    OK(dyno_plan_fits(plan, 1, &fits, NULL));
    dyno_plan_destroy(plan);
    dyno_model_destroy(model);
}

static void null_is_named_by_trainers(void **state) {
    (void)state;
    dyno_model *model = small_model();
    dyno_trainer_options steps = small_steps();
    dyno_save_options saving = {.size = sizeof saving};
    dyno_trainer *t = small_trainer(&steps), *other;
    int32_t ids[ROWS + 1];
    float number;
    fill_ids(ids);
    NAMED(dyno_trainer_create, model, NULL, 0, &steps, &other);
    NAMED(dyno_trainer_create, options, model, 0, NULL, &other);
    NAMED(dyno_trainer_create, out, model, 0, &steps, NULL);
    NAMED(dyno_trainer_load, directory, NULL, &steps, &other);
    NAMED(dyno_trainer_load, options, "x", NULL, &other);
    NAMED(dyno_trainer_load, out, "x", &steps, NULL);
    NAMED(dyno_trainer_step, t, NULL, ids, ids, 0, &number);
    NAMED(dyno_trainer_step, tokens, t, NULL, ids, 0, &number);
    NAMED(dyno_trainer_step, targets, t, ids, NULL, 0, &number);
    NAMED(dyno_trainer_step, loss, t, ids, ids, 0, NULL);
    NAMED(dyno_trainer_give, t, NULL, ids, ids);
    NAMED(dyno_trainer_give, tokens, t, NULL, ids);
    NAMED(dyno_trainer_give, targets, t, ids, NULL);
    NAMED(dyno_trainer_start, t, NULL, 0);
    NAMED(dyno_trainer_finish, t, NULL, &number);
    NAMED(dyno_trainer_finish, loss, t, NULL);
    NAMED(dyno_trainer_evaluate, t, NULL, ids, ids, &number, NULL);
    NAMED(dyno_trainer_evaluate, tokens, t, NULL, ids, &number, NULL);
    NAMED(dyno_trainer_evaluate, targets, t, ids, NULL, &number, NULL);
    NAMED(dyno_trainer_evaluate, loss, t, ids, ids, NULL, NULL);
    NAMED(dyno_trainer_read, t, NULL, "loss", &number, 1);
    NAMED(dyno_trainer_read, name, t, NULL, &number, 1);
    NAMED(dyno_trainer_read, to, t, "loss", NULL, 1);
    NAMED(dyno_trainer_write, t, NULL, "loss", &number, 1);
    NAMED(dyno_trainer_write, name, t, NULL, &number, 1);
    NAMED(dyno_trainer_write, from, t, "loss", NULL, 1);
    NAMED(dyno_trainer_save, t, NULL, "x");
    NAMED(dyno_trainer_save, directory, t, NULL);
    NAMED(dyno_trainer_save_as, t, NULL, "x", &saving);
    NAMED(dyno_trainer_save_as, directory, t, NULL, &saving);
    NAMED(dyno_trainer_save_as, options, t, "x", NULL);
    NAMED(dyno_trainer_check, t, NULL);
    assert_null(other);
    OK(dyno_trainer_evaluate(t, ids, ids + 1, &number, NULL)); /* the logits may be NULL */
    OK(dyno_trainer_step(t, ids, ids + 1, 0, &number));        /* and no step is under way */
    dyno_trainer_destroy(t);
    dyno_model_destroy(model);
}

static void null_is_named_by_files(void **state) {
    (void)state;
    scratch made = scratch_create();
    const dyno_tensor tensor = {"a", 1, {1}};
    dyno_save_options saving = {.size = sizeof saving};
    dyno_tokens *tokens, *other;
    dyno_tensor_file *file, *other_file;
    int32_t ids[1];
    float number = 1;
    scratch_write(&made, "tokens", "\1\0\2\0", 4);
    OK(dyno_tokens_open(scratch_join(&made, "tokens").text, 2, &tokens));
    OK(dyno_tensor_file_create(scratch_join(&made, "a").text, &tensor, 1, &file));
    NAMED(dyno_tokens_open, path, NULL, 2, &other);
    NAMED(dyno_tokens_open, out, "x", 2, NULL);
    NAMED(dyno_tokens_read, source, NULL, 0, 1, 10, ids);
    NAMED(dyno_tokens_read, ids, tokens, 0, 1, 10, NULL);
    NAMED(dyno_tensor_file_create, path, NULL, &tensor, 1, &other_file);
    NAMED(dyno_tensor_file_create, tensors, "x", NULL, 1, &other_file);
    NAMED(dyno_tensor_file_create, out, "x", &tensor, 1, NULL);
    NAMED(dyno_tensor_file_create_as, path, NULL, &tensor, 1, &saving, &other_file);
    NAMED(dyno_tensor_file_create_as, tensors, "x", NULL, 1, &saving, &other_file);
    NAMED(dyno_tensor_file_create_as, options, "x", &tensor, 1, NULL, &other_file);
    NAMED(dyno_tensor_file_create_as, out, "x", &tensor, 1, &saving, NULL);
    NAMED(dyno_tensor_file_redeclare, file, NULL, &tensor, 1, NULL);
    NAMED(dyno_tensor_file_redeclare, tensors, file, NULL, 1, NULL);
    NAMED(dyno_tensor_file_append, file, NULL, &number, 1);
    NAMED(dyno_tensor_file_append, from, file, NULL, 1);
    NAMED(dyno_tensor_file_commit, file, NULL);
    FAILS(DYNO_INVALID, "dyno_tensor: name is NULL",
          dyno_tensor_file_create("x", &(dyno_tensor){0}, 1, &other_file));
    assert_null(other);
    assert_null(other_file);
    OK(dyno_tensor_file_append(file, &number, 1));
    OK(dyno_tensor_file_commit(file));
    dyno_tokens_close(tokens);
    scratch_remove(&made);
}

static void null_is_named_by_experiments(void **state) {
    (void)state;
    const char *const settings[] = {"layers=1", "device=cpu"};
    dyno_experiment_options experiment = {
        .size = sizeof experiment, .name = "plan", SETTINGS(settings)};
    dyno_experiment_options unnamed = {.size = sizeof unnamed};
    dyno_results *results, *other;
    char *out;
    OK(dyno_experiment_run(&experiment, &results));
    NAMED(dyno_experiment_run, options, NULL, &other);
    NAMED(dyno_experiment_run, name, &unnamed, &other);
    NAMED(dyno_experiment_run, out, &experiment, NULL);
    int ranks;
    double timeout_s;
    NAMED(dyno_experiment_ranks, options, NULL, &ranks, &timeout_s);
    NAMED(dyno_experiment_ranks, ranks, &experiment, NULL, &timeout_s);
    NAMED(dyno_experiment_ranks, timeout_s, &experiment, &ranks, NULL);
    NAMED(dyno_experiment_help, name, NULL, &out);
    NAMED(dyno_experiment_help, out, "bench", NULL);
    NAMED(dyno_experiment_help_wrapped, name, NULL, 80, &out);
    NAMED(dyno_experiment_help_wrapped, out, "bench", 80, NULL);
    NAMED(dyno_results_read, path, NULL, &other);
    NAMED(dyno_results_read, out, "x", NULL);
    NAMED(dyno_results_json, r, NULL, &out);
    NAMED(dyno_results_json, out, results, NULL);
    NAMED(dyno_results_render, r, NULL, NULL, &out);
    NAMED(dyno_results_render, out, results, NULL, NULL);
    NAMED(dyno_results_write, r, NULL, "x");
    NAMED(dyno_results_write, directory, results, NULL);
    assert_null(other);
    assert_null(out);
    dyno_results_destroy(results);
}

static void null_is_named_by_ranks(void **state) {
    (void)state;
    dyno_ranks_options without_arguments = {.size = sizeof without_arguments, .ranks = 2};
    int number;
    NAMED(dyno_ranks_start, options, NULL, &number);
    NAMED(dyno_ranks_start, exit_code, &without_arguments, NULL);
    NAMED(dyno_ranks_start, arguments, &without_arguments, &number);
    NAMED(dyno_rank, rank, NULL, &number);
    NAMED(dyno_rank, count, &number, NULL);
    NAMED(dyno_ranks_agree, any, false, NULL);
}

static void null_is_nothing_to_functions_that_cannot_fail(void **state) {
    (void)state;
    assert_null(dyno_model_name(NULL));
    assert_null(dyno_trainer_model(NULL));
    assert_int_equal(dyno_model_vocabulary(NULL), 0);
    assert_int_equal(dyno_model_elements(NULL), 0);
    assert_int_equal(dyno_model_parameter_count(NULL), 0);
    assert_int_equal(dyno_tokens_count(NULL), 0);
    assert_false(dyno_trainer_skipped(NULL));
    assert_string_equal(dyno_trainer_left_out(NULL), "");
    dyno_model_destroy(NULL);
    dyno_plan_destroy(NULL);
    dyno_trainer_destroy(NULL);
    dyno_results_destroy(NULL);
    dyno_tokens_close(NULL);
    dyno_tensor_file_abandon(NULL);
    dyno_text_free(NULL);
}

/* ---- values: one validation for both doors ---- */

static int ask_command_line(const char *model, const char *flag, double number) {
    char command[1200];
    snprintf(command, sizeof command,
             DYNO_BINARY " step --load %s --tokens %s/tokens --batch 1 --context 1 --out /dev/null "
                         "--device cpu --%s=%.17g > /dev/null 2>&1",
             model, model, flag, number);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static dyno_status ask_library(const dyno_model *model, const char *flag, double number) {
    dyno_adamw adamw = {
        .size = sizeof adamw, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    dyno_trainer_options o = small_steps();
    const char *const names[] = {"beta1", "beta2", "eps", "weight-decay"};
    double *const fields[] = {&adamw.beta1, &adamw.beta2, &adamw.eps, &adamw.weight_decay};
    const int32_t ids[ROWS + 1] = {0};
    dyno_trainer *t;
    float loss;
    for (int i = 0; i < 4; i++)
        if (strcmp(flag, names[i]) == 0)
            *fields[i] = number;
    if (strcmp(flag, "clip") == 0)
        o.clip_norm = number;
    o.adamw = &adamw;
    dyno_status status = dyno_trainer_create(model, 0, &o, &t);
    if (status == DYNO_OK && strcmp(flag, "lr") == 0)
        status = dyno_trainer_step(t, ids, ids + 1, number, &loss);
    dyno_trainer_destroy(t);
    return status;
}

static void the_library_refuses_what_the_command_line_refuses(void **state) {
    (void)state;
    scratch made = scratch_create();
    dyno_model *model = small_model();
    static const char *const flags[] = {"lr", "beta1", "beta2", "eps", "weight-decay", "clip"};
    static const double numbers[] = {NAN, -INFINITY, INFINITY, -1,  -1e-300, 1e31,
                                     2,   1,         0.99995,  0.5, 0};
    enum { FLAGS = sizeof flags / sizeof *flags, NUMBERS = sizeof numbers / sizeof *numbers };
    int refused = 0;
    OK(dyno_model_save(model, 0, made.path));
    scratch_write(&made, "tokens", "\1\0\2\0", 4);
    for (int i = 0; i < FLAGS; i++)
        for (int j = 0; j < NUMBERS; j++) {
            bool is_refused = ask_library(model, flags[i], numbers[j]) == DYNO_INVALID;
            int code = ask_command_line(made.path, flags[i], numbers[j]);
            if (code < 0 || (code == 2) != is_refused) /* 1: it was tried, and gave NaN */
                fail_msg("%s %g: the command line exits with %d, the library %s", flags[i],
                         numbers[j], code, is_refused ? "refuses it" : "takes it");
            refused += is_refused;
        }
    assert_in_range(refused, 6 * FLAGS, (NUMBERS - 2) * FLAGS);
    dyno_model_destroy(model);
    scratch_remove(&made);
}

/* ---- messages ---- */

static void a_success_leaves_no_message(void **state) {
    (void)state;
    FAILS(DYNO_INVALID, "threads", dyno_set_threads(-1));
    OK(dyno_set_threads(0));
    assert_string_equal(dyno_error_message(), "");
}

/* What fails within a call and is made good leaves no message either: a cache that is not there, a
 * GPU that "auto" looks for, tuned choices. */
static void a_failure_within_a_success_leaves_no_message(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    dyno_model *model = small_model();
    dyno_trainer_options o = small_steps();
    o.mode = "compiled";
    o.device = NULL;
    dyno_trainer *t;
    dyno_plan *plan;
    dyno_plan_options planned = {.size = sizeof planned, .mode = "compiled"};
    int32_t ids[ROWS + 1];
    float loss;
    fill_ids(ids);
    FAILS(DYNO_INVALID, "threads", dyno_set_threads(-1));
    OK(dyno_plan_create(model, &planned, &plan));
    OK(dyno_trainer_create(model, 0, &o, &t));
    OK(dyno_trainer_step(t, ids, ids + 1, 1e-3, &loss));
    static const char *const tuned[] = {"seq=16",     "head-dim=16", "batch=1",
                                        "impl=flash", "tune",        "reps=1"};
    dyno_experiment_options experiment = {
        .size = sizeof experiment, .name = "attention", SETTINGS(tuned)};
    dyno_results *results;
    OK(dyno_experiment_run(&experiment, &results));
    dyno_results_destroy(results);
    dyno_plan_destroy(plan);
    dyno_trainer_destroy(t);
    dyno_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_refused_as_the_command_line_refuses_them),
        cmocka_unit_test(words_are_refused_as_the_command_line_refuses_them),
        cmocka_unit_test(training_is_refused_as_the_command_line_refuses_it),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(old_programs_keep_working),
        cmocka_unit_test(newer_programs_work_if_they_ask_for_nothing_new),
        cmocka_unit_test(a_size_that_was_forgotten_is_an_error),
        cmocka_unit_test(null_is_named_by_models_and_plans),
        cmocka_unit_test(null_is_named_by_trainers),
        cmocka_unit_test(null_is_named_by_files),
        cmocka_unit_test(null_is_named_by_experiments),
        cmocka_unit_test(null_is_named_by_ranks),
        cmocka_unit_test(null_is_nothing_to_functions_that_cannot_fail),
        cmocka_unit_test(the_library_refuses_what_the_command_line_refuses),
        cmocka_unit_test(a_success_leaves_no_message),
        cmocka_unit_test(a_failure_within_a_success_leaves_no_message),
    };
    return cmocka_run_group_tests(tests, own_cache_set_up, own_cache_tear_down);
}
