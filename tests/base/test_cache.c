/* test_cache.c - what the cache keeps is found again; what others may have written, what is damaged
 * and what is no file is as if it were not there. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cache.h"
#include "base/file.h"
#include "support/own_cache.h"
#include "support/skip.h"

static const hash_string KEY = {"0123456789abcdef0123456789abcdef"};
static const char NAME[] = "dyno/0123456789abcdef0123456789abcdef.so";
static const char CONTENT[] = "an object";

static bool keep(void) {
    return cache_write_sealed(&KEY, ".so", "compiled kernels", CONTENT, sizeof CONTENT - 1);
}

static bool finds(void) {
    char *data;
    size_t size;
    if (!cache_read_sealed(&KEY, ".so", &data, &size)) {
        assert_null(data);
        return false;
    }
    assert_int_equal(size, sizeof CONTENT - 1);
    assert_string_equal(data, CONTENT);
    free(data);
    return true;
}

static void what_is_kept_is_found_again(void **state) {
    assert_false(finds());
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), -1); /* reading makes none */
    assert_true(keep());
    assert_true(finds());
    assert_true(keep());
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 1);
    struct stat status;
    assert_int_equal(stat(scratch_join(*state, "dyno").text, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

static void every_damaged_byte_is_noticed(void **state) {
    assert_true(keep());
    char *data;
    size_t size;
    scratch_path path = scratch_join(*state, NAME);
    assert_int_equal(file_read_all(path.text, 1 << 20, &data, &size), DYNO_OK);
    for (size_t i = 0; i < size; i++) {
        data[i] ^= 1;
        scratch_write(*state, NAME, data, size);
        assert_false(finds());
        data[i] ^= 1;
    }
    for (size_t i = 0; i < size; i++) {
        scratch_write(*state, NAME, data, i);
        assert_false(finds());
    }
    scratch_write(*state, NAME, data, size);
    assert_true(finds());
    free(data);
}

static void the_file_of_another_key_is_not_believed(void **state) {
    assert_true(keep());
    static const hash_string other = {"ffffffffffffffffffffffffffffffff"};
    assert_int_equal(rename(scratch_join(*state, NAME).text,
                            scratch_join(*state, "dyno/ffffffffffffffffffffffffffffffff.so").text),
                     0);
    char *data;
    size_t size;
    assert_false(cache_read_sealed(&other, ".so", &data, &size));
}

static void a_directory_that_others_may_write_to_is_not_used(void **state) {
    const scratch *made = *state;
    assert_true(keep());
    const char *paths[] = {made->path, scratch_join(made, "dyno").text};
    static const mode_t modes[] = {0777, 0770, 0702, 01777};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            assert_int_equal(chmod(paths[i], modes[j]), 0);
            assert_false(finds());
            assert_false(keep());
            assert_false(cache_append("choices", "tuned choices", "a", 1));
        }
        assert_int_equal(chmod(paths[i], 0755), 0);
        assert_true(finds());
    }
    assert_int_equal(scratch_count(paths[1]), 1);
}

static void a_file_that_others_may_write_to_is_replaced(void **state) {
    assert_true(keep());
    assert_int_equal(chmod(scratch_join(*state, NAME).text, 0664), 0);
    assert_false(finds());
    assert_true(keep());
    assert_true(finds());
    assert_true(cache_append("choices", "tuned choices", "a", 1));
    assert_int_equal(chmod(scratch_join(*state, "dyno/choices").text, 0606), 0);
    char *data;
    size_t size;
    assert_false(cache_read("choices", 100, &data, &size));
    assert_false(cache_append("choices", "tuned choices", "a", 1));
}

static void what_belongs_to_another_user_is_not_used(void **state) {
    enum { NOBODY = 65534 };
    if (geteuid() != 0)
        SKIP_BECAUSE("only root can give files away");
    assert_true(keep());
    scratch_path file = scratch_join(*state, NAME), directory = scratch_join(*state, "dyno");
    assert_int_equal(chown(file.text, NOBODY, NOBODY), 0);
    assert_false(finds());
    assert_true(keep());
    assert_true(finds());
    assert_int_equal(chown(directory.text, NOBODY, NOBODY), 0);
    assert_false(finds());
    assert_false(keep());
}

static void links_are_not_followed(void **state) {
    assert_true(keep());
    scratch_path file = scratch_join(*state, NAME), away = scratch_join(*state, "away");
    scratch_path directory = scratch_join(*state, "dyno");
    assert_int_equal(rename(file.text, away.text), 0);
    assert_int_equal(symlink(away.text, file.text), 0);
    assert_false(finds());
    assert_int_equal(symlink(away.text, scratch_join(*state, "dyno/choices").text), 0);
    assert_false(cache_append("choices", "tuned choices", "a", 1));
    assert_true(keep()); /* in the link's place */
    assert_true(finds());
    assert_int_equal(rename(directory.text, scratch_join(*state, "elsewhere").text), 0);
    assert_int_equal(symlink(scratch_join(*state, "elsewhere").text, directory.text), 0);
    assert_false(finds());
    assert_false(keep());
}

static void a_home_on_another_disk_is_used(void **state) {
    assert_int_equal(mkdir(scratch_join(*state, "disk").text, 0700), 0);
    assert_int_equal(symlink("disk", scratch_join(*state, "link").text), 0);
    setenv("XDG_CACHE_HOME", scratch_join(*state, "link").text, 1);
    assert_true(keep());
    assert_true(finds());
    assert_int_equal(scratch_count(scratch_join(*state, "disk/dyno").text), 1);
}

static void what_is_no_file_is_not_waited_for(void **state) {
    assert_true(keep());
    scratch_path file = scratch_join(*state, NAME);
    assert_int_equal(unlink(file.text), 0);
    assert_int_equal(mkfifo(file.text, 0600), 0);
    assert_false(finds());
    assert_int_equal(unlink(file.text), 0);
    assert_int_equal(mkdir(file.text, 0700), 0);
    assert_false(finds());
    assert_false(keep());
    assert_int_equal(scratch_count(scratch_join(*state, "dyno").text), 1); /* no temporary file */
}

static void relative_names_are_ignored(void **state) {
    const scratch *made = *state;
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    assert_int_equal(chdir(made->path), 0);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", scratch_join(made, "home").text, 1);
    assert_true(keep());
    assert_int_equal(scratch_count("relative"), -1);
    assert_int_equal(scratch_count(scratch_join(made, "home/.cache/dyno").text), 1);
    setenv("HOME", "relative", 1);
    assert_false(finds());
    assert_false(keep());
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    assert_false(finds());
    assert_false(keep());
    assert_int_equal(scratch_count("relative"), -1);
    assert_int_equal(chdir("/"), 0);
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

/* In a process of its own, which has not complained yet. Returns what it prints. */
static scratch_path complaint(const scratch *made, void (*use)(void)) {
    scratch_path log = scratch_join(made, "log"), said = {""};
    pid_t child = fork();
    if (child == 0) {
        int file = open(log.text, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(file, STDERR_FILENO);
        use();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FILE *file = fopen(log.text, "r");
    size_t got = fread(said.text, 1, sizeof said.text - 1, file);
    said.text[got] = '\0';
    fclose(file);
    return said;
}

static void use_twice(void) {
    finds();
    keep();
    finds();
    keep();
}

static void read_only(void) { finds(); }

static void unset_and_keep(void) {
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    finds();
    keep();
}

static void one_line_says_why_there_is_no_cache(void **state) {
    assert_true(keep());
    assert_string_equal(complaint(*state, use_twice).text, "");
    assert_int_equal(chmod(scratch_join(*state, "dyno").text, 0777), 0);
    scratch_path said = complaint(*state, use_twice);
    assert_non_null(strstr(said.text, "dyno: the cache is not used ('"));
    assert_non_null(strstr(said.text, "others may write to it (mode 777); `chmod go-w`"));
    assert_ptr_equal(strchr(said.text, '\n'), said.text + strlen(said.text) - 1);
    said = complaint(*state, unset_and_keep);
    assert_non_null(strstr(said.text, "compiled kernels cannot be kept for the next run (neither "
                                      "XDG_CACHE_HOME nor HOME is an absolute path)"));
    setenv("XDG_CACHE_HOME", "/nowhere/at/all", 1);
    assert_string_equal(complaint(*state, read_only).text, "");
}

#define WITH_CACHE(test)                                                                           \
    cmocka_unit_test_setup_teardown(test, own_cache_set_up, own_cache_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CACHE(one_line_says_why_there_is_no_cache), /* first: no line has been printed */
        WITH_CACHE(what_is_kept_is_found_again),
        WITH_CACHE(every_damaged_byte_is_noticed),
        WITH_CACHE(the_file_of_another_key_is_not_believed),
        WITH_CACHE(a_directory_that_others_may_write_to_is_not_used),
        WITH_CACHE(a_file_that_others_may_write_to_is_replaced),
        WITH_CACHE(what_belongs_to_another_user_is_not_used),
        WITH_CACHE(links_are_not_followed),
        WITH_CACHE(a_home_on_another_disk_is_used),
        WITH_CACHE(what_is_no_file_is_not_waited_for),
        WITH_CACHE(relative_names_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
