/* test_file_writer.c - what is never replaced, what appears together, and what dead processes and
 * those about to die leave behind. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "support/scratch.h"

static void expect_content(const char *path, const char *wanted) {
    char *data;
    size_t size;
    assert_int_equal(file_read_all(path, 1000, &data, &size), DYNO_OK);
    assert_string_equal(data, wanted);
    free(data);
}

static void a_new_file_replaces_none(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out"), link = scratch_join(&made, "link");
    file_writer *writer;
    assert_int_equal(file_writer_create_as(path.text, true, &writer), DYNO_OK);
    assert_int_equal(file_writer_append(writer, "first", 5), DYNO_OK);
    scratch_write(&made, "out", "meanwhile", 9);
    assert_int_equal(file_writer_commit(writer), DYNO_INVALID);
    expect_content(path.text, "meanwhile");
    assert_int_equal(file_writer_create_as(path.text, true, &writer), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "--force"));
    assert_int_equal(symlink("/nowhere/at/all", link.text), 0);
    assert_int_equal(file_check_output(link.text, true), DYNO_INVALID);
    assert_int_equal(file_check_output("/dev/null", true), DYNO_OK);
    assert_int_equal(scratch_count(made.path), 2);
    scratch_remove(&made);
}

static void one_file_is_the_same_by_every_name(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path a = scratch_join(&made, "a"), hard = scratch_join(&made, "hard");
    scratch_path soft = scratch_join(&made, "soft"), home = scratch_join(&made, "home");
    scratch_write(&made, "a", "a", 1);
    scratch_write(&made, "b", "a", 1);
    assert_int_equal(link(a.text, hard.text), 0);
    assert_int_equal(symlink("a", soft.text), 0);
    assert_int_equal(symlink(".", home.text), 0);
    assert_true(file_is_same(a.text, hard.text));
    assert_true(file_is_same(a.text, soft.text));
    assert_true(file_is_same(a.text, scratch_join(&made, "home/a").text));
    assert_false(file_is_same(a.text, scratch_join(&made, "b").text));
    /* A file that is not there yet would be the same in its directory. */
    assert_true(file_is_same(scratch_join(&made, "c").text, scratch_join(&made, "home/./c").text));
    assert_false(file_is_same(scratch_join(&made, "c").text, scratch_join(&made, "d").text));
    assert_false(file_is_same("/nowhere/c", "/nowhere/c/d"));
    scratch_remove(&made);
}

static void files_appear_together(void **state) {
    (void)state;
    scratch made = scratch_create();
    file_writer *writers[2];
    assert_int_equal(file_writer_create(scratch_join(&made, "a").text, &writers[0]), DYNO_OK);
    assert_int_equal(file_writer_create_as(scratch_join(&made, "b").text, true, &writers[1]),
                     DYNO_OK);
    assert_int_equal(file_writer_append(writers[0], "one", 3), DYNO_OK);
    assert_int_equal(file_writer_append_from(writers[1], writers[0], 1, 2), DYNO_OK);
    assert_int_equal(file_writer_append(writers[0], "!", 1), DYNO_OK);
    assert_int_equal(file_writer_append_from(writers[1], writers[0], 0, 9), DYNO_IO);
    assert_int_equal(file_writer_commit_all(writers, 2), DYNO_OK);
    expect_content(scratch_join(&made, "a").text, "one!");
    assert_int_equal(scratch_count(made.path), 2);
    assert_int_equal(file_writer_create("/dev/null", &writers[0]), DYNO_OK);
    assert_int_equal(file_writer_create(scratch_join(&made, "a").text, &writers[1]), DYNO_OK);
    assert_int_equal(file_writer_append_from(writers[1], writers[0], 0, 1), DYNO_UNSUPPORTED);
    file_writer_abandon(writers[0]);
    file_writer_abandon(writers[1]);
    scratch_remove(&made);
}

/* Where one cannot be renamed, the others are as they were, be they new or replaced. */
static void files_that_belong_together_appear_all_or_not_at_all(void **state) {
    (void)state;
    scratch made = scratch_create();
    static const char *const names[] = {"old", "new", "obstacle"};
    file_writer *writers[3];
    scratch_write(&made, "old", "before", 6);
    for (int i = 0; i < 3; i++) {
        scratch_path path = scratch_join(&made, names[i]);
        assert_int_equal(file_writer_create(path.text, &writers[i]), DYNO_OK);
        assert_int_equal(file_writer_append(writers[i], "after", 5), DYNO_OK);
    }
    assert_int_equal(mkdir(scratch_join(&made, "obstacle").text, 0700), 0);
    assert_int_equal(file_writer_commit_all(writers, 3), DYNO_IO);
    assert_non_null(strstr(dyno_error_message(), "obstacle"));
    expect_content(scratch_join(&made, "old").text, "before");
    assert_int_equal(scratch_count(made.path), 2); /* no backup is left */
    for (int i = 0; i < 2; i++) {
        scratch_path path = scratch_join(&made, names[i]);
        assert_int_equal(file_writer_create(path.text, &writers[i]), DYNO_OK);
        assert_int_equal(file_writer_append(writers[i], "after", 5), DYNO_OK);
    }
    assert_int_equal(file_writer_commit_all(writers, 2), DYNO_OK);
    expect_content(scratch_join(&made, "old").text, "after");
    expect_content(scratch_join(&made, "new").text, "after");
    assert_int_equal(scratch_count(made.path), 3);
    scratch_remove(&made);
}

/* A process that writes `path` and then does `end`; returns when it has. */
static void write_and_end(const char *path, void (*end)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        file_writer *writer;
        if (file_writer_create(path, &writer) == DYNO_OK &&
            file_writer_append(writer, "half", 4) == DYNO_OK)
            end();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void end_by_kill(void) { kill(getpid(), SIGKILL); }

static void what_the_dead_left_is_cleared(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out"), other = scratch_join(&made, "other");
    write_and_end(path.text, end_by_kill);
    write_and_end(other.text, end_by_kill);
    assert_int_equal(scratch_count(made.path), 2);
    /* Of the living, and what only looks like one, stay. */
    file_writer *living, *writer;
    char name[64];
    assert_int_equal(file_writer_create(path.text, &living), DYNO_OK);
    assert_int_equal(scratch_count(made.path), 2);
    snprintf(name, sizeof name, "out.tmp-%ld-abcdef", (long)getppid());
    scratch_write(&made, name, "", 0);
    scratch_write(&made, "out.tmp-notes", "", 0);
    assert_int_equal(symlink("/etc/hostname", scratch_join(&made, "out.tmp-999999-abcdef").text),
                     0);
    assert_int_equal(mkdir(scratch_join(&made, "out.tmp-999998-abcdef").text, 0700), 0);
    assert_int_equal(file_writer_create(path.text, &writer), DYNO_OK);
    assert_int_equal(scratch_count(made.path), 7);
    file_writer_abandon(writer);
    file_writer_abandon(living);
    assert_int_equal(scratch_count(made.path), 5);
    scratch_remove(&made);
}

static void a_process_that_ends_at_once_leaves_nothing(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out");
    scratch_write(&made, "out", "old", 3);
    write_and_end(path.text, file_remove_unfinished);
    assert_int_equal(scratch_count(made.path), 1);
    expect_content(path.text, "old");
    scratch_remove(&made);
}

static void a_directory_that_stays_empty_is_removed(void **state) {
    (void)state;
    scratch made = scratch_create();
    static const char *const names[] = {"kept", "not"};
    for (int i = 0; i < 2; i++) {
        scratch_path path = scratch_join(&made, names[i]);
        assert_int_equal(mkdir(path.text, 0700), 0);
        file_add_made_directory(path.text);
        file_remove_made_directory(path.text, i == 0);
    }
    assert_int_equal(scratch_count(made.path), 1);
    assert_true(file_exists(scratch_join(&made, "kept").text));
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_replaces_none),
        cmocka_unit_test(one_file_is_the_same_by_every_name),
        cmocka_unit_test(files_appear_together),
        cmocka_unit_test(files_that_belong_together_appear_all_or_not_at_all),
        cmocka_unit_test(what_the_dead_left_is_cleared),
        cmocka_unit_test(a_process_that_ends_at_once_leaves_nothing),
        cmocka_unit_test(a_directory_that_stays_empty_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
