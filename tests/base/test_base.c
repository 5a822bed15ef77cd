/* test_base.c - units, text, checked sizes, random numbers, threads, arenas, messages. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "base/wrap.h"

static void durations_and_shares_are_read_as_people_write_them(void **state) {
    (void)state;
    double seconds, share;
    assert_int_equal(units_parse_duration("20min", &seconds), DYNO_OK);
    assert_true(seconds == 1200);
    assert_int_equal(units_parse_duration("1.5 h", &seconds), DYNO_OK);
    assert_true(seconds == 5400);
    assert_int_equal(units_parse_duration("90", &seconds), DYNO_OK);
    assert_true(seconds == 90);
    static const char *const no_times[] = {"", "min", "-3s", "3 weeks", "nan", "1e300h"};
    for (size_t i = 0; i < sizeof no_times / sizeof *no_times; i++)
        assert_int_equal(units_parse_duration(no_times[i], &seconds), DYNO_INVALID);
    assert_int_equal(units_parse_share("2%", &share), DYNO_OK);
    assert_true(share == 0.02);
    assert_int_equal(units_parse_share("0.5", &share), DYNO_OK);
    assert_true(share == 0.5);
    static const char *const no_shares[] = {"", "2", "100%", "-1%", "2 percent", "inf"};
    for (size_t i = 0; i < sizeof no_shares / sizeof *no_shares; i++)
        assert_int_equal(units_parse_share(no_shares[i], &share), DYNO_INVALID);
}

static void sizes_are_written_for_people(void **state) {
    (void)state;
    assert_string_equal(units_bytes(0).text, "0 B");
    assert_string_equal(units_bytes(512).text, "512 B");
    assert_string_equal(units_bytes(1023).text, "1023 B");
    assert_string_equal(units_bytes(1024).text, "1.00 KiB");
    assert_string_equal(units_bytes(3 << 19).text, "1.50 MiB");
    assert_string_equal(units_bytes(32LL << 30).text, "32.00 GiB");
    assert_string_equal(units_bytes(-(1LL << 20)).text, "-1.00 MiB");
    assert_string_equal(units_bytes((1 << 20) - 1).text, "1.00 MiB"); /* not 1024.00 KiB */
    assert_string_equal(units_bytes(INT64_MAX).text, "8192.00 PiB");
}

static void counts_are_written_for_people(void **state) {
    (void)state;
    assert_string_equal(units_count(0).text, "0");
    assert_string_equal(units_count(950).text, "950");
    assert_string_equal(units_count(12300).text, "12.3 k");
    assert_string_equal(units_count(128625408).text, "128.6 M");
    assert_string_equal(units_count(2.72e9).text, "2.72 G");
    assert_string_equal(units_count(999999).text, "1.00 M"); /* not 1000.0 k */
    assert_string_equal(units_count(-4e12).text, "-4.00 T");
}

static void durations_are_written_for_people(void **state) {
    (void)state;
    assert_string_equal(units_duration(3.21).text, "3.2 s");
    assert_string_equal(units_duration(245).text, "4 min 05 s");
    assert_string_equal(units_duration(59.97).text, "1 min 00 s"); /* not 60.0 s */
    assert_string_equal(units_duration(7260).text, "2 h 01 min");
}

static void sizes_are_read_as_people_write_them(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"1", 1},
                {"1073741824", 1 << 30},
                {"32GiB", 32LL << 30},
                {"24 MiB", 24 << 20},
                {"512MB", 512000000},
                {"1.5GiB", 3LL << 29},
                {".5KiB", 512},
                {"7kb", 7000},
                {"2 t", 2LL << 40},
                {"80gib", 80LL << 30},
                {"100B", 100}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t bytes = -1;
        assert_int_equal(units_parse_bytes(good[i].text, &bytes), DYNO_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const char *const bad[] = {"",    " ",      "GiB", "-1", "+1",    "nan",
                                      "inf", "1 2",    "1XB", "0",  "0.2B",  "1e30",
                                      "--",  "9999PB", "1e",  "0x", "5GiB5", "5 GiB "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t bytes = -1;
        if (units_parse_bytes(bad[i], &bytes) != DYNO_INVALID)
            fail_msg("'%s' was taken for %lld bytes", bad[i], (long long)bytes);
        assert_int_equal(bytes, -1);
        assert_non_null(strstr(dyno_error_message(), bad[i]));
    }
}

static void bandwidths_have_units_that_say_bits_or_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double rate;
    } good[] = {{"450GB/s", 450e9}, {"50 GB/s", 50e9}, {"400Gbit/s", 50e9}, {"1.5TB/s", 1.5e12},
                {"2MiB/s", 0x1p21}, {".5kB/s", 500},   {"7B/s", 7},         {"100Mbit/s", 12.5e6}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double rate = -1;
        assert_int_equal(units_parse_bandwidth(good[i].text, &rate), DYNO_OK);
        assert_true(rate == good[i].rate);
    }
    static const char *const bad[] = {"",      "450",   "450GB",  "450Gb/s",  "-1GB/s",
                                      "0GB/s", "nan",   "GB/s",   "1e30TB/s", "1GB/s ",
                                      "fast",  "1gb/s", "infGB/s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double rate = -1;
        if (units_parse_bandwidth(bad[i], &rate) != DYNO_INVALID)
            fail_msg("'%s' was taken for %g bytes a second", bad[i], rate);
        assert_true(rate == -1);
        assert_non_null(strstr(dyno_error_message(), bad[i]));
    }
}

static void words_are_quoted_for_a_shell(void **state) {
    (void)state;
    static const char *const WORDS[][2] = {{"--model", "--model"},
                                           {"a/b:1,2.5%", "a/b:1,2.5%"},
                                           {"1:8:*2", "'1:8:*2'"},
                                           {"x;y", "'x;y'"},
                                           {"it's", "'it'\\''s'"},
                                           {"$(id)", "'$(id)'"},
                                           {"", "''"},
                                           {"=ls", "'=ls'"},
                                           {"--a=b", "--a=b"}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        text out = {0};
        text_append_shell_word(&out, WORDS[i][0]);
        assert_string_equal(text_string(&out), WORDS[i][1]);
        text_release(&out);
    }
}

static void the_nearest_name_is_suggested(void **state) {
    (void)state;
    static const char *const names[] = {"batch", "layers", "heads", "d-model", "d-ff"};
    assert_string_equal(text_nearest("bacth", names, 5), "batch");
    assert_string_equal(text_nearest("layer", names, 5), "layers");
    assert_string_equal(text_nearest("d_model", names, 5), "d-model");
    assert_string_equal(text_nearest("heads", names, 5), "heads");
    assert_null(text_nearest("zebra-crossing", names, 5));
    assert_null(text_nearest("xyz", names, 5));
    assert_null(text_nearest("batch", names, 0));
    char endless[400];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(text_nearest(endless, names, 5));
}

static void text_grows(void **state) {
    (void)state;
    text out = {0};
    assert_string_equal(text_string(&out), "");
    for (int i = 0; i < 1000; i++)
        text_format(&out, "%d,", i);
    text_append(&out, "");
    text_append(&out, "end");
    text_append_bytes(&out, "\0x", 2);
    assert_int_equal(out.length, 10 * 2 + 90 * 3 + 900 * 4 + 3 + 2);
    assert_memory_equal(out.data + out.length - 9, "999,end\0x", 10);
    text_release(&out);
    assert_null(out.data);
}

static void quoted_text_is_fit_for_a_message(void **state) {
    (void)state;
    assert_string_equal(text_quote("plain").text, "plain");
    assert_string_equal(text_quote("a\nb\x1b[31m\x7f").text, "a\\nb\\x1b[31m\\x7f");
    /* C1 in UTF-8, an override of direction, a byte that is no UTF-8, and what may stay. */
    assert_string_equal(text_quote("\xc2\x9b \xe2\x80\xae \x9b \xc3\xa9").text,
                        "\\u009b \\u202e \\x9b \xc3\xa9");
    char endless[300];
    memset(endless, 'a', sizeof endless);
    endless[299] = '\0';
    assert_int_equal(strlen(text_quote(endless).text), 99);
    /* A two-byte character on the edge is left out whole. */
    memcpy(endless + 95, "\xc3\xa4", 2);
    quoted_text cut = text_quote(endless);
    assert_string_equal(cut.text + 93, "aa...");
}

static void expect_printable(const char *string, const char *kept, const char *wanted) {
    text out = {0};
    text_append_printable(&out, string, kept);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void what_a_terminal_obeys_or_hides_becomes_an_escape(void **state) {
    (void)state;
    expect_printable("plain \xe4\xb8\xad \xf0\x9f\x98\x80", "",
                     "plain \xe4\xb8\xad \xf0\x9f\x98\x80");
    expect_printable("\x01\x1b]0;t\x07\x08\r\n\t\x7f", "",
                     "\\x01\\x1b]0;t\\x07\\x08\\r\\n\\t\\x7f");
    expect_printable("a\nb\tc\r", "\n\t", "a\nb\tc\\r");
    /* Zero width, line separator, isolate, byte order mark, a tag. */
    expect_printable("\xe2\x80\x8b\xe2\x80\xa8\xe2\x81\xa6\xef\xbb\xbf\xf3\xa0\x80\x81", "",
                     "\\u200b\\u2028\\u2066\\ufeff\\U000e0001");
    /* Overlong, a surrogate, beyond the last, cut off. */
    expect_printable("\xc0\x9b", "", "\\xc0\\x9b");
    expect_printable("\xe0\x82\x9b", "", "\\xe0\\x82\\x9b");
    expect_printable("\xed\xa0\x80", "", "\\xed\\xa0\\x80");
    expect_printable("\xf4\x90\x80\x80", "", "\\xf4\\x90\\x80\\x80");
    expect_printable("\xe2\x80", "", "\\xe2\\x80");
}

static void escapes_of_json_keep_what_its_strings_say(void **state) {
    (void)state;
    text out = {0};
    text_append_printable_json(
        &out, "{\n \"a\": \"\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x80\x81\xc3\xa9\"\n}");
    assert_string_equal(text_string(&out),
                        "{\n \"a\": \"\\u007f\\u009b\\u202e\\udb40\\udc01\xc3\xa9\"\n}");
    text_release(&out);
}

static void a_screen_has_two_columns_for_a_wide_character(void **state) {
    (void)state;
    assert_int_equal(printable_width(""), 0);
    assert_int_equal(printable_width("abc\xc3\xa9"), 4);
    assert_int_equal(printable_width("\xe4\xb8\xad\xe6\x96\x87"), 4);
    assert_int_equal(printable_width("e\xcc\x81"), 1);
}

static void expect_wrapped(const char *string, int columns, const char *wanted) {
    text out = {0};
    text_append_wrapped(&out, string, 0, 2, columns);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void lines_are_wrapped_between_words(void **state) {
    (void)state;
    expect_wrapped("", 10, "\n");
    expect_wrapped("one two three four", 0, "one two three four\n");
    expect_wrapped("one two three four", 18, "one two three four\n");
    expect_wrapped("one two three four", 10, "one two\n  three\n  four\n");
    expect_wrapped("abcdefghijklmno p", 10, "abcdefghij\n  klmno p\n");
    expect_wrapped("(aaaa|bbbb|cccc)", 12, "(aaaa|bbbb|\n  cccc)\n");
    expect_wrapped("\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad", 4,
                   "\xe4\xb8\xad\xe4\xb8\xad\n  \xe4\xb8\xad\n");
    assert_int_equal(wrap_longest_word("a three of"), 5);
    assert_int_equal(wrap_line("  x", 2), 3); /* something is taken, however narrow */
}

static void messages_escape_what_they_quote(void **state) {
    (void)state;
    assert_int_equal(dyno_fail(DYNO_IO, "cannot open '%s':\n%s", "a\033[2Jb", "log"), DYNO_IO);
    assert_string_equal(dyno_error_message(), "cannot open 'a\\x1b[2Jb':\nlog");
    assert_int_equal(dyno_fail_within(DYNO_IO, "'\x9b'"), DYNO_IO);
    assert_string_equal(dyno_error_message(), "'\\x9b': cannot open 'a\\x1b[2Jb':\nlog");
    char endless[8192];
    memset(endless, '\033', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(dyno_fail(DYNO_IO, "%s", endless), DYNO_IO);
    assert_true(strlen(dyno_error_message()) < 2048);
    assert_null(strchr(dyno_error_message(), '\033'));
}

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    int64_t result = 7;
    assert_true(checked_multiply(1LL << 31, 1LL << 31, &result));
    assert_int_equal(result, 1LL << 62);
    assert_false(checked_multiply(1LL << 32, 1LL << 31, &result));
    assert_false(checked_multiply(INT64_MIN, -1, &result));
    assert_false(checked_add(INT64_MAX, 1, &result));
    assert_false(checked_add(INT64_MIN, -1, &result));
    assert_int_equal(result, 1LL << 62); /* left alone */
    assert_true(checked_add(INT64_MAX, INT64_MIN, &result));
    assert_int_equal(result, -1);
}

static void random_numbers_depend_on_their_index_alone(void **state) {
    (void)state;
    rng_stream stream = rng_stream_init(1, 2), again = rng_stream_init(1, 2);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(rng_bits(stream, i), rng_bits(again, i));
    uint64_t backwards[100];
    for (int i = 99; i >= 0; i--)
        backwards[i] = rng_bits(stream, (uint64_t)i);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rng_bits(stream, (uint64_t)i), backwards[i]);
    assert_true(rng_bits(stream, 0) != rng_bits(rng_stream_init(1, 3), 0));
    assert_true(rng_bits(stream, 0) != rng_bits(rng_stream_init(2, 2), 0));
    assert_true(rng_hash_name("a.weight") != rng_hash_name("b.weight"));
}

/* Streams of neighbouring seeds and names must not resemble each other. */
static void streams_are_independent(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    for (uint64_t seed = 0; seed < 4; seed++) {
        rng_stream a = rng_stream_init(seed, 0), b = rng_stream_init(seed + 1, 0);
        rng_stream c = rng_stream_init(seed, 1);
        double ab = 0, ac = 0, next = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            double x = rng_uniform(a, i) - 0.5;
            ab += x * (rng_uniform(b, i) - 0.5);
            ac += x * (rng_uniform(c, i) - 0.5);
            next += x * (rng_uniform(a, i + 1) - 0.5);
        }
        double limit = 5 / 12.0 * sqrt(COUNT); /* five standard deviations */
        assert_true(fabs(ab) < limit && fabs(ac) < limit && fabs(next) < limit);
    }
}

static void uniform_numbers_have_the_moments_they_should(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    rng_stream stream = rng_stream_init(42, 0);
    double sum = 0, squares = 0;
    int buckets[16] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rng_uniform(stream, i);
        assert_true(x > 0 && x < 1);
        sum += x;
        squares += x * x;
        buckets[(int)(x * 16)]++;
    }
    assert_true(fabs(sum / COUNT - 1.0 / 2) < 5 * sqrt(1.0 / 12 / COUNT));
    assert_true(fabs(squares / COUNT - 1.0 / 3) < 5 * sqrt(4.0 / 45 / COUNT));
    for (int i = 0; i < 16; i++)
        assert_in_range(buckets[i], COUNT / 16 - 1300, COUNT / 16 + 1300);
}

static uint64_t undo_xor_shift(uint64_t z, int shift) {
    uint64_t x = z;
    for (int i = 0; i < 64 / shift; i++)
        x = z ^ (x >> shift);
    return x;
}

static uint64_t inverse(uint64_t odd) { /* modulo 2^64 */
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

/* The stream whose first 64 bits are the given ones: the generator run backwards. */
static rng_stream stream_beginning_with(uint64_t bits) {
    uint64_t z = undo_xor_shift(bits, 31) * inverse(0x94d049bb133111ebu);
    z = undo_xor_shift(z, 27) * inverse(0xbf58476d1ce4e5b9u);
    return (rng_stream){undo_xor_shift(z, 30) - 0x9e3779b97f4a7c15u};
}

static void uniform_numbers_are_never_zero_or_one(void **state) {
    (void)state;
    rng_stream lowest = stream_beginning_with(0), highest = stream_beginning_with(UINT64_MAX);
    assert_int_equal(rng_bits(lowest, 0), 0);
    assert_true(rng_bits(highest, 0) == UINT64_MAX);
    assert_true(rng_uniform(lowest, 0) > 0 && rng_uniform(lowest, 0) < 1e-15);
    assert_true(rng_uniform(highest, 0) < 1 && rng_uniform(highest, 0) > 1 - 1e-15);
    assert_true(fabs(rng_truncated_normal(lowest, 0) + 3) < 1e-6);
    assert_true(fabs(rng_truncated_normal(highest, 0) - 3) < 1e-6);
}

static void normal_numbers_have_the_moments_they_should(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    rng_stream stream = rng_stream_init(7, 0);
    double power[5] = {0}, largest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rng_truncated_normal(stream, i), p = 1;
        largest = fmax(largest, fabs(x));
        for (int k = 0; k < 5; k++, p *= x)
            power[k] += p / COUNT;
    }
    /* Of a standard normal cut at 3: with f the density at 3 over the mass within,
     * E x^2 = 1 - 6 f and E x^4 = 3 E x^2 - 54 f. */
    double f = exp(-4.5) / sqrt(2 * acos(-1)) / erf(3 / sqrt(2)), second = 1 - 6 * f;
    assert_true(fabs(power[1]) < 5e-3 && fabs(power[3]) < 2e-2);
    assert_true(fabs(power[2] - second) < 7e-3);
    assert_true(fabs(power[4] - (3 * second - 54 * f)) < 4e-2);
    assert_true(largest <= 3.000001 && largest > 2.99);
}

typedef struct visits {
    atomic_int *times;
    int64_t count, grain;
    atomic_int pieces;
} visits;

static void visit(void *context, int64_t begin, int64_t end) {
    visits *v = context;
    atomic_fetch_add(&v->pieces, 1);
    if (begin < 0 || end > v->count || begin >= end || begin % v->grain != 0 ||
        (end != v->count && end % v->grain != 0)) {
        atomic_fetch_add(&v->times[0], 1000); /* cmocka may not fail on another thread */
        return;
    }
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&v->times[i], 1);
}

static void threads_cover_each_index_exactly_once(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 4097};
    static const int64_t grains[] = {1, 2, 3, 64, 5000};
    for (int threads = 1; threads <= 9; threads++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t g = 0; g < sizeof grains / sizeof *grains + 1; g++) {
                bool each = g == sizeof grains / sizeof *grains;
                visits v = {.count = sizes[s], .grain = each ? 1 : grains[g]};
                v.times = memory_allocate((size_t)sizes[s] + 1, sizeof *v.times);
                threads_set_count(threads);
                if (each)
                    threads_for_each(v.count, visit, &v);
                else
                    threads_for(v.count, v.grain, visit, &v);
                for (int64_t i = 0; i < v.count; i++)
                    assert_int_equal(v.times[i], 1);
                assert_int_equal(v.times[v.count], 0);
                int64_t most = (v.count + v.grain - 1) / v.grain;
                assert_true(v.pieces <= (each ? v.count : most < threads ? most : threads));
                free(v.times);
            }
    threads_set_count(0);
    assert_int_equal(threads_count(), threads_available());
    threads_set_count(3);
    assert_int_equal(threads_count(), 3);
    threads_set_count(0);
}

static void arenas_give_aligned_zeroed_memory_of_any_size(void **state) {
    (void)state;
    arena *owner = arena_create();
    static const size_t sizes[] = {1, 3, 16, 17, 1000, 65536, 65537, 1000000, 0, 8};
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *block = arena_allocate(owner, sizes[i], 1);
            assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(block[j], 0);
            memset(block, 0xff, sizes[i]);
        }
    assert_string_equal(arena_format(owner, "%s.%d", "layers", 3), "layers.3");
    assert_string_equal(arena_copy_string(owner, ""), "");
    arena_destroy(owner);
    arena_destroy(NULL);
}

/* Also where the rest of a chunk is too small for it, whatever that rest is, and in an arena that has
 * no chunk yet. */
static void arenas_format_texts_of_any_length_and_stay_zeroed(void **state) {
    (void)state;
    static const char layer[] = "layers.17.attention";
    for (size_t taken = 0; taken <= 256; taken += 8) {
        arena *owner = arena_create();
        if (taken)
            (void)arena_allocate(owner, 64 * 1024 - taken, 1);
        for (int width = 0; width < 96; width += 19) {
            char expected[128];
            snprintf(expected, sizeof expected, "%s.%*d", layer, width, 3);
            assert_string_equal(arena_format(owner, "%s.%*d", layer, width, 3), expected);
            const unsigned char *block = arena_allocate(owner, 40, 1);
            for (int i = 0; i < 40; i++)
                assert_int_equal(block[i], 0);
        }
        arena_destroy(owner);
    }
}

static void messages_may_quote_the_message_before(void **state) {
    (void)state;
    assert_int_equal(dyno_fail(DYNO_IO, "disk %d", 7), DYNO_IO);
    assert_int_equal(dyno_fail(DYNO_INVALID, "again: %s", dyno_error_message()), DYNO_INVALID);
    assert_string_equal(dyno_error_message(), "again: disk 7");
    assert_int_equal(dyno_fail_within(DYNO_CORRUPT, "file '%s'", "x"), DYNO_CORRUPT);
    assert_string_equal(dyno_error_message(), "file 'x': again: disk 7");
    char endless[5000];
    memset(endless, 'e', sizeof endless);
    endless[4999] = '\0';
    assert_int_equal(dyno_fail(DYNO_IO, "%s", endless), DYNO_IO);
    assert_int_equal(dyno_fail_within(DYNO_IO, "%s", endless), DYNO_IO);
    assert_in_range(strlen(dyno_error_message()), 1000, 2047);
}

static char heard[64];

static dyno_status hear(dyno_status code, const char *message) {
    snprintf(heard, sizeof heard, "%d: %s", (int)code, message);
    return code;
}

static void a_listener_is_told_of_every_failure(void **state) {
    (void)state;
    status_tell(hear);
    assert_int_equal(dyno_fail(DYNO_IO, "no %s", "disk"), DYNO_IO);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%d: no disk", (int)DYNO_IO);
    assert_string_equal(heard, wanted);
    assert_int_equal(dyno_fail_within(DYNO_IO, "saving"), DYNO_IO);
    assert_non_null(strstr(heard, "saving: no disk"));
    assert_string_equal(dyno_error_message(), "saving: no disk");
    status_tell(NULL);
    assert_int_equal(dyno_fail(DYNO_IO, "unheard"), DYNO_IO);
    assert_null(strstr(heard, "unheard"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_quoted_for_a_shell),
        cmocka_unit_test(durations_and_shares_are_read_as_people_write_them),
        cmocka_unit_test(sizes_are_written_for_people),
        cmocka_unit_test(counts_are_written_for_people),
        cmocka_unit_test(durations_are_written_for_people),
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(bandwidths_have_units_that_say_bits_or_bytes),
        cmocka_unit_test(the_nearest_name_is_suggested),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(quoted_text_is_fit_for_a_message),
        cmocka_unit_test(what_a_terminal_obeys_or_hides_becomes_an_escape),
        cmocka_unit_test(escapes_of_json_keep_what_its_strings_say),
        cmocka_unit_test(a_screen_has_two_columns_for_a_wide_character),
        cmocka_unit_test(lines_are_wrapped_between_words),
        cmocka_unit_test(messages_escape_what_they_quote),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(random_numbers_depend_on_their_index_alone),
        cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(uniform_numbers_have_the_moments_they_should),
        cmocka_unit_test(uniform_numbers_are_never_zero_or_one),
        cmocka_unit_test(normal_numbers_have_the_moments_they_should),
        cmocka_unit_test(threads_cover_each_index_exactly_once),
        cmocka_unit_test(arenas_give_aligned_zeroed_memory_of_any_size),
        cmocka_unit_test(arenas_format_texts_of_any_length_and_stay_zeroed),
        cmocka_unit_test(messages_may_quote_the_message_before),
        cmocka_unit_test(a_listener_is_told_of_every_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
