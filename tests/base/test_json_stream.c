/* test_json_stream.c - tokens of documents larger than any buffer, their errors, and numbers that keep
 * every digit; from plain and from compressed files. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/json_stream.h"
#include "base/text.h"
#include "support/expect.h"
#include "support/scratch.h"

/* All tokens of a document: "{", "}", "[", "]", keys as "k:", strings in quotes, the rest as it is. */
static dyno_status read_tokens(const char *path, text *out) {
    byte_source *source;
    RETURN_IF_FAILED(byte_source_open(path, &source));
    json_stream *stream = json_stream_create(source, path);
    json_token token = JSON_TOKEN_WORD;
    dyno_status status = DYNO_OK;
    while (status == DYNO_OK && token != JSON_TOKEN_END) {
        status = json_stream_next(stream, &token);
        if (status != DYNO_OK)
            break;
        const char *value = json_stream_text(stream);
        switch (token) {
        case JSON_TOKEN_END:
            break;
        case JSON_TOKEN_OBJECT:
        case JSON_TOKEN_OBJECT_END:
        case JSON_TOKEN_ARRAY:
        case JSON_TOKEN_ARRAY_END:
            text_append(out, (const char *[]){"{", "}", "[", "]"}[token - JSON_TOKEN_OBJECT]);
            break;
        case JSON_TOKEN_KEY:
            text_format(out, "%s:", value);
            break;
        case JSON_TOKEN_STRING:
            text_format(out, "\"%s\"", value);
            break;
        case JSON_TOKEN_NUMBER:
        case JSON_TOKEN_WORD:
            text_format(out, "%s ", value);
            break;
        }
    }
    json_stream_destroy(stream);
    byte_source_close(source);
    return status;
}

static dyno_status read_document(const char *document, size_t size, text *out) {
    scratch place = scratch_create();
    scratch_write(&place, "a.json", document, size);
    dyno_status status = read_tokens(scratch_join(&place, "a.json").text, out);
    scratch_remove(&place);
    return status;
}

static void expect_tokens(const char *document, const char *tokens) {
    text got = {0};
    expect_ok(read_document(document, strlen(document), &got));
    assert_string_equal(text_string(&got), tokens);
    text_release(&got);
}

static void expect_refused(const char *document, const char *part) {
    text got = {0};
    if (read_document(document, strlen(document), &got) != DYNO_CORRUPT)
        fail_msg("accepted: %s", document);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' has no '%s'", dyno_error_message(), part);
    text_release(&got);
}

static void tokens_come_in_the_order_of_the_document(void **state) {
    (void)state;
    expect_tokens("{\"a\": [1, -2.5e3, true, null, {}], \"b\":\"c\"}",
                  "{a:[1 -2.5e3 true null {}]b:\"c\"}");
    expect_tokens(" [ ] ", "[]");
    expect_tokens("3", "3 ");
    expect_tokens("[NaN, Infinity, -Infinity]", "[NaN Infinity -Infinity ]");
}

static void a_byte_order_mark_says_nothing(void **state) {
    (void)state;
    expect_tokens("\xef\xbb\xbf[1]", "[1 ]");
    expect_refused("\xef\xbb\xbf", "ends where there should be a value");
    expect_refused("[\xef\xbb\xbf]", "where there should be a value");
}

static void escapes_become_utf8(void **state) {
    (void)state;
    expect_tokens("\"a\\n\\\"\\\\\\/\\u00e9\\u20ac\\ud83d\\ude00\"",
                  "\"a\n\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    /* A NUL would end the text; half of a pair is no character. */
    expect_tokens("[\"\\u0000x\", \"\\ud800\", \"\\ud800\\n\", \"\\ud800\\u0041\", \"\\udc00\"]",
                  "[\"\xef\xbf\xbdx\"\"\xef\xbf\xbd\"\"\xef\xbf\xbd\n\"\"\xef\xbf\xbd"
                  "A\"\"\xef\xbf\xbd\"]");
}

static void what_is_no_json_is_refused_with_its_place(void **state) {
    (void)state;
    expect_refused("", "ends where there should be a value");
    expect_refused("{\"a\": 1,\n \"b\" 2}", "line 2, column 5: found '2'");
    expect_refused("{\"a\": 1,}", "a key in quotes");
    expect_refused("[1,]", "found ']' where there should be a value");
    expect_refused("[1 2]", "a comma or ']'");
    expect_refused("[1}", "a comma or ']'");
    expect_refused("{1: 2}", "a key in quotes");
    expect_refused("[01]", "'01' is no value");
    expect_refused("[1.]", "is no value");
    expect_refused("[1e]", "is no value");
    expect_refused("[--1]", "is no value");
    expect_refused("[nan]", "'nan' is no value");
    expect_refused("\"\\x\"", "an escape");
    expect_refused("\"\\u12g4\"", "hexadecimal");
    expect_refused("\"a\nb\"", "the byte 0x0a");
    expect_refused("\"abc", "the end of a string");
    expect_refused("{} {}", "the end of the file");
    expect_refused("{\"traceEvents\": [", "is it whole?");
}

static void nesting_has_a_limit(void **state) {
    (void)state;
    char deep[2 * JSON_STREAM_MOST_DEPTH + 3];
    memset(deep, '[', sizeof deep);
    memset(deep + JSON_STREAM_MOST_DEPTH, ']', JSON_STREAM_MOST_DEPTH);
    deep[2 * JSON_STREAM_MOST_DEPTH] = '\0';
    text got = {0};
    expect_ok(read_document(deep, strlen(deep), &got));
    text_release(&got);
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    expect_refused(deep, "deeper than 64");
}

static void long_text_is_cut_and_what_follows_is_read(void **state) {
    (void)state;
    enum { LONG = 300 << 10 };
    text document = {0}, got = {0};
    text_append(&document, "[\"");
    for (int i = 0; i < LONG; i++)
        text_append(&document, "x");
    text_append(&document, "\\u20ac\", 7]");
    expect_ok(read_document(document.data, document.length, &got));
    assert_int_equal(got.length, 1 + 2 + JSON_STREAM_MOST_TEXT + 2 + 1);
    assert_non_null(strstr(text_string(&got), "\"7 ]"));
    text_release(&document);
    text_release(&got);
}

/* Tokens lie across the ends of buffers at every place. */
static void tokens_do_not_depend_on_where_buffers_end(void **state) {
    (void)state;
    text document = {0}, expected = {0}, got = {0};
    text_append(&document, "[");
    text_append(&expected, "[");
    for (int i = 0; i < 20000; i++) {
        text_format(&document, "%s{\"k\\u0041%d\" : \"\\ud83d\\ude00\\n\"}", i ? ",\n" : "", i);
        text_format(&expected, "{kA%d:\"\xf0\x9f\x98\x80\n\"}", i);
    }
    text_append(&document, "]");
    text_append(&expected, "]");
    expect_ok(read_document(document.data, document.length, &got));
    assert_string_equal(text_string(&got), text_string(&expected));
    text_release(&document);
    text_release(&expected);
    text_release(&got);
}

static void skipping_reads_past_a_whole_value(void **state) {
    (void)state;
    static const char document[] = "{\"a\": {\"b\": [1, {}, []]}, \"c\": \"d\", \"e\": 1}";
    scratch place = scratch_create();
    scratch_write(&place, "a.json", document, strlen(document));
    byte_source *source;
    expect_ok(byte_source_open(scratch_join(&place, "a.json").text, &source));
    json_stream *stream = json_stream_create(source, "a");
    json_token token;
    expect_ok(json_stream_next(stream, &token));
    for (const char *key = "ace"; *key; key++) {
        expect_ok(json_stream_next(stream, &token));
        assert_int_equal(token, JSON_TOKEN_KEY);
        assert_int_equal(json_stream_text(stream)[0], *key);
        expect_ok(json_stream_next(stream, &token));
        expect_ok(json_stream_skip(stream, token));
    }
    expect_ok(json_stream_next(stream, &token));
    assert_int_equal(token, JSON_TOKEN_OBJECT_END);
    json_stream_destroy(stream);
    byte_source_close(source);
    scratch_remove(&place);
}

static void expect_scaled(const char *number, int decimals, int64_t expected) {
    int64_t got = INT64_MIN;
    assert_true(json_number_scaled(number, decimals, &got));
    assert_int_equal(got, expected);
}

static void numbers_keep_every_digit(void **state) {
    (void)state;
    expect_scaled("1790857026123456.789", 3, 1790857026123456789);
    expect_scaled("12.5", 3, 12500);
    expect_scaled("-0.0015", 3, -2);
    expect_scaled("0.0004999", 3, 0);
    expect_scaled("7", 0, 7);
    expect_scaled("7.5", 0, 8);
    expect_scaled("1.25e2", 0, 125);
    expect_scaled("12.5e-1", 0, 1);
    expect_scaled("125e-2", 1, 13);
    expect_scaled("1e-300", 3, 0);
    expect_scaled("0e300", 3, 0);
    expect_scaled("9223372036854775807", 0, INT64_MAX);
    int64_t got;
    assert_false(json_number_scaled("9223372036854775808", 0, &got));
    assert_false(json_number_scaled("9223372036854775807", 3, &got));
    assert_false(json_number_scaled("1e19", 0, &got));
    assert_false(json_number_scaled("1e9999", 0, &got));
    assert_false(json_number_scaled("NaN", 0, &got));
    assert_false(json_number_scaled("-Infinity", 0, &got));
}

/* ---- compressed files ---- */

/* `[1, 22, 333]` by `gzip -9n`. */
static const unsigned char PACKED[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x8b, 0x36, 0xd4, 0x51, 0x30, 0x32,
    0xd2, 0x51, 0x30, 0x36, 0x36, 0x8e, 0x05, 0x00, 0x81, 0x83, 0xf1, 0x64, 0x0c, 0x00, 0x00, 0x00};

static void compressed_file_is_unpacked_whatever_its_name(void **state) {
    (void)state;
    text got = {0};
    expect_ok(read_document((const char *)PACKED, sizeof PACKED, &got));
    assert_string_equal(text_string(&got), "[1 22 333 ]");
    text_release(&got);
}

static void damaged_compressed_file_is_refused(void **state) {
    (void)state;
    for (size_t cut = 3; cut < sizeof PACKED; cut++) {
        text got = {0};
        if (read_document((const char *)PACKED, cut, &got) != DYNO_CORRUPT)
            fail_msg("accepted %zu bytes", cut);
        text_release(&got);
    }
    unsigned char damaged[sizeof PACKED];
    memcpy(damaged, PACKED, sizeof damaged);
    damaged[sizeof damaged - 8] ^= 1; /* the checksum */
    text got = {0};
    assert_int_equal(read_document((const char *)damaged, sizeof damaged, &got), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "damaged gzip"));
    assert_null(strstr(dyno_error_message(), "fd:")); /* zlib's own name of the file */
    text_release(&got);
}

/* `cat a.gz b.gz` is the file of both; anything else behind it is not what was written. */
static void members_behind_one_another_are_one_stream_and_other_bytes_are_refused(void **state) {
    (void)state;
    enum { TIMES = 3 };
    char bytes[TIMES * sizeof PACKED + 4], got[64];
    for (int i = 0; i < TIMES; i++)
        memcpy(bytes + (size_t)i * sizeof PACKED, PACKED, sizeof PACKED);
    memcpy(bytes + TIMES * sizeof PACKED, "junk", 4);
    for (size_t junk = 0; junk <= 4; junk++) {
        scratch place = scratch_create();
        scratch_write(&place, "a", bytes, TIMES * sizeof PACKED + junk);
        byte_source *source;
        expect_ok(byte_source_open(scratch_join(&place, "a").text, &source));
        size_t count = 0, more = 0;
        dyno_status status;
        while ((status = byte_source_read(source, got + count, 5, &more)) == DYNO_OK && more)
            count += more;
        assert_int_equal(status, junk ? DYNO_CORRUPT : DYNO_OK);
        if (junk)
            assert_non_null(strstr(dyno_error_message(), "bytes behind its end"));
        else
            assert_int_equal(count, TIMES * 12);
        byte_source_close(source);
        scratch_remove(&place);
    }
    text read = {0};
    assert_int_equal(read_document(bytes + 2 * sizeof PACKED, sizeof PACKED + 4, &read),
                     DYNO_CORRUPT);
    text_release(&read);
}

static void source_can_be_read_twice(void **state) {
    (void)state;
    const struct {
        const void *bytes;
        size_t size;
    } files[] = {{PACKED, sizeof PACKED}, {"[1, 22, 333]", 12}};
    for (int i = 0; i < 2; i++) {
        scratch place = scratch_create();
        scratch_write(&place, "a", files[i].bytes, files[i].size);
        byte_source *source;
        expect_ok(byte_source_open(scratch_join(&place, "a").text, &source));
        for (int turn = 0; turn < 2; turn++) {
            char bytes[64];
            size_t got;
            expect_ok(byte_source_read(source, bytes, sizeof bytes, &got));
            assert_int_equal(got, 12);
            assert_memory_equal(bytes, "[1, 22, 333]", 12);
            assert_int_equal(byte_source_position(source), byte_source_size(source));
            expect_ok(byte_source_rewind(source));
        }
        byte_source_close(source);
        scratch_remove(&place);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_in_the_order_of_the_document),
        cmocka_unit_test(a_byte_order_mark_says_nothing),
        cmocka_unit_test(escapes_become_utf8),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(long_text_is_cut_and_what_follows_is_read),
        cmocka_unit_test(tokens_do_not_depend_on_where_buffers_end),
        cmocka_unit_test(skipping_reads_past_a_whole_value),
        cmocka_unit_test(numbers_keep_every_digit),
        cmocka_unit_test(compressed_file_is_unpacked_whatever_its_name),
        cmocka_unit_test(damaged_compressed_file_is_refused),
        cmocka_unit_test(members_behind_one_another_are_one_stream_and_other_bytes_are_refused),
        cmocka_unit_test(source_can_be_read_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
