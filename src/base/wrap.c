#include "base/wrap.h"

#include <stdbool.h>
#include <string.h>

#include "base/printable.h"

/* Of a word that is longer than a line. At least one code point, or nobody would come to an end. */
static size_t break_word(const char *word, int columns) {
    size_t fitting = 0, separator = 0;
    int width = 0;
    for (const char *p = word; *p && *p != ' ';) {
        size_t bytes = (size_t)printable_first(p).bytes;
        width += printable_width_of(p, bytes);
        if (width > columns && fitting)
            break;
        fitting += bytes;
        separator = *p == '|' || *p == '/' ? fitting : separator;
        p += bytes;
    }
    return separator ? separator : fitting;
}

size_t wrap_line(const char *string, int columns) {
    size_t end = 0; /* of the words that fit */
    int width = 0;
    while (string[end]) {
        size_t blanks = strspn(string + end, " "), word = strcspn(string + end + blanks, " ");
        width += printable_width_of(string + end, blanks + word);
        if (width > columns)
            break;
        end += blanks + word;
    }
    if (end || !*string)
        return end;
    size_t blanks = strspn(string, " ");
    return blanks + break_word(string + blanks, columns);
}

int wrap_longest_word(const char *string) {
    int longest = 0;
    while (*string) {
        string += strspn(string, " ");
        size_t word = strcspn(string, " ");
        int width = printable_width_of(string, word);
        longest = width > longest ? width : longest;
        string += word;
    }
    return longest;
}

void text_append_wrapped(text *out, const char *string, int column, int indent, int columns) {
    if (columns <= 0) {
        text_format(out, "%s\n", string);
        return;
    }
    while (true) {
        int room = columns - column;
        size_t bytes = wrap_line(string, room > 0 ? room : 1);
        text_append_bytes(out, string, bytes);
        text_append(out, "\n");
        string += bytes;
        string += strspn(string, " ");
        if (!*string)
            return;
        text_format(out, "%*s", indent, "");
        column = indent;
    }
}
