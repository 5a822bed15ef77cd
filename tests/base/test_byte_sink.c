/* test_byte_sink.c - files that are compressed while they are written, and read back. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/byte_sink.h"
#include "base/byte_source.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/memory.h"
#include "support/expect.h"
#include "support/scratch.h"
#include "support/skip.h"

enum { PIECES = 3000, PIECE_BYTES = 1000 };

static void fill(char *piece, int number) {
    for (int i = 0; i < PIECE_BYTES; i++)
        piece[i] = (char)((number * 31 + i * i) % 251);
}

static void write_pieces(const char *path) {
    char piece[PIECE_BYTES];
    byte_sink *sink;
    expect_ok(byte_sink_create(path, true, &sink));
    for (int i = 0; i < PIECES; i++) {
        fill(piece, i);
        expect_ok(byte_sink_append(sink, piece, sizeof piece));
    }
    expect_ok(byte_sink_commit(sink));
}

static void expect_pieces(const char *path) {
    char piece[PIECE_BYTES], read[PIECE_BYTES];
    byte_source *source;
    size_t got;
    expect_ok(byte_source_open(path, &source));
    for (int i = 0; i < PIECES; i++) {
        size_t have = 0;
        for (; have < sizeof read; have += got) {
            expect_ok(byte_source_read(source, read + have, sizeof read - have, &got));
            assert_true(got > 0);
        }
        fill(piece, i);
        assert_memory_equal(piece, read, sizeof piece);
    }
    expect_ok(byte_source_read(source, read, 1, &got));
    assert_int_equal(got, 0);
    byte_source_close(source);
}

static int64_t size_of(const char *path) {
    int descriptor;
    int64_t size;
    expect_ok(file_open_regular(path, &descriptor, &size));
    close(descriptor);
    return size;
}

static void bytes_come_back_compressed_or_not(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path plain = scratch_join(&made, "plain"), packed = scratch_join(&made, "packed.GZ");
    write_pieces(plain.text);
    expect_pieces(plain.text);
    assert_int_equal(size_of(plain.text), PIECES * PIECE_BYTES);
    if (!gzip_load()->why) {
        write_pieces(packed.text);
        expect_pieces(packed.text);
        assert_true(size_of(packed.text) < PIECES * PIECE_BYTES / 2);
    }
    scratch_remove(&made);
}

static void what_is_abandoned_leaves_nothing(void **state) {
    (void)state;
    static const char *const NAMES[] = {"plain", "packed.gz"};
    scratch made = scratch_create();
    for (int i = 0; i < (gzip_load()->why ? 1 : 2); i++) {
        byte_sink *sink;
        expect_ok(byte_sink_create(scratch_join(&made, NAMES[i]).text, true, &sink));
        expect_ok(byte_sink_append(sink, "some", 4));
        byte_sink_abandon(sink);
        assert_int_equal(scratch_count(made.path), 0);
    }
    byte_sink_abandon(NULL);
    scratch_remove(&made);
}

static void a_file_that_is_there_is_refused(void **state) {
    (void)state;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "out");
    byte_sink *sink;
    scratch_write(&made, "out", "first", 5);
    assert_int_equal(byte_sink_check(path.text, true), DYNO_INVALID);
    assert_int_equal(byte_sink_create(path.text, true, &sink), DYNO_INVALID);
    assert_null(sink);
    expect_ok(byte_sink_check(path.text, false));
    expect_ok(byte_sink_create(path.text, false, &sink));
    expect_ok(byte_sink_commit(sink));
    assert_int_equal(size_of(path.text), 0);
    assert_int_equal(byte_sink_create("/nowhere/at/all", false, &sink), DYNO_IO);
    assert_null(sink);
    scratch_remove(&made);
}

/* Bytes that cannot be compressed, more than zlib keeps before it writes. */
static void a_disk_that_fills_while_compressing_is_an_error(void **state) {
    (void)state;
    if (gzip_load()->why)
        SKIP_BECAUSE("%s", gzip_load()->why);
    enum { BYTES = 4 << 20, LIMIT = 1 << 16 };
    scratch made = scratch_create();
    byte_sink *sink;
    uint32_t *noise = memory_allocate(BYTES / 4, sizeof *noise), x = 1;
    for (int i = 0; i < BYTES / 4; i++)
        noise[i] = x = x * 1664525u + 1013904223u;
    expect_ok(byte_sink_create(scratch_join(&made, "out.gz").text, true, &sink));
    scratch_limit_file_size(LIMIT);
    dyno_status status = byte_sink_append(sink, noise, BYTES);
    if (status == DYNO_OK)
        status = byte_sink_commit(sink);
    else
        byte_sink_abandon(sink);
    scratch_limit_file_size(-1);
    assert_int_equal(status, DYNO_IO);
    assert_non_null(strstr(dyno_error_message(), "out.gz"));
    assert_int_equal(scratch_count(made.path), 0);
    free(noise);
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_compressed_or_not),
        cmocka_unit_test(what_is_abandoned_leaves_nothing),
        cmocka_unit_test(a_file_that_is_there_is_refused),
        cmocka_unit_test(a_disk_that_fills_while_compressing_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
