/* test_cli_step.c - nothing that `dyno step` and `dyno init` did is lost, and nothing that they find
 * is destroyed. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "formats/safetensors.h"
#include "support/command.h"
#include "support/scratch.h"

#define SMALL "--d-model 32 --d-ff 64 --layers 1 --heads 2 --vocab 50 "
enum { TOKENS = 200000 };

/* A model "m" and tokens "t". */
static scratch make_inputs(void) {
    scratch made = scratch_create();
    unsigned char *ids = calloc(TOKENS, 2);
    assert_non_null(ids);
    for (int i = 0; i < TOKENS; i++)
        ids[2 * i] = (unsigned char)(i * 7 % 50);
    scratch_write(&made, "t", ids, 2 * TOKENS);
    free(ids);
    dyno_expect(0, "", "init " SMALL "--seed 5 --out %s/m", made.path);
    return made;
}

/* The whole of a file; the caller frees it. */
static char *contents(const scratch *made, const char *name, size_t *size) {
    char *data;
    assert_int_equal(file_read_all(scratch_join(made, name).text, 1 << 24, &data, size), DYNO_OK);
    return data;
}

#define STEP "step --load %s/m --tokens %s/t --batch 2 --context 8 "

static void outputs_never_replace_inputs(void **state) {
    (void)state;
    scratch made = make_inputs();
    const char *at = made.path;
    size_t model_size, tokens_size, size;
    char *model = contents(&made, "m/model.safetensors", &model_size);
    char *tokens = contents(&made, "t", &tokens_size);
    assert_int_equal(
        link(scratch_join(&made, "m/config.json").text, scratch_join(&made, "hard").text), 0);
    assert_int_equal(symlink("t", scratch_join(&made, "soft").text), 0);
    static const char *const force[] = {"", "--force "};
    for (int i = 0; i < 2; i++) {
        dyno_expect(2, "is model.safetensors of the model that --load reads",
                    STEP "%s--out %s/m/model.safetensors", at, at, force[i], at);
        dyno_expect(2, "is config.json of the model", STEP "%s--out %s/hard", at, at, force[i], at);
        dyno_expect(2, "is the file that --tokens reads", STEP "%s--out %s/t", at, at, force[i],
                    at);
        dyno_expect(2, "is the file that --tokens reads", STEP "%s--out %s/soft", at, at, force[i],
                    at);
        dyno_expect(2, "which --config reads", "init --config %s/m/config.json %s--out %s/m", at,
                    force[i], at);
    }
    dyno_expect(2, "it is a directory", STEP "--out %s/m", at, at, at);
    dyno_expect(2, "it is a directory", STEP "--force --out %s", at, at, at);
    assert_int_equal(mkdir(scratch_join(&made, "s").text, 0700), 0);
    dyno_expect(2, "is a file that --save", STEP "--save %s/s --out %s/s/config.json", at, at, at,
                at);
    assert_int_equal(
        rename(scratch_join(&made, "t").text, scratch_join(&made, "s/model.safetensors").text), 0);
    dyno_expect(2, "which --tokens reads",
                "step --load %s/m --tokens %s/s/model.safetensors --batch 2 --context 8 --force "
                "--save %s/s",
                at, at, at);
    char *now = contents(&made, "m/model.safetensors", &size);
    assert_int_equal(size, model_size);
    assert_memory_equal(now, model, size);
    free(now);
    now = contents(&made, "s/model.safetensors", &size);
    assert_int_equal(size, tokens_size);
    assert_memory_equal(now, tokens, size);
    free(now);
    free(model);
    free(tokens);
    scratch_remove(&made);
}

static void results_are_replaced_by_force_only(void **state) {
    (void)state;
    scratch made = make_inputs();
    const char *at = made.path;
    size_t before_size, size;
    dyno_expect(2, "has a model already", "init " SMALL "--seed 6 --out %s/m", at);
    dyno_expect(0, "", STEP "--out %s/out --save %s/saved", at, at, at, at);
    char *before = contents(&made, "saved/model.safetensors", &before_size);
    dyno_expect(2, "exists; give another name, or --force", STEP "--out %s/out", at, at, at);
    dyno_expect(2, "--force to replace it", STEP "--save %s/saved", at, at, at);
    dyno_expect(2, "--force to replace it", STEP "--save %s/m", at, at, at);
    dyno_expect(0, "", STEP "--out /dev/null", at, at);
    char *now = contents(&made, "saved/model.safetensors", &size);
    assert_memory_equal(now, before, size);
    free(now);
    dyno_expect(0, "", STEP "--out %s/out --save %s/m --force", at, at, at, at);
    now = contents(&made, "m/model.safetensors", &size); /* what one step makes of it, as before */
    assert_int_equal(size, before_size);
    assert_memory_equal(now, before, size);
    free(now);
    free(before);
    dyno_expect(0, "", "init " SMALL "--seed 6 --force --out %s/m", at);
    dyno_expect(1, "cannot save to '/proc/none'", STEP "--save /proc/none", at, at);
    assert_int_equal(scratch_count(scratch_join(&made, "m").text), 2);
    scratch_remove(&made);
}

static void configurations_and_tokenizers_are_carried_over(void **state) {
    (void)state;
    scratch made = make_inputs();
    const char *at = made.path;
    size_t size;
    char *config, changed[4096];
    assert_int_equal(
        file_read_all(scratch_join(&made, "m/config.json").text, 1 << 20, &config, &size), DYNO_OK);
    static const char before[] = "\"bos_token_id\": null";
    assert_non_null(strstr(config, before));
    size_t offset = (size_t)(strstr(config, before) - config);
    snprintf(changed, sizeof changed, "%.*s\"bos_token_id\": 128000, \"mine\": 1.50%s", (int)offset,
             config, config + offset + sizeof before - 1);
    free(config);
    scratch_write(&made, "m/config.json", changed, strlen(changed));
    scratch_write(&made, "m/tokenizer.json", "{}", 2);
    scratch_write(&made, "m/generation_config.json", "[]", 2);
    assert_int_equal(symlink("../t", scratch_join(&made, "m/merges.txt").text), 0);
    dyno_expect(0, "will not carry over merges.txt: it is a link that leads out",
                STEP "--save %s/saved", at, at, at);
    config = contents(&made, "saved/config.json", &size);
    assert_string_equal(config, changed);
    free(config);
    assert_int_equal(scratch_count(scratch_join(&made, "saved").text), 4);
    dyno_expect(0, "", "init --config %s/m/config.json --layers 2 --out %s/drawn", at, at);
    config = contents(&made, "drawn/config.json", &size);
    assert_non_null(strstr(config, "\"bos_token_id\": 128000, \"mine\": 1.50"));
    assert_non_null(strstr(config, "\"num_hidden_layers\": 2"));
    assert_int_equal(size, strlen(changed));
    free(config);
    scratch_remove(&made);
}

/* ---- numbers that are not finite ---- */

/* Overwrites one element of a parameter in a model's file. */
static void damage(const scratch *made, const char *file, const char *parameter, float with) {
    scratch_path path = scratch_join(made, file);
    safetensors_file *model;
    assert_int_equal(safetensors_open(path.text, &model), DYNO_OK);
    long offset = (long)safetensors_find(model, parameter)->offset;
    safetensors_close(model);
    FILE *open_file = fopen(path.text, "r+b");
    assert_non_null(open_file);
    assert_int_equal(fseek(open_file, offset + 4 * (long)sizeof with, SEEK_SET), 0);
    assert_int_equal(fwrite(&with, sizeof with, 1, open_file), 1);
    assert_int_equal(fclose(open_file), 0);
}

static void a_run_that_blows_up_saves_nothing(void **state) {
    (void)state;
    scratch made = make_inputs();
    const char *at = made.path;
    dyno_expect(0, "", STEP "--save %s/saved --out %s/out", at, at, at, at);
    size_t before_size, size;
    char *before = contents(&made, "saved/model.safetensors", &before_size);
    static const char *const modes[] = {"eager", "compiled"};
    for (int i = 0; i < 2; i++) {
        dyno_expect(1, " nothing was written. Use a smaller --lr, --clip, or --on-nan skip",
                    STEP "--mode %s --lr 1e6 --steps 20 --save %s/saved --out %s/out --force", at,
                    at, modes[i], at, at);
        char *now = contents(&made, "saved/model.safetensors", &size);
        assert_int_equal(size, before_size);
        assert_memory_equal(now, before, size);
        free(now);
    }
    free(before);
    assert_int_equal(scratch_count(made.path), 4);
    dyno_expect(0, "steps were skipped", STEP "--lr 1e6 --steps 20 --on-nan skip --out %s/s", at,
                at, at);
    dyno_expect(0, "loss ", STEP "--lr 1e6 --steps 20 --on-nan ignore --out %s/i", at, at, at);
    dyno_expect(2, "--on-nan", STEP "--on-nan halt --out %s/h", at, at, at);
    scratch_remove(&made);
}

static void weights_that_are_not_finite_are_named(void **state) {
    (void)state;
    scratch made = make_inputs();
    const char *at = made.path;
    damage(&made, "m/model.safetensors", "model.layers.0.mlp.up_proj.weight", NAN);
    dyno_expect(1,
                "weight 'model.layers.0.mlp.up_proj.weight' has NaN in 1 of 2048 elements, the "
                "first at 4",
                STEP "--out %s/o", at, at, at);
    damage(&made, "m/model.safetensors", "model.layers.0.mlp.up_proj.weight", -INFINITY);
    dyno_expect(1, "has Inf in 1 of 2048 elements", STEP "--on-nan skip --out %s/o", at, at, at);
    dyno_expect(0, "loss ", STEP "--on-nan ignore --out %s/o --save %s/as-it-is", at, at, at, at);
    scratch_remove(&made);
}

/* ---- signals ---- */

static pid_t start(const scratch *made, char *const *arguments) {
    unlink(scratch_join(made, "stdout").text); /* what an earlier one said is not this one's */
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        dup2(open(scratch_join(made, "stdout").text, O_WRONLY | O_CREAT | O_TRUNC, 0600),
             STDOUT_FILENO);
        dup2(open(scratch_join(made, "stderr").text, O_WRONLY | O_CREAT | O_TRUNC, 0600),
             STDERR_FILENO);
        execv(DYNO_BINARY, arguments);
        _exit(127);
    }
    return process;
}

/* Until the file holds `part`; the process must not end before. */
static void wait_for(const scratch *made, const char *name, const char *part, pid_t process) {
    for (;;) {
        char *data;
        size_t size;
        bool found =
            file_read_all(scratch_join(made, name).text, 1 << 24, &data, &size) == DYNO_OK &&
            strstr(data, part);
        free(data);
        if (found)
            return;
        if (waitpid(process, NULL, WNOHANG) != 0)
            fail_msg("it ended before it said '%s'", part);
        usleep(2000);
    }
}

static int end_of(pid_t process) {
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static pid_t start_training(const scratch *made) {
    scratch_path load = scratch_join(made, "m"), tokens = scratch_join(made, "t");
    scratch_path out = scratch_join(made, "out"), save = scratch_join(made, "saved");
    char *arguments[] = {"dyno",      "step",
                         "--load",    load.text,
                         "--tokens",  tokens.text,
                         "--batch",   "2",
                         "--context", "8",
                         "--steps",   "12000",
                         "--dump",    "logits,loss,gradients,weights",
                         "--out",     out.text,
                         "--save",    save.text,
                         "--force",   "--threads",
                         "1",         NULL};
    return start(made, arguments);
}

static void an_interrupted_run_keeps_its_steps(void **state) {
    (void)state;
    scratch made = make_inputs();
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        pid_t process = start_training(&made);
        wait_for(&made, "stdout", "step 3  loss ", process); /* said while it runs */
        assert_int_equal(kill(process, signals[i]), 0);
        assert_int_equal(end_of(process), 128 + signals[i]);
        size_t size;
        char *said = contents(&made, "stderr", &size), *printed = contents(&made, "stdout", &size);
        assert_non_null(strstr(said, " of 12000 steps; what they computed is in "));
        int done = 0;
        for (const char *line = printed; (line = strstr(line, "loss ")); line++)
            done++;
        char note[96], last[32];
        snprintf(note, sizeof note, "interrupted after %d of 12000 steps", done);
        assert_non_null(strstr(said, note));
        safetensors_file *out, *saved;
        assert_int_equal(safetensors_open(scratch_join(&made, "out").text, &out), DYNO_OK);
        assert_int_equal(
            safetensors_open(scratch_join(&made, "saved/model.safetensors").text, &saved), DYNO_OK);
        assert_string_equal(safetensors_metadata(out, "note"), note);
        assert_string_equal(safetensors_metadata(saved, "note"), note);
        snprintf(last, sizeof last, "loss.%d", done - 1);
        float loss, weight[32], of_saved[32];
        assert_int_equal(safetensors_read_f32(out, safetensors_find(out, last), &loss), DYNO_OK);
        snprintf(note, sizeof note, "step %d  loss %.6f\n", done - 1, (double)loss);
        assert_non_null(strstr(printed, note));
        snprintf(last, sizeof last, "loss.%d", done);
        assert_null(safetensors_find(out, last));
        assert_int_equal(
            safetensors_read_f32(out, safetensors_find(out, "w.model.norm.weight"), weight),
            DYNO_OK);
        assert_int_equal(
            safetensors_read_f32(saved, safetensors_find(saved, "model.norm.weight"), of_saved),
            DYNO_OK);
        assert_memory_equal(weight, of_saved, sizeof weight);
        assert_non_null(safetensors_find(out, "logits"));
        assert_non_null(safetensors_find(out, "g.model.norm.weight"));
        safetensors_close(out);
        safetensors_close(saved);
        free(said);
        free(printed);
    }
    assert_int_equal(scratch_count(made.path), 6); /* m, t, out, saved and two streams */
    scratch_remove(&made);
}

static void nohup_outlives_its_terminal(void **state) {
    (void)state;
    scratch made = make_inputs();
    signal(SIGHUP, SIG_IGN); /* inherited, as nohup does it */
    pid_t process = start_training(&made);
    signal(SIGHUP, SIG_DFL);
    wait_for(&made, "stdout", "step 1  loss ", process);
    assert_int_equal(kill(process, SIGHUP), 0);
    size_t size;
    char *printed = contents(&made, "stdout", &size), next[32];
    int done = 0;
    for (const char *line = printed; (line = strstr(line, "loss ")); line++)
        done++;
    free(printed);
    snprintf(next, sizeof next, "step %d  loss ", done + 3);
    wait_for(&made, "stdout", next, process);
    assert_int_equal(kill(process, SIGTERM), 0);
    assert_int_equal(end_of(process), 128 + SIGTERM);
    scratch_remove(&made);
}

/* Whether a temporary file is there. */
static bool has_temporary(const char *path) {
    DIR *directory = opendir(path);
    bool found = false;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        found = found || strstr(entry->d_name, ".tmp-");
    if (directory)
        closedir(directory);
    return found;
}

static void an_interrupted_init_leaves_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path out = scratch_join(&made, "large");
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    char *arguments[] = {"dyno",  "init",   "--model",   "small", "--layers", "4",
                         "--out", out.text, "--threads", "1",     NULL};
    for (int i = 0; i < 4; i++) {
        pid_t process = start(&made, arguments);
        while (!has_temporary(out.text)) {
            assert_int_equal(waitpid(process, NULL, WNOHANG), 0);
            usleep(1000);
        }
        assert_int_equal(kill(process, signals[i]), 0);
        assert_int_equal(end_of(process), -signals[i]);
        assert_int_equal(file_exists(out.text), signals[i] == SIGKILL);
    }
    assert_true(has_temporary(out.text)); /* of the one that could not clear up */
    dyno_expect(0, "", "init " SMALL "--out %s", out.text);
    assert_false(has_temporary(out.text));
    assert_int_equal(scratch_count(out.text), 2);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_never_replace_inputs),
        cmocka_unit_test(results_are_replaced_by_force_only),
        cmocka_unit_test(configurations_and_tokenizers_are_carried_over),
        cmocka_unit_test(a_run_that_blows_up_saves_nothing),
        cmocka_unit_test(weights_that_are_not_finite_are_named),
        cmocka_unit_test(an_interrupted_run_keeps_its_steps),
        cmocka_unit_test(nohup_outlives_its_terminal),
        cmocka_unit_test(an_interrupted_init_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
