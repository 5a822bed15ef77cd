/* json_stream.c - a hand-written scanner: a stack of one bit for each open object or array says what
 * may come next. */
#include "base/json_stream.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/text.h"

enum { BUFFER_BYTES = 64 << 10, END_OF_BYTES = -1 };

/* What may come next. */
typedef enum expectation {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* behind '[' */
    EXPECT_KEY,
    EXPECT_KEY_OR_END, /* behind '{' */
    EXPECT_COMMA_OR_END,
    EXPECT_NOTHING /* the document's value is complete */
} expectation;

struct json_stream {
    byte_source *source;
    const char *what;
    char *buffer;
    size_t at, filled;
    int64_t line, column;
    bool is_at_begin;
    dyno_status failed; /* of the source: told when its bytes run out */
    expectation expect;
    int depth;
    bool is_object[JSON_STREAM_MOST_DEPTH];
    char *text;
    size_t length;
};

json_stream *json_stream_create(byte_source *source, const char *what) {
    json_stream *s = memory_allocate(1, sizeof *s);
    s->source = source;
    s->what = what;
    s->line = 1;
    s->is_at_begin = true;
    s->buffer = memory_allocate(BUFFER_BYTES, 1);
    s->text = memory_allocate(JSON_STREAM_MOST_TEXT + 1, 1);
    return s;
}

void json_stream_destroy(json_stream *s) {
    if (!s)
        return;
    free(s->buffer);
    free(s->text);
    free(s);
}

const char *json_stream_text(const json_stream *s) { return s->text; }

dyno_status json_stream_fail(const json_stream *s, const char *format, ...) {
    char message[256];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return dyno_fail(DYNO_CORRUPT, "'%s': line %lld, column %lld: %s", s->what, (long long)s->line,
                     (long long)s->column, message);
}

/* ---- bytes ---- */

/* Some editors and tools put U+FEFF before a document in UTF-8, where it says nothing. */
static void skip_byte_order_mark(json_stream *s) {
    static const char MARK[] = "\xef\xbb\xbf";
    if (s->filled >= sizeof MARK - 1 && memcmp(s->buffer, MARK, sizeof MARK - 1) == 0)
        s->at = sizeof MARK - 1;
}

static bool fill(json_stream *s) {
    if (s->failed == DYNO_OK) {
        s->at = 0;
        s->failed = byte_source_read(s->source, s->buffer, BUFFER_BYTES, &s->filled);
        if (s->failed != DYNO_OK)
            s->filled = 0;
        else if (s->is_at_begin)
            skip_byte_order_mark(s);
        s->is_at_begin = false;
    }
    return s->at < s->filled;
}

static int peek(json_stream *s) {
    if (s->at == s->filled && !fill(s))
        return END_OF_BYTES;
    return (unsigned char)s->buffer[s->at];
}

static int take(json_stream *s) {
    int c = peek(s);
    if (c == END_OF_BYTES)
        return c;
    s->at++;
    s->column++;
    if (c == '\n') {
        s->line++;
        s->column = 0;
    }
    return c;
}

/* The failure of a byte that should not be here, or of none. */
static dyno_status fail_at(const json_stream *s, int found, const char *wanted) {
    if (s->failed != DYNO_OK)
        return s->failed;
    if (found == END_OF_BYTES)
        return json_stream_fail(s, "the file ends where there should be %s; is it whole?", wanted);
    if (found > ' ' && found < 127)
        return json_stream_fail(s, "found '%c' where there should be %s", found, wanted);
    return json_stream_fail(s, "found the byte 0x%02x where there should be %s",
                            (unsigned)found & 0xff, wanted);
}

static int skip_spaces(json_stream *s) {
    for (;;) {
        int c = peek(s);
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return c;
        take(s);
    }
}

/* ---- texts ---- */

static void put(json_stream *s, int byte) {
    if (s->length < JSON_STREAM_MOST_TEXT)
        s->text[s->length++] = (char)byte;
}

/* A character is kept whole or not at all. */
static void put_code_point(json_stream *s, unsigned code) {
    unsigned char bytes[4];
    size_t count = 0;
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80) {
        bytes[count++] = (unsigned char)code;
    } else if (code < 0x800) {
        bytes[count++] = (unsigned char)(0xc0 | code >> 6);
        bytes[count++] = (unsigned char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        bytes[count++] = (unsigned char)(0xe0 | code >> 12);
        bytes[count++] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        bytes[count++] = (unsigned char)(0x80 | (code & 0x3f));
    } else {
        bytes[count++] = (unsigned char)(0xf0 | code >> 18);
        bytes[count++] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
        bytes[count++] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        bytes[count++] = (unsigned char)(0x80 | (code & 0x3f));
    }
    for (size_t i = 0; i < count && s->length + count - i <= JSON_STREAM_MOST_TEXT; i++)
        put(s, bytes[i]);
}

static dyno_status take_hex(json_stream *s, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = take(s);
        if (c == END_OF_BYTES || !isxdigit(c))
            return fail_at(s, c, "a hexadecimal digit of \\u");
        *out = *out * 16 + (unsigned)(isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return DYNO_OK;
}

static dyno_status take_escape(json_stream *s);

static dyno_status take_unicode_escape(json_stream *s) {
    unsigned code, low;
    RETURN_IF_FAILED(take_hex(s, &code));
    while (code >= 0xd800 && code < 0xdc00 && peek(s) == '\\') {
        take(s);
        if (peek(s) != 'u') { /* half of a pair, then another escape: "\ud800\n" */
            put_code_point(s, code);
            return take_escape(s);
        }
        take(s);
        RETURN_IF_FAILED(take_hex(s, &low));
        if (low >= 0xdc00 && low < 0xe000) {
            put_code_point(s, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
            return DYNO_OK;
        }
        put_code_point(s, code);
        code = low;
    }
    put_code_point(s, code);
    return DYNO_OK;
}

static dyno_status take_escape(json_stream *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = take(s);
    if (c == 'u')
        return take_unicode_escape(s);
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (!found)
        return fail_at(s, c, "an escape: one of \"\\/bfnrtu");
    put(s, to[found - from]);
    return DYNO_OK;
}

/* Behind the opening quote. Most bytes of a trace are in here, so plain ones are copied in runs. */
static dyno_status take_string(json_stream *s) {
    s->length = 0;
    for (;;) {
        if (s->at == s->filled && !fill(s))
            return fail_at(s, END_OF_BYTES, "the end of a string");
        size_t from = s->at;
        while (s->at < s->filled && s->buffer[s->at] != '"' && s->buffer[s->at] != '\\' &&
               (unsigned char)s->buffer[s->at] >= ' ')
            s->at++;
        size_t run = s->at - from, room = JSON_STREAM_MOST_TEXT - s->length;
        memcpy(s->text + s->length, s->buffer + from, run < room ? run : room);
        s->length += run < room ? run : room;
        s->column += (int64_t)run;
        if (s->at == s->filled)
            continue;
        int c = take(s);
        if (c == '"')
            break;
        if (c != '\\')
            return fail_at(s, c, "a character of a string (controls must be escaped)");
        RETURN_IF_FAILED(take_escape(s));
    }
    s->text[s->length] = '\0';
    return DYNO_OK;
}

static bool is_of_word(int c) {
    return c != END_OF_BYTES && (isalnum(c) || c == '+' || c == '-' || c == '.');
}

/* The characters of a number or a word; what they are is seen afterwards. */
static void take_word(json_stream *s) {
    s->length = 0;
    while (is_of_word(peek(s)))
        put(s, take(s));
    s->text[s->length] = '\0';
}

static size_t count_digits(const char *c) { return strspn(c, "0123456789"); }

static bool is_number(const char *c) {
    c += *c == '-';
    if (strcmp(c, "Infinity") == 0)
        return true;
    size_t digits = count_digits(c);
    if (digits == 0 || (digits > 1 && *c == '0'))
        return false;
    c += digits;
    if (*c == '.') {
        if (count_digits(++c) == 0)
            return false;
        c += count_digits(c);
    }
    if (*c == 'e' || *c == 'E') {
        c++;
        c += *c == '+' || *c == '-';
        if (count_digits(c) == 0)
            return false;
        c += count_digits(c);
    }
    return *c == '\0';
}

/* ---- tokens ---- */

static dyno_status begin_inside(json_stream *s, bool is_object) {
    if (s->depth == JSON_STREAM_MOST_DEPTH)
        return json_stream_fail(s, "objects and arrays nest deeper than %d levels",
                                JSON_STREAM_MOST_DEPTH);
    s->is_object[s->depth++] = is_object;
    s->expect = is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return DYNO_OK;
}

static void end_value(json_stream *s) {
    s->expect = s->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static json_token end_inside(json_stream *s) {
    bool is_object = s->is_object[--s->depth];
    take(s);
    end_value(s);
    return is_object ? JSON_TOKEN_OBJECT_END : JSON_TOKEN_ARRAY_END;
}

static dyno_status next_value(json_stream *s, int c, json_token *out) {
    if (c == '{' || c == '[') {
        take(s);
        *out = c == '{' ? JSON_TOKEN_OBJECT : JSON_TOKEN_ARRAY;
        return begin_inside(s, c == '{');
    }
    if (c == '"') {
        take(s);
        *out = JSON_TOKEN_STRING;
        end_value(s);
        return take_string(s);
    }
    if (!is_of_word(c))
        return fail_at(s, c, "a value");
    take_word(s);
    bool is_word = strcmp(s->text, "true") == 0 || strcmp(s->text, "false") == 0 ||
                   strcmp(s->text, "null") == 0;
    if (!is_word && strcmp(s->text, "NaN") != 0 && !is_number(s->text))
        return json_stream_fail(s, "'%s' is no value", text_quote(s->text).text);
    *out = is_word ? JSON_TOKEN_WORD : JSON_TOKEN_NUMBER;
    end_value(s);
    return DYNO_OK;
}

static dyno_status next_key(json_stream *s, int c, json_token *out) {
    if (c != '"')
        return fail_at(s, c, "a key in quotes");
    take(s);
    RETURN_IF_FAILED(take_string(s));
    c = skip_spaces(s);
    if (c != ':')
        return fail_at(s, c, "a colon behind a key");
    take(s);
    s->expect = EXPECT_VALUE;
    *out = JSON_TOKEN_KEY;
    return DYNO_OK;
}

dyno_status json_stream_next(json_stream *s, json_token *out) {
    *out = JSON_TOKEN_END;
    int c = skip_spaces(s);
    bool is_in_object = s->depth && s->is_object[s->depth - 1];
    int end = is_in_object ? '}' : ']';
    switch (s->expect) {
    case EXPECT_NOTHING:
        return c == END_OF_BYTES && s->failed == DYNO_OK ? DYNO_OK
                                                         : fail_at(s, c, "the end of the file");
    case EXPECT_COMMA_OR_END:
        if (c == end) {
            *out = end_inside(s);
            return DYNO_OK;
        }
        if (c != ',')
            return fail_at(s, c, is_in_object ? "a comma or '}'" : "a comma or ']'");
        take(s);
        c = skip_spaces(s);
        return is_in_object ? next_key(s, c, out) : next_value(s, c, out);
    case EXPECT_KEY_OR_END:
    case EXPECT_VALUE_OR_END:
        if (c == end) {
            *out = end_inside(s);
            return DYNO_OK;
        }
        return s->expect == EXPECT_KEY_OR_END ? next_key(s, c, out) : next_value(s, c, out);
    case EXPECT_KEY:
        return next_key(s, c, out);
    case EXPECT_VALUE:
        break;
    }
    return next_value(s, c, out);
}

dyno_status json_stream_skip(json_stream *s, json_token token) {
    if (token != JSON_TOKEN_OBJECT && token != JSON_TOKEN_ARRAY)
        return DYNO_OK;
    int outside = s->depth - 1;
    while (s->depth > outside)
        RETURN_IF_FAILED(json_stream_next(s, &token));
    return DYNO_OK;
}

/* ---- numbers ---- */

/* Of the digits without their point, as many are kept as lead up to the place asked for; zeros where
 * there are too few. */
bool json_number_scaled(const char *number, int decimals, int64_t *out) {
    enum { MOST_EXPONENT_DIGITS = 3 };
    bool is_negative = *number == '-';
    const char *digits = number + is_negative, *exponent = strpbrk(digits, "eE");
    if (!isdigit((unsigned char)*digits))
        return false;
    long kept = (long)count_digits(digits) + decimals;
    if (exponent) {
        const char *size = exponent + 1 + (exponent[1] == '+' || exponent[1] == '-');
        if (strlen(size) > MOST_EXPONENT_DIGITS)
            return false;
        kept += strtol(exponent + 1, NULL, 10);
    }
    int64_t value = 0;
    const char *c = digits;
    for (; kept > 0; kept--) {
        c += *c == '.';
        int digit = isdigit((unsigned char)*c) ? *c++ - '0' : 0;
        if (!checked_multiply(value, 10, &value) || !checked_add(value, digit, &value))
            return false;
    }
    c += *c == '.';
    if (kept == 0 && *c >= '5' && *c <= '9' && !checked_add(value, 1, &value))
        return false;
    *out = is_negative ? -value : value;
    return true;
}
