#include "base/text.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"

static void reserve(text *out, size_t more) {
    size_t needed = out->length + more + 1;
    if (needed <= out->capacity)
        return;
    while (out->capacity < needed)
        out->capacity = out->capacity ? out->capacity * 2 : 256;
    out->data = memory_resize(out->data, out->capacity, 1);
}

void text_append_bytes(text *out, const char *bytes, size_t count) {
    reserve(out, count);
    if (count)
        memcpy(out->data + out->length, bytes, count);
    out->length += count;
    out->data[out->length] = '\0';
}

void text_append(text *out, const char *string) { text_append_bytes(out, string, strlen(string)); }

void text_format(text *out, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    reserve(out, 0);
    size_t room = out->capacity - out->length;
    int length = vsnprintf(out->data + out->length, room, format, arguments);
    va_end(arguments);
    if ((size_t)length >= room) { /* rarely: the capacity doubles */
        reserve(out, (size_t)length);
        vsnprintf(out->data + out->length, (size_t)length + 1, format, again);
    }
    va_end(again);
    out->length += (size_t)length;
}

const char *text_string(const text *out) { return out->data ? out->data : ""; }

void text_release(text *out) {
    free(out->data);
    *out = (text){0};
}

quoted_text text_quote(const char *string) {
    enum { LONGEST = 96 };
    quoted_text out = {""};
    int length = 0;
    while (*string) {
        printable_piece piece = printable_take(&string, "");
        if (length + piece.length > LONGEST) {
            memcpy(out.text + length, "...", 4);
            break;
        }
        memcpy(out.text + length, piece.text, (size_t)piece.length);
        length += piece.length;
    }
    return out;
}

static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    int row[LONGEST + 1], length = (int)strlen(b);
    if (length > LONGEST || strlen(a) > LONGEST)
        return INT_MAX;
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = replace < best ? replace : best;
        }
    }
    return row[length];
}

const char *text_nearest(const char *word, const char *const *names, int count) {
    const char *nearest = NULL;
    int limit = (int)strlen(word) / 3 + 1, best = limit + 1;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(word, names[i]);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

void text_append_shell_word(text *out, const char *word) {
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+%@=-";
    size_t plain = strspn(word, PLAIN);
    if (plain && !word[plain] && *word != '=') { /* zsh: =ls is its path */
        text_append(out, word);
        return;
    }
    text_append(out, "'");
    for (; *word; word++)
        if (*word == '\'')
            text_append(out, "'\\''");
        else
            text_append_bytes(out, word, 1);
    text_append(out, "'");
}
