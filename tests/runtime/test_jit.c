/* test_jit.c - generated source becomes functions; the cache survives damage, races and walls. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cache.h"
#include "base/file.h"
#include "runtime/jit.h"
#include "support/own_cache.h"
#include "support/skip.h"

static const char SOURCE[] = "int answer(void) { return 42; }\n";

static int ask(const jit_module *module) {
    int (*answer)(void);
    *(void **)&answer = jit_find(module, "answer");
    assert_non_null(answer);
    return answer();
}

static void load_and_ask(const char *source, int wanted, bool should_compile) {
    jit_module *module;
    jit_times times;
    if (jit_load(source, target_this_cpu(), &module, &times) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    assert_int_equal(ask(module), wanted);
    assert_null(jit_find(module, "question"));
    assert_int_equal(times.compile_ns > 0, should_compile);
    jit_destroy(module);
}

static void the_second_load_comes_from_the_cache(void **state) {
    load_and_ask(SOURCE, 42, true);
    load_and_ask(SOURCE, 42, false);
    load_and_ask("int answer(void) { return 43; }\n", 43, true);
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 2);
}

static void first_object(const scratch *made, char *path, size_t bytes) {
    char directory[300];
    snprintf(directory, sizeof directory, "%s/dyno", made->path);
    DIR *opened = opendir(directory);
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened));)
        if (strlen(entry->d_name) > 3 &&
            strcmp(entry->d_name + strlen(entry->d_name) - 3, ".so") == 0)
            snprintf(path, bytes, "%s/%.200s", directory, entry->d_name);
    closedir(opened);
}

static void a_damaged_object_is_made_again(void **state) {
    load_and_ask(SOURCE, 42, true);
    char path[600] = "";
    first_object(*state, path, sizeof path);
    static const char *const damages[] = {"", "not an object at all", "\177ELF"};
    for (int i = 0; i < 3; i++) {
        unlink(path); /* a new file: the old one may still be mapped */
        FILE *file = fopen(path, "wb");
        fputs(damages[i], file);
        fclose(file);
        load_and_ask(SOURCE, 42, true);
    }
}

static void an_object_of_another_source_is_not_believed(void **state) {
    load_and_ask(SOURCE, 42, true);
    char path[600] = "", other[700];
    first_object(*state, path, sizeof path);
    snprintf(other, sizeof other, "%s.kept", path);
    assert_int_equal(rename(path, other), 0);
    load_and_ask("int answer(void) { return 7; }\n", 7, true);
    char second[600] = "";
    first_object(*state, second, sizeof second);
    rename(second, path); /* 7's object under 42's name */
    load_and_ask(SOURCE, 42, true);
}

static void processes_compiling_at_once_do_not_meet(void **state) {
    (void)state;
    enum { CHILDREN = 4 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            jit_module *module;
            bool good = jit_load(SOURCE, target_this_cpu(), &module, NULL) == DYNO_OK;
            int (*answer)(void);
            if (good)
                *(void **)&answer = jit_find(module, "answer");
            _exit(good && answer() == 42 ? 0 : 1);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 1);
}

static void a_cache_that_cannot_be_written_costs_a_compilation(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    load_and_ask(SOURCE, 42, true);
    load_and_ask(SOURCE, 42, true);
}

static void source_that_does_not_compile_says_what_the_compiler_said(void **state) {
    jit_module *module;
    assert_int_equal(jit_load("int answer( {\n", target_this_cpu(), &module, NULL), DYNO_IO);
    assert_null(module);
    assert_non_null(strstr(dyno_error_message(), "error"));
    assert_true(scratch_count(scratch_join(*state, "dyno").text) <= 0); /* empty, or not made */
}

static void compiling_leaves_nothing_behind(void **state) {
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    scratch_path work = scratch_join(*state, "work");
    assert_int_equal(mkdir(work.text, 0700), 0);
    setenv("TMPDIR", work.text, 1);
    load_and_ask(SOURCE, 42, true);
    jit_module *module;
    assert_int_equal(jit_load("int answer( {\n", target_this_cpu(), &module, NULL), DYNO_IO);
    assert_int_equal(scratch_count(work.text), 0);
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

/* ---- objects that somebody else may have written ---- */

/* Puts an object into the cache that bears SOURCE's name and seal, and makes `marker` where it is
 * loaded. */
static void plant(const scratch *made, const char *marker) {
    load_and_ask(SOURCE, 42, true);
    char path[600] = "", command[1500], *object;
    first_object(made, path, sizeof path);
    snprintf(command, sizeof command,
             "printf '#include <fcntl.h>\n"
             "__attribute__((constructor)) static void run(void) { open(\"%s\", O_CREAT, 0600); }\n"
             "int answer(void) { return 42; }\n' | %s -x c -shared -fPIC -o %s/planted.so -",
             marker, jit_compiler(), made->path);
    assert_int_equal(system(command), 0);
    size_t size;
    if (file_read_all(scratch_join(made, "planted.so").text, 1 << 20, &object, &size) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    hash_string key;
    snprintf(key.text, sizeof key.text, "%.32s", strrchr(path, '/') + 1);
    assert_true(cache_write_sealed(&key, ".so", "tests", object, size));
    free(object);
}

static void an_object_that_others_may_have_written_is_not_executed(void **state) {
    const scratch *made = *state;
    scratch_path marker = scratch_join(made, "marker"), cache = scratch_join(made, "dyno");
    char object[600] = "";
    plant(made, marker.text);
    first_object(made, object, sizeof object);

    assert_int_equal(chmod(cache.text, 0777), 0);
    load_and_ask(SOURCE, 42, true);
    assert_int_equal(chmod(cache.text, 0755), 0);
    assert_int_equal(chmod(made->path, 0770), 0);
    load_and_ask(SOURCE, 42, true);
    assert_int_equal(chmod(made->path, 0700), 0);
    assert_int_not_equal(access(marker.text, F_OK), 0);

    load_and_ask(SOURCE, 42, false); /* it would have been executed */
    assert_int_equal(unlink(marker.text), 0);

    assert_int_equal(chmod(object, 0666), 0);
    load_and_ask(SOURCE, 42, true); /* and takes its place */
    assert_int_not_equal(access(marker.text, F_OK), 0);
    load_and_ask(SOURCE, 42, false);
    assert_int_not_equal(access(marker.text, F_OK), 0);
}

static void an_object_of_another_user_is_not_executed(void **state) {
    enum { NOBODY = 65534 };
    const scratch *made = *state;
    if (geteuid() != 0)
        SKIP_BECAUSE("only root can give files away");
    scratch_path marker = scratch_join(made, "marker"), cache = scratch_join(made, "dyno");
    char object[600] = "";
    plant(made, marker.text);
    first_object(made, object, sizeof object);
    assert_int_equal(chown(cache.text, NOBODY, NOBODY), 0);
    load_and_ask(SOURCE, 42, true);
    assert_int_equal(chown(cache.text, 0, 0), 0);
    assert_int_equal(chown(object, NOBODY, NOBODY), 0);
    load_and_ask(SOURCE, 42, true);
    assert_int_not_equal(access(marker.text, F_OK), 0);
}

static void a_linked_object_is_not_executed(void **state) {
    const scratch *made = *state;
    scratch_path marker = scratch_join(made, "marker"), away = scratch_join(made, "away");
    char object[600] = "";
    plant(made, marker.text);
    first_object(made, object, sizeof object);
    assert_int_equal(rename(object, away.text), 0);
    assert_int_equal(symlink(away.text, object), 0);
    load_and_ask(SOURCE, 42, true);
    assert_int_not_equal(access(marker.text, F_OK), 0);
}

static void without_a_compiler_the_message_says_so(void **state) {
    (void)state;
    char *path = strdup(getenv("PATH"));
    char *cc = getenv("CC") ? strdup(getenv("CC")) : NULL;
    setenv("PATH", "/nowhere", 1);
    unsetenv("CC");
    assert_null(jit_compiler());
    jit_module *module;
    assert_int_equal(jit_load(SOURCE, target_this_cpu(), &module, NULL), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "no C compiler"));
    setenv("PATH", path, 1);
    if (cc)
        setenv("CC", cc, 1);
    free(path);
    free(cc);
}

#define WITH_CACHE(test)                                                                           \
    cmocka_unit_test_setup_teardown(test, own_cache_set_up, own_cache_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CACHE(the_second_load_comes_from_the_cache),
        WITH_CACHE(a_damaged_object_is_made_again),
        WITH_CACHE(an_object_of_another_source_is_not_believed),
        WITH_CACHE(processes_compiling_at_once_do_not_meet),
        WITH_CACHE(a_cache_that_cannot_be_written_costs_a_compilation),
        WITH_CACHE(source_that_does_not_compile_says_what_the_compiler_said),
        WITH_CACHE(compiling_leaves_nothing_behind),
        WITH_CACHE(an_object_that_others_may_have_written_is_not_executed),
        WITH_CACHE(an_object_of_another_user_is_not_executed),
        WITH_CACHE(a_linked_object_is_not_executed),
        WITH_CACHE(without_a_compiler_the_message_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
