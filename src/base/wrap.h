/* wrap.h - text in lines of a given width, by the columns that a screen shows. */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include "base/text.h"

/* The bytes of the first line of `string` when lines have `columns`: as many words as fit, and of a
 * word that is longer than a line as much of it as fits, up to a '|' or '/' if there is one. */
size_t wrap_line(const char *string, int columns);

/* The longest word, in columns. */
int wrap_longest_word(const char *string);

/* Appends the words of `string` and ends the line. The first line begins where the cursor is, at
 * `column`; the others are indented. `columns` 0: one line, however long. */
void text_append_wrapped(text *out, const char *string, int column, int indent, int columns);

#endif
