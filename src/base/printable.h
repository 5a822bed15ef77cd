/* printable.h - text that came from elsewhere, made harmless to look at.
 *
 * Names in files, file names and arguments may hold anything. A terminal obeys control characters, and
 * some characters of Unicode reverse or hide the text around them. Both are shown as escapes: \x1b,
 * \u202e; so is a byte that is no UTF-8. Everything else stays as it is. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef struct code_point {
    uint32_t code;
    int bytes;        /* that it has in the string */
    bool is_utf8;     /* false: `code` is one byte that is none */
    bool is_harmless; /* it shows as itself and changes nothing around it */
} code_point;

/* The first of a string that is not empty. */
code_point printable_first(const char *string);

typedef struct printable_piece {
    char text[12];
    int length;
} printable_piece;

/* What shows for the code point at *at, which moves past it. Controls in `kept` ("\n\t") stay. */
printable_piece printable_take(const char **at, const char *kept);

/* Appends the string as it is fit to be seen. */
void text_append_printable(text *out, const char *string, const char *kept);
/* The same for the text of a JSON document, whose strings keep their meaning: as \u001b. */
void text_append_printable_json(text *out, const char *document);

/* Columns on a screen: wide characters of East Asia and emoji are two, combining marks none. */
int printable_width(const char *string);
int printable_width_of(const char *string, size_t bytes); /* of its first bytes */

#endif
