/* text.h - a string that grows. Zero-initialise it; text_release frees it. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

#include "base/status.h"

typedef struct text {
    char *data; /* NUL-terminated once anything was appended */
    size_t length, capacity;
} text;

void text_append(text *out, const char *string);
void text_append_bytes(text *out, const char *bytes, size_t count);
void text_format(text *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* The contents, "" when empty; valid until the next append. */
const char *text_string(const text *out);
void text_release(text *out);

typedef struct {
    char text[104];
} quoted_text;
/* A string from a file, fit for a message: control characters become escapes (printable.h), and what
 * is longer than 96 bytes is cut and ends in "...". */
quoted_text text_quote(const char *string);

/* As a POSIX shell and zsh read it back: in quotes where a character of it means something to one of them. */
void text_append_shell_word(text *out, const char *word);

/* Of `count` names, the one nearest to `word` by edit distance, or NULL when none is near
 * enough to be worth suggesting. */
const char *text_nearest(const char *word, const char *const *names, int count);

#endif
