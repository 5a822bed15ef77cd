/* test_tuning_cache.c - choices survive the process, damage, other processes and walls. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/tuning_cache.h"
#include "support/own_cache.h"

static void add(const char *key, const char *chosen) {
    tuning_cache *cache = tuning_cache_create("choices.txt");
    assert_true(tuning_cache_add(cache, key, chosen));
    tuning_cache_destroy(cache);
}

static void expect(const char *key, const char *wanted) {
    tuning_cache *cache = tuning_cache_create("choices.txt");
    const char *found = tuning_cache_find(cache, key);
    if (wanted) {
        assert_non_null(found);
        assert_string_equal(found, wanted);
    } else {
        assert_null(found);
    }
    tuning_cache_destroy(cache);
}

static void a_choice_is_found_again(void **state) {
    (void)state;
    expect("m1,n2", NULL);
    add("m1,n2", "00ff");
    add("m3,n4", "0123");
    expect("m1,n2", "00ff");
    expect("m3,n4", "0123");
    add("m1,n2", "0a0a"); /* the last one counts */
    expect("m1,n2", "0a0a");
    expect("m1", NULL);
}

static void spoil(const scratch *made, const char *bytes, const char *mode) {
    FILE *file = fopen(scratch_join(made, "dyno/choices.txt").text, mode);
    assert_non_null(file);
    fputs(bytes, file);
    fclose(file);
}

static void damaged_lines_are_passed_over(void **state) {
    add("first", "1111");
    spoil(*state, "0123 no such hash\n\n   \nnothing\n", "a");
    add("second", "2222");
    spoil(*state, "half a li", "a"); /* a process that died within its write */
    add("third", "3333");
    expect("first", "1111");
    expect("second", "2222");
    expect("third", "3333");
    expect("no", NULL);
    FILE *file = fopen(scratch_join(*state, "dyno/choices.txt").text, "r+");
    fseek(file, 34, SEEK_SET); /* within the first line's key */
    fputc('X', file);
    fclose(file);
    expect("first", NULL);
    expect("third", "3333");
}

static void processes_may_add_at_once(void **state) {
    (void)state;
    enum { CHILDREN = 4, EACH = 50 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            tuning_cache *cache = tuning_cache_create("choices.txt");
            for (int j = 0; j < EACH; j++) {
                char key[32];
                snprintf(key, sizeof key, "key-%d-%d", i, j);
                tuning_cache_add(cache, key, key + 4);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < CHILDREN; i++)
        waitpid(children[i], NULL, 0);
    for (int i = 0; i < CHILDREN; i++)
        for (int j = 0; j < EACH; j++) {
            char key[32];
            snprintf(key, sizeof key, "key-%d-%d", i, j);
            expect(key, key + 4);
        }
}

static void without_a_place_to_write_choices_last_as_long_as_the_process(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    tuning_cache *cache = tuning_cache_create("choices.txt");
    assert_false(tuning_cache_add(cache, "key", "42"));
    assert_string_equal(tuning_cache_find(cache, "key"), "42");
    tuning_cache_destroy(cache);
    expect("key", NULL);
}

/* Opening either way would wait for a process at the other end. */
static void a_pipe_in_place_of_the_file_is_passed_over(void **state) {
    add("key", "1");
    scratch_path path = scratch_join(*state, "dyno/choices.txt");
    assert_int_equal(unlink(path.text), 0);
    assert_int_equal(mkfifo(path.text, 0600), 0);
    tuning_cache *cache = tuning_cache_create("choices.txt");
    assert_false(tuning_cache_add(cache, "key", "42"));
    assert_string_equal(tuning_cache_find(cache, "key"), "42");
    tuning_cache_destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_choice_is_found_again, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(damaged_lines_are_passed_over, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(processes_may_add_at_once, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(
            without_a_place_to_write_choices_last_as_long_as_the_process, own_cache_set_up,
            own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_in_place_of_the_file_is_passed_over,
                                        own_cache_set_up, own_cache_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
