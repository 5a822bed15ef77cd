#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>

#include "dyno.h"
#include "support/scratch.h"

static void assert_message_has(const char *part) {
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static void both_widths_are_read_little_endian(void **state) {
    (void)state;
    scratch made = scratch_create();
    const unsigned char narrow[] = {1, 0, 0x34, 0x12, 0xff, 0xff};
    const unsigned char wide[] = {1, 0, 0, 0, 0x56, 0x34, 0x12, 0};
    scratch_write(&made, "narrow", narrow, sizeof narrow);
    scratch_write(&made, "wide", wide, sizeof wide);
    int32_t ids[3];
    dyno_tokens *source;
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "narrow").text, 2, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_count(source), 3);
    assert_int_equal(dyno_tokens_read(source, 0, 3, 65536, ids), DYNO_OK);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 0x1234);
    assert_int_equal(ids[2], 0xffff);
    assert_int_equal(dyno_tokens_read(source, 2, 1, 65536, ids), DYNO_OK);
    assert_int_equal(ids[0], 0xffff);
    assert_int_equal(dyno_tokens_read(source, 3, 0, 65536, ids), DYNO_OK);
    dyno_tokens_close(source);
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "wide").text, 4, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_count(source), 2);
    assert_int_equal(dyno_tokens_read(source, 0, 2, 1 << 24, ids), DYNO_OK);
    assert_int_equal(ids[1], 0x123456);
    dyno_tokens_close(source);
    dyno_tokens_close(NULL);
    scratch_remove(&made);
}

static void ranges_longer_than_a_piece_are_read_whole(void **state) {
    (void)state;
    scratch made = scratch_create();
    enum { COUNT = 50001 };
    uint16_t *ids = malloc(COUNT * sizeof *ids);
    for (int i = 0; i < COUNT; i++)
        ids[i] = (uint16_t)i;
    scratch_write(&made, "t", ids, COUNT * sizeof *ids);
    int32_t *got = malloc(COUNT * sizeof *got);
    dyno_tokens *source;
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "t").text, 2, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_read(source, 7, COUNT - 7, 50001, got), DYNO_OK);
    for (int i = 7; i < COUNT; i++)
        assert_int_equal(got[i - 7], i);
    assert_int_equal(dyno_tokens_read(source, 0, COUNT, 50000, got), DYNO_CORRUPT);
    assert_message_has("token 50000 is 50000");
    dyno_tokens_close(source);
    free(got);
    free(ids);
    scratch_remove(&made);
}

static void too_short_says_what_is_needed_and_what_there_is(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "t", "\0\0\1\0\2\0\3\0", 8);
    dyno_tokens *source;
    int32_t ids[8];
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "t").text, 2, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_read(source, 2, 3, 10, ids), DYNO_INVALID);
    assert_message_has("5 tokens are needed");
    assert_message_has("it has 4");
    assert_int_equal(dyno_tokens_read(source, INT64_MAX, 1, 10, ids), DYNO_INVALID);
    assert_int_equal(dyno_tokens_read(source, 1, INT64_MAX, 10, ids), DYNO_INVALID);
    assert_int_equal(dyno_tokens_read(source, -1, 1, 10, ids), DYNO_INVALID);
    assert_int_equal(dyno_tokens_read(source, 1, -1, 10, ids), DYNO_INVALID);
    dyno_tokens_close(source);
    scratch_write(&made, "empty", "", 0);
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "empty").text, 4, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_count(source), 0);
    assert_int_equal(dyno_tokens_read(source, 0, 1, 10, ids), DYNO_INVALID);
    assert_message_has("it has 0");
    dyno_tokens_close(source);
    scratch_remove(&made);
}

static void id_outside_the_vocabulary_is_named_with_its_position(void **state) {
    (void)state;
    scratch made = scratch_create();
    const uint32_t ids[] = {1, 2, 10000, 0xffffffff, 0x80000000};
    scratch_write(&made, "t", ids, sizeof ids);
    dyno_tokens *source;
    int32_t got[5];
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "t").text, 4, &source), DYNO_OK);
    assert_int_equal(dyno_tokens_read(source, 0, 2, 10000, got), DYNO_OK);
    assert_int_equal(dyno_tokens_read(source, 1, 3, 10000, got), DYNO_CORRUPT);
    assert_message_has("token 2 is 10000, the vocabulary has 10000 ids");
    assert_int_equal(dyno_tokens_read(source, 3, 1, 10000, got), DYNO_CORRUPT);
    assert_message_has("token 3 is 4294967295");
    assert_int_equal(dyno_tokens_read(source, 4, 1, INT32_MAX, got), DYNO_CORRUPT);
    assert_int_equal(dyno_tokens_read(source, 2, 1, 10001, got), DYNO_OK);
    dyno_tokens_close(source);
    scratch_remove(&made);
}

static void files_that_are_no_tokens_are_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "odd", "12345", 5);
    scratch_write(&made, "six", "123456", 6);
    scratch_path odd = scratch_join(&made, "odd"), six = scratch_join(&made, "six");
    dyno_tokens *source;
    assert_int_equal(dyno_tokens_open(odd.text, 2, &source), DYNO_CORRUPT);
    assert_null(source);
    assert_message_has("5 bytes");
    assert_int_equal(dyno_tokens_open(six.text, 4, &source), DYNO_CORRUPT);
    assert_message_has("6 bytes");
    const int widths[] = {-2, 0, 1, 3, 8};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(dyno_tokens_open(six.text, widths[i], &source), DYNO_INVALID);
        assert_message_has("2 or 4");
    }
    assert_int_equal(dyno_tokens_open(scratch_join(&made, "absent").text, 2, &source),
                     DYNO_NOT_FOUND);
    assert_int_equal(dyno_tokens_open(made.path, 2, &source), DYNO_INVALID);
    assert_int_equal(dyno_tokens_open("/dev/zero", 2, &source), DYNO_INVALID);
    scratch_remove(&made);
}

static void a_file_that_shrinks_while_open_is_an_error(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_write(&made, "t", "\0\0\1\0\2\0\3\0", 8);
    scratch_path path = scratch_join(&made, "t");
    dyno_tokens *source;
    int32_t ids[4];
    assert_int_equal(dyno_tokens_open(path.text, 2, &source), DYNO_OK);
    assert_int_equal(truncate(path.text, 4), 0);
    assert_int_equal(dyno_tokens_read(source, 0, 4, 10, ids), DYNO_IO);
    assert_message_has("8 bytes when it was opened");
    dyno_tokens_close(source);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_widths_are_read_little_endian),
        cmocka_unit_test(ranges_longer_than_a_piece_are_read_whole),
        cmocka_unit_test(too_short_says_what_is_needed_and_what_there_is),
        cmocka_unit_test(id_outside_the_vocabulary_is_named_with_its_position),
        cmocka_unit_test(files_that_are_no_tokens_are_refused),
        cmocka_unit_test(a_file_that_shrinks_while_open_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
