/* json_stream.h - JSON one token at a time, for documents that need not fit the memory.
 *
 * jansson makes a tree of a whole value and numbers of at most 53 bits of fraction; here memory is one
 * buffer and the longest text that is kept, and a number is its digits, so that a time in microseconds
 * since 1970 keeps its nanoseconds (docs/decisions/0030). The grammar is checked: tokens come only in
 * an order that JSON has. As Python's json does, NaN, Infinity and -Infinity are taken for numbers. A byte
 * order mark before the document is read past. */
#ifndef BASE_JSON_STREAM_H
#define BASE_JSON_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_source.h"

typedef enum json_token {
    JSON_TOKEN_END, /* of the document */
    JSON_TOKEN_OBJECT,
    JSON_TOKEN_OBJECT_END,
    JSON_TOKEN_ARRAY,
    JSON_TOKEN_ARRAY_END,
    JSON_TOKEN_KEY,
    JSON_TOKEN_STRING,
    JSON_TOKEN_NUMBER,
    JSON_TOKEN_WORD /* true, false or null */
} json_token;

enum { JSON_STREAM_MOST_DEPTH = 64, JSON_STREAM_MOST_TEXT = 32 << 10 };

typedef struct json_stream json_stream;

/* Reads `source` from where it is; both it and `what`, which names it in messages, are borrowed. */
json_stream *json_stream_create(byte_source *source, const char *what);
void json_stream_destroy(json_stream *stream);

NODISCARD dyno_status json_stream_next(json_stream *stream, json_token *out);
/* Of the last key, string, number or word, in UTF-8; holds until the next call. What is longer than
 * JSON_STREAM_MOST_TEXT is cut, and U+FFFD stands for a NUL and for half of a surrogate pair. */
const char *json_stream_text(const json_stream *stream);

/* Reads past the value that `token`, the last one, begins: nothing for a string, all that is inside
 * for an object. */
NODISCARD dyno_status json_stream_skip(json_stream *stream, json_token token);

/* A failure that says where in the document the reading is. */
NODISCARD dyno_status json_stream_fail(const json_stream *stream, const char *format, ...)
    PRINTF_LIKE(2, 3);

/* The number's digits as an integer of 10^-decimals: "12.5" with 3 decimals is 12500; further digits
 * are rounded half away from zero. False when it is not finite or does not fit, and for an exponent
 * beyond 3 digits. */
bool json_number_scaled(const char *number, int decimals, int64_t *out);

#endif
