/* printable.c - code points of UTF-8, and those that must not reach a terminal.
 *
 * A byte that is not part of a code point is escaped, too: a terminal that is not set to UTF-8 takes
 * 0x80 to 0x9f for control characters. */
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

typedef struct code_range {
    uint32_t first, last;
} code_range;

static const code_range HARMFUL[] = {
    {0x00, 0x1f},       /* C0: escape sequences, carriage return, backspace */
    {0x7f, 0x9f},       /* delete and C1, where 0x9b begins an escape sequence */
    {0xad, 0xad},       /* soft hyphen: not seen */
    {0x61c, 0x61c},     /* Arabic letter mark */
    {0x115f, 0x1160},   /* fillers: not seen */
    {0x180e, 0x180e},   /* vowel separator: likewise */
    {0x200b, 0x200f},   /* zero width, and marks of direction */
    {0x2028, 0x202e},   /* line separators, embeddings and overrides of direction */
    {0x2060, 0x206f},   /* joiners, isolates of direction */
    {0xfeff, 0xfeff},   /* byte order mark */
    {0xfff9, 0xfffb},   /* annotations */
    {0xe0000, 0xe0fff}, /* tags, and selectors of variants: not seen */
};

/* Wide ones in the common fonts; the full table of Unicode has a hundred ranges. */
static const code_range WIDE[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
    {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static const code_range COMBINING[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x64b, 0x65f},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
};

#define IS_IN(table, code) is_in(table, sizeof(table) / sizeof *(table), code)
static bool is_in(const code_range *table, size_t count, uint32_t code) {
    for (size_t i = 0; i < count; i++)
        if (code >= table[i].first && code <= table[i].last)
            return true;
    return false;
}

/* How many bytes of the string are letters, digits and signs of ASCII: most of any text. */
static size_t count_plain(const char *string) {
    size_t count = 0;
    while (string[count] >= 0x20 && string[count] < 0x7f)
        count++;
    return count;
}

/* Shortest form only, no surrogates, up to U+10FFFF. */
code_point printable_first(const char *string) {
    const unsigned char *p = (const unsigned char *)string;
    uint32_t least = 0, code = p[0];
    int more = 0;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        least = 0x80, code = p[0] & 0x1fu, more = 1;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        least = 0x800, code = p[0] & 0x0fu, more = 2;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        least = 0x10000, code = p[0] & 0x07u, more = 3;
    }
    bool is_utf8 = p[0] < 0x80 || more > 0;
    for (int i = 1; i <= more && is_utf8; i++) {
        is_utf8 = (p[i] & 0xc0u) == 0x80u; /* the end of the string is none */
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (!is_utf8 || code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return (code_point){p[0], 1, false, false};
    bool is_harmless = (code >= 0x20 && code < 0x7f) || !IS_IN(HARMFUL, code);
    return (code_point){code, 1 + more, true, is_harmless};
}

static int append_escape(char *to, size_t room, code_point found) {
    if (!found.is_utf8 || found.code < 0x80)
        return snprintf(to, room, "\\x%02x", found.code);
    return snprintf(to, room, found.code > 0xffff ? "\\U%08x" : "\\u%04x", found.code);
}

printable_piece printable_take(const char **at, const char *kept) {
    code_point found = printable_first(*at);
    printable_piece piece = {.length = found.bytes};
    static const char *const short_forms[] = {['\t'] = "\\t", ['\n'] = "\\n", ['\r'] = "\\r"};
    bool is_kept = found.code < 0x20 && strchr(kept, (int)found.code);
    if (found.is_harmless || is_kept) {
        memcpy(piece.text, *at, (size_t)found.bytes);
    } else if (found.code < sizeof short_forms / sizeof *short_forms && short_forms[found.code]) {
        piece.length = 2;
        memcpy(piece.text, short_forms[found.code], 2);
    } else {
        piece.length = append_escape(piece.text, sizeof piece.text, found);
    }
    *at += found.bytes;
    return piece;
}

void text_append_printable(text *out, const char *string, const char *kept) {
    while (*string) {
        size_t plain = count_plain(string);
        text_append_bytes(out, string, plain);
        string += plain;
        if (!*string)
            break;
        printable_piece piece = printable_take(&string, kept);
        text_append_bytes(out, piece.text, (size_t)piece.length);
    }
}

/* Outside of strings a JSON document has no such characters but ends of lines. */
void text_append_printable_json(text *out, const char *document) {
    const char *from = document; /* what was not appended yet */
    while (*(document += count_plain(document))) {
        code_point found = printable_first(document);
        if (!found.is_harmless && found.is_utf8 && found.code != '\n') {
            text_append_bytes(out, from, (size_t)(document - from));
            if (found.code > 0xffff) /* two halves, as JSON has it */
                text_format(out, "\\u%04x", 0xd7c0u + (found.code >> 10));
            text_format(out, "\\u%04x",
                        found.code > 0xffff ? 0xdc00u + (found.code & 0x3ffu) : found.code);
            from = document + found.bytes;
        }
        document += found.bytes;
    }
    text_append(out, from);
}

int printable_width_of(const char *string, size_t bytes) {
    int width = 0;
    for (const char *end = string + bytes; string < end;) {
        if (!((unsigned char)*string & 0x80u)) {
            width++;
            string++;
            continue;
        }
        code_point found = printable_first(string);
        width += IS_IN(COMBINING, found.code) ? 0 : IS_IN(WIDE, found.code) ? 2 : 1;
        string += found.bytes;
    }
    return width;
}

int printable_width(const char *string) { return printable_width_of(string, strlen(string)); }
