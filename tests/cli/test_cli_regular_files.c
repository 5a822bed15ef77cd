/* test_cli_regular_files.c - every door through which a file comes in takes regular files only: a
 * pipe that nobody writes to, a device or a directory is an error at once, never a wait. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>

#include "support/command.h"
#include "support/scratch.h"

#define TINY DYNO_TEST_DIR "/golden/tiny"
#define SHARDED DYNO_TEST_DIR "/golden/sharded"

/* As dyno_expect; one that waits is ended, and has exit code 124 then. */
#define expect(code, part, format, ...)                                                            \
    command_expect("timeout", code, part, "60 '%s' " format, DYNO_BINARY, __VA_ARGS__)

static scratch_path make_pipe(const scratch *made, const char *name) {
    scratch_path path = scratch_join(made, name);
    assert_int_equal(mkfifo(path.text, 0600), 0);
    return path;
}

static void copy_model(const char *from, const scratch *made) {
    text output = {0};
    assert_int_equal(command_run("cp", &output, "%s/* %s", from, made->path), 0);
    text_release(&output);
}

/* The file of a model directory becomes a pipe. */
static void expect_pipe_in_model(const char *model, const char *name) {
    scratch made = scratch_create();
    copy_model(model, &made);
    scratch_path path = scratch_join(&made, name);
    assert_int_equal(remove(path.text), 0);
    make_pipe(&made, name);
    char message[600];
    snprintf(message, sizeof message, "'%s' is not a regular file: it is a pipe", path.text);
    expect(2, message, "step --load %s --tokens %s/tokens.bin --batch 1 --context 4 --out %s/out",
           made.path, model, made.path);
    scratch_remove(&made);
}

static void models_are_read_from_regular_files(void **state) {
    (void)state;
    expect_pipe_in_model(TINY, "config.json");
    expect_pipe_in_model(TINY, "model.safetensors");
    expect_pipe_in_model(SHARDED, "model.safetensors.index.json");
    expect_pipe_in_model(SHARDED, "model-00002-of-00003.safetensors");
}

static void tokens_are_read_from_regular_files(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path pipe = make_pipe(&made, "tokens");
    expect(2, "it is a pipe", "step --load " TINY " --tokens %s --out %s/out", pipe.text,
           made.path);
    expect(2, "it is a device", "step --load " TINY " --tokens /dev/zero --out %s/out", made.path);
    expect(2, "it is a directory", "step --load " TINY " --tokens %s --out %s/out", made.path,
           made.path);
    scratch_remove(&made);
}

static void configurations_are_read_from_regular_files(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path pipe = make_pipe(&made, "config.json");
    static const char *const verbs[] = {"plan", "bench", "init --out /tmp/dyno-never-made"};
    for (int i = 0; i < 3; i++) {
        expect(2, "it is a pipe", "%s --config %s", verbs[i], pipe.text);
        expect(2, "it is a device", "%s --config /dev/zero", verbs[i]);
        expect(2, "it is a directory", "%s --config %s", verbs[i], made.path);
    }
    assert_int_equal(scratch_count("/tmp/dyno-never-made"), -1);
    scratch_remove(&made);
}

static void records_are_read_from_regular_files(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path pipe = make_pipe(&made, "run.json");
    expect(2, "it is a pipe", "show %s", pipe.text);
    expect(2, "run.json' is not a regular file: it is a pipe", "show %s", made.path);
    expect(2, "it is a device", "show %s", "/dev/zero");
    scratch_remove(&made);
}

/* What a shell redirects is a regular file under another name, and stays readable. */
static void a_redirected_record_is_a_regular_file(void **state) {
    (void)state;
    scratch made = scratch_create();
    expect(0, "", "plan --layers 1 --device cpu --out %s", made.path);
    expect(0, "peak", "show /dev/stdin < %s/run.json", made.path);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_read_from_regular_files),
        cmocka_unit_test(tokens_are_read_from_regular_files),
        cmocka_unit_test(configurations_are_read_from_regular_files),
        cmocka_unit_test(records_are_read_from_regular_files),
        cmocka_unit_test(a_redirected_record_is_a_regular_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
