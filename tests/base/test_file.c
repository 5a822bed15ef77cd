/* test_file.c - files are read whole or refused, written whole or not at all. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "support/scratch.h"

static void expect_content(const char *path, const char *content) {
    char *data;
    size_t size;
    assert_int_equal(file_read_all(path, 1 << 20, &data, &size), DYNO_OK);
    assert_int_equal(size, strlen(content));
    assert_string_equal(data, content); /* NUL-terminated */
    free(data);
}

static void files_are_read_whole_or_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "five", "12345", 5);
    scratch_write(&made, "empty", "", 0);
    expect_content(scratch_join(&made, "five").text, "12345");
    expect_content(scratch_join(&made, "empty").text, "");
    char *data = made.path;
    size_t size = 1;
    assert_int_equal(file_read_all(scratch_join(&made, "five").text, 4, &data, &size),
                     DYNO_INVALID);
    assert_true(!data && !size);
    assert_non_null(strstr(dyno_error_message(), "5 bytes, the limit is 4"));
    assert_int_equal(file_read_all(scratch_join(&made, "none").text, 4, &data, &size),
                     DYNO_NOT_FOUND);
    assert_int_equal(file_read_all(made.path, 4, &data, &size), DYNO_INVALID);
    assert_int_equal(file_read_all("/dev/zero", 4, &data, &size), DYNO_INVALID);
    scratch_remove(&made);
}

/* None of these calls may wait: nobody writes to the pipe. */
static void only_regular_files_are_opened(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path pipe = scratch_join(&made, "pipe"), place = scratch_join(&made, "socket");
    assert_int_equal(mkfifo(pipe.text, 0600), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", place.text);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    const struct {
        const char *path, *kind;
    } cases[] = {{pipe.text, "it is a pipe"},
                 {place.text, "it is a socket"},
                 {made.path, "it is a directory"},
                 {"/dev/null", "it is a device"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int descriptor;
        int64_t size;
        assert_int_equal(file_open_regular(cases[i].path, &descriptor, &size), DYNO_INVALID);
        assert_int_equal(descriptor, -1);
        assert_non_null(strstr(dyno_error_message(), "is not a regular file"));
        assert_non_null(strstr(dyno_error_message(), cases[i].kind));
    }
    close(listening);
    scratch_path kept = scratch_join(&made, "kept");
    scratch_write(&made, "kept", "one two", 7);
    expect_content(kept.text, "one two");
    assert_int_equal(symlink(kept.text, scratch_join(&made, "link").text), 0);
    expect_content(scratch_join(&made, "link").text, "one two");
    scratch_remove(&made);
}

static void a_file_appears_only_when_committed(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out");
    file_writer *writer;
    assert_int_equal(file_writer_create(path.text, &writer), DYNO_OK);
    assert_int_equal(file_writer_append(writer, "hello ", 6), DYNO_OK);
    assert_int_equal(file_writer_append(writer, "world", 5), DYNO_OK);
    assert_int_equal(file_writer_append(writer, NULL, 0), DYNO_OK);
    assert_int_equal(file_writer_flush(writer), DYNO_OK);
    assert_int_equal(access(path.text, F_OK), -1);
    assert_int_equal(file_writer_commit(writer), DYNO_OK);
    expect_content(path.text, "hello world");
    assert_int_equal(scratch_count(made.path), 1); /* no temporary is left */
    struct stat status;
    assert_int_equal(stat(path.text, &status), 0);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(status.st_mode & 0777, 0666 & ~mask);
    scratch_remove(&made);
}

static void an_abandoned_file_leaves_the_old_one(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out");
    assert_int_equal(file_write_all(path.text, "old", 3), DYNO_OK);
    file_writer *writer;
    assert_int_equal(file_writer_create(path.text, &writer), DYNO_OK);
    assert_int_equal(file_writer_append(writer, "new", 3), DYNO_OK);
    file_writer_abandon(writer);
    file_writer_abandon(NULL);
    expect_content(path.text, "old");
    assert_int_equal(scratch_count(made.path), 1);
    assert_int_equal(file_write_all(path.text, "new", 3), DYNO_OK);
    expect_content(path.text, "new");
    scratch_remove(&made);
}

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out");
    assert_int_equal(file_write_all(path.text, "old", 3), DYNO_OK);
    char *large = calloc(1, 100000);
    assert_non_null(large);
    scratch_limit_file_size(50000);
    dyno_status status = file_write_all(path.text, large, 100000);
    scratch_limit_file_size(-1);
    assert_int_equal(status, DYNO_IO);
    assert_non_null(strstr(dyno_error_message(), path.text));
    expect_content(path.text, "old");
    assert_int_equal(scratch_count(made.path), 1);
    free(large);
    scratch_remove(&made);
}

/* What is small enough to stay in stdio's buffer fails late, and must fail all the same. */
static void a_device_that_is_full_is_an_error(void **state) {
    (void)state;
    assert_int_equal(file_write_all("/dev/full", "x", 1), DYNO_IO);
    assert_non_null(strstr(dyno_error_message(), "/dev/full"));
    file_writer *writer;
    assert_int_equal(file_writer_create("/dev/full", &writer), DYNO_OK);
    assert_int_equal(file_writer_append(writer, "x", 1), DYNO_OK);
    assert_int_equal(file_writer_flush(writer), DYNO_IO);
    file_writer_abandon(writer);
    char *large = calloc(1, 100000);
    assert_non_null(large);
    assert_int_equal(file_write_all("/dev/full", large, 100000), DYNO_IO);
    free(large);
    assert_int_equal(access("/dev/full", F_OK), 0);
    assert_int_equal(file_write_all("/dev/null", "x", 1), DYNO_OK);
}

static void places_that_cannot_be_written_are_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    file_writer *writer;
    assert_int_equal(file_writer_create(made.path, &writer), DYNO_INVALID);
    assert_null(writer);
    assert_int_equal(file_writer_create(scratch_join(&made, "no/such/place").text, &writer),
                     DYNO_IO);
    assert_null(writer);
    assert_int_equal(scratch_count(made.path), 0);
    scratch_remove(&made);
}

static void output_directories_are_made_with_their_parents(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path deep = scratch_join(&made, "a/b/c");
    for (int again = 0; again < 2; again++) {
        assert_int_equal(file_make_output_directory(deep.text), DYNO_OK);
        assert_int_equal(scratch_count(deep.text), 0); /* the probe is gone */
    }
    assert_int_equal(file_make_output_directory(scratch_join(&made, "a/b/c/").text), DYNO_OK);
    scratch_write(&made, "file", "x", 1);
    assert_int_equal(file_make_output_directory(scratch_join(&made, "file").text), DYNO_IO);
    assert_int_equal(file_make_output_directory(scratch_join(&made, "file/sub").text), DYNO_IO);
    assert_int_equal(file_make_output_directory(""), DYNO_INVALID);
    scratch_remove(&made);
}

static void json_comes_back_as_it_was_written(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "run.json");
    json_t *value = json_pack("{s:i, s:f, s:s}", "z", 1, "a", 0.1, "text", "\xc3\xa4\n"), *again;
    assert_int_equal(json_write_file(path.text, value), DYNO_OK);
    assert_int_equal(json_read_file(path.text, &again), DYNO_OK);
    assert_true(json_equal(value, again));
    json_decref(value);
    json_decref(again);
    scratch_remove(&made);
}

static void bad_json_is_refused_by_name(void **state) {
    (void)state;
    static const char *const bad[] = {"", "{", "{\"a\":1,\"a\":2}", "{} x", "[1,]", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *value = (json_t *)&state;
        assert_int_not_equal(json_parse(bad[i], strlen(bad[i]), "the-source", &value), DYNO_OK);
        assert_null(value);
        assert_non_null(strstr(dyno_error_message(), "the-source"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_whole_or_refused),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(a_file_appears_only_when_committed),
        cmocka_unit_test(an_abandoned_file_leaves_the_old_one),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(a_device_that_is_full_is_an_error),
        cmocka_unit_test(places_that_cannot_be_written_are_refused),
        cmocka_unit_test(output_directories_are_made_with_their_parents),
        cmocka_unit_test(json_comes_back_as_it_was_written),
        cmocka_unit_test(bad_json_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
