/* test_nvrtc.c - generated CUDA C becomes code without a GPU; the cache survives damage, races and
 * walls. Skipped where there is no NVRTC. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/nvrtc.h"
#include "support/own_cache.h"
#include "support/skip.h"

static const char SOURCE[] =
    "extern \"C\" __global__ void triple(const float *x, float *y) { y[0] = 3 * x[0]; }\n";
static const nvrtc_target HOPPER = {.toolkit = 13, .major = 9, .minor = 0};

static void compile_or_skip(const char *source, const nvrtc_target *target, nvrtc_code *code) {
    dyno_status status = nvrtc_compile(source, target, code);
    if (status == DYNO_UNSUPPORTED && strstr(dyno_error_message(), "cannot load libnvrtc"))
        SKIP_BECAUSE("%s", dyno_error_message());
    if (status != DYNO_OK)
        fail_msg("%s", dyno_error_message());
}

static void expect_code(const char *source, bool should_compile) {
    nvrtc_code code;
    compile_or_skip(source, &HOPPER, &code);
    assert_memory_equal(code.bytes, "\177ELF", 4);
    assert_int_equal(code.was_compiled, should_compile);
    nvrtc_code_release(&code);
    assert_null(code.bytes);
}

static void the_second_compilation_comes_from_the_cache(void **state) {
    expect_code(SOURCE, true);
    expect_code(SOURCE, false);
    nvrtc_code code;
    compile_or_skip(SOURCE, &(nvrtc_target){.toolkit = 13, .major = 8, .minor = 0}, &code);
    assert_true(code.was_compiled);
    nvrtc_code_release(&code);
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 2);
}

static scratch_path only_file(const scratch *made) {
    scratch_path found = {""};
    DIR *opened = opendir(scratch_join(made, "dyno").text);
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened));)
        if (entry->d_name[0] != '.')
            snprintf(found.text, sizeof found.text, "%s/dyno/%.200s", made->path, entry->d_name);
    closedir(opened);
    return found;
}

static void a_damaged_file_is_made_again(void **state) {
    expect_code(SOURCE, true);
    scratch_path path = only_file(*state);
    static const char *const damages[] = {"", "dyno-gpu-code", "not a cubin\n at all"};
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(path.text, "wb");
        fputs(damages[i], file);
        fclose(file);
        expect_code(SOURCE, true);
        expect_code(SOURCE, false);
    }
    FILE *file = fopen(path.text, "r+b");
    fseek(file, -9, SEEK_END);
    int last = fgetc(file);
    fseek(file, -9, SEEK_END);
    fputc(last ^ 1, file); /* one bit of the code */
    fclose(file);
    expect_code(SOURCE, true);
}

static void processes_compiling_at_once_do_not_meet(void **state) {
    enum { CHILDREN = 3 };
    pid_t children[CHILDREN];
    nvrtc_code code;
    compile_or_skip(SOURCE, &HOPPER, &code); /* skips before there are children */
    nvrtc_code_release(&code);
    unlink(only_file(*state).text);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(nvrtc_compile(SOURCE, &HOPPER, &code) == DYNO_OK ? 0 : 1);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 1);
    expect_code(SOURCE, false);
}

static void a_cache_that_cannot_be_written_costs_a_compilation(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    expect_code(SOURCE, true);
    expect_code(SOURCE, true);
}

/* One that an administrator filled: in a process that may not write there, whoever runs the test.
 */
static void a_cache_that_can_only_be_read_is_read(void **state) {
    const scratch *made = *state;
    expect_code(SOURCE, true);
    assert_int_equal(chmod(made->path, 0555), 0);
    assert_int_equal(chmod(scratch_join(made, "dyno").text, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        enum { NOBODY = 65534 };
        nvrtc_code code;
        if ((geteuid() == 0 && seteuid(NOBODY) != 0) ||
            nvrtc_compile(SOURCE, &HOPPER, &code) != DYNO_OK)
            _exit(2);
        _exit(code.was_compiled);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(chmod(made->path, 0755), 0);
    assert_int_equal(chmod(scratch_join(made, "dyno").text, 0755), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void source_that_does_not_compile_says_what_the_compiler_said(void **state) {
    nvrtc_code code;
    dyno_status status = nvrtc_compile("__global__ void broken( {\n", &HOPPER, &code);
    if (status == DYNO_UNSUPPORTED)
        SKIP_BECAUSE("%s", dyno_error_message());
    assert_int_equal(status, DYNO_IO);
    assert_null(code.bytes);
    assert_non_null(strstr(dyno_error_message(), "error"));
    assert_true(scratch_count(scratch_join(*state, "dyno").text) <= 0); /* empty, or not made */
}

static void a_chip_newer_than_the_library_gets_ptx(void **state) {
    (void)state;
    nvrtc_code code;
    compile_or_skip(SOURCE, &(nvrtc_target){.toolkit = 13, .major = 99, .minor = 9}, &code);
    assert_non_null(strstr(code.bytes, ".target sm_"));
    nvrtc_code_release(&code);
}

/* PTX says whether a * b + c was contracted: mad and fma, or mul and add. */
static void nothing_is_contracted_unless_the_first_line_asks(void **state) {
    (void)state;
    const nvrtc_target newest = {.toolkit = 13, .major = 99, .minor = 9};
    const char body[] = "extern \"C\" __global__ void f(float *x) { x[0] = x[1] * x[2] + x[3]; }\n"
                        "// fmad=true here is too late\n";
    char asking[400];
    snprintf(asking, sizeof asking, "// fmad=true\n%s", body);
    nvrtc_code code;
    compile_or_skip(body, &newest, &code);
    assert_null(strstr(code.bytes, "fma.rn.f32"));
    nvrtc_code_release(&code);
    compile_or_skip(asking, &newest, &code);
    assert_non_null(strstr(code.bytes, "fma.rn.f32"));
    nvrtc_code_release(&code);
}

static void a_library_that_is_not_there_is_named(void **state) {
    (void)state;
    nvrtc_code code;
    assert_int_equal(nvrtc_compile(SOURCE, &(nvrtc_target){.toolkit = 7, .major = 9}, &code),
                     DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "libnvrtc.so.7"));
    assert_non_null(strstr(dyno_error_message(), "CUDA_HOME"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_second_compilation_comes_from_the_cache,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_made_again, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(processes_compiling_at_once_do_not_meet, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_cache_that_cannot_be_written_costs_a_compilation,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_cache_that_can_only_be_read_is_read, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(source_that_does_not_compile_says_what_the_compiler_said,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_chip_newer_than_the_library_gets_ptx, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_contracted_unless_the_first_line_asks,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_library_that_is_not_there_is_named, own_cache_set_up,
                                        own_cache_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
