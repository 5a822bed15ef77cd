/* render_csv.c - RFC 4180: the tables alone, a blank line between them.
 *
 * A spreadsheet takes a text that begins like a formula for one, and runs it. Such a text gets an
 * apostrophe in front, which spreadsheets take for "this is text". */
#include <ctype.h>
#include <string.h>

#include "base/printable.h"
#include "report/document.h"

/* -1.5e+3 is what it seems; what only strtod takes for a number (inf, hexadecimal) is not. */
static bool is_number(const char *string) {
    string += *string == '-' || *string == '+';
    size_t whole = strspn(string, "0123456789"), part = 0;
    string += whole;
    if (*string == '.')
        string += 1 + (part = strspn(string + 1, "0123456789"));
    if (whole + part == 0)
        return false;
    if (*string == 'e' || *string == 'E') {
        string += 1 + (string[1] == '-' || string[1] == '+');
        size_t exponent = strspn(string, "0123456789");
        return exponent > 0 && !string[exponent];
    }
    return !*string;
}

/* "--mode compiled": flags, which scripts read, cannot call anything. */
static bool is_flags(const char *string) {
    bool begins = string[0] == '-' && string[1] == '-' && islower((unsigned char)string[2]);
    while (isalnum((unsigned char)*string) || (*string && strchr(" -.:,", *string)))
        string++;
    return begins && !*string;
}

/* Spreadsheets skip blanks, and some take the full-width forms for the signs. */
static bool is_like_formula(const char *string) {
    static const char *const signs[] = {
        "=", "+", "-", "@", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
    const char *begin = string + strspn(string, " \t\r\n");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(begin, signs[i], strlen(signs[i])) == 0)
            return !is_number(string) && !is_flags(string);
    return *string == '\t' || *string == '\r' || *string == '\n';
}

/* Most texts: nothing about them is special anywhere. */
static bool is_like_word(const char *string) {
    bool is_plain = isalnum((unsigned char)*string) || !*string;
    while (isalnum((unsigned char)*string) || (*string && strchr(" ._:/%()", *string)))
        string++;
    return is_plain && !*string;
}

/* In quotes where RFC 4180 demands them, and where there is a semicolon or a tab, at which some readers
 * split. */
static void append_csv(text *out, const char *string) {
    if (is_like_word(string)) {
        text_append(out, string);
        return;
    }
    text clean = {0};
    text_append(&clean, is_like_formula(string) ? "'" : "");
    text_append_printable(&clean, string, "\n\t");
    const char *field = text_string(&clean);
    bool is_quoted = field[strcspn(field, "\",;\t\r\n")];
    text_append(out, is_quoted ? "\"" : "");
    for (; *field; field++)
        text_append_bytes(out, *field == '"' ? "\"\"" : field, *field == '"' ? 2 : 1);
    text_append(out, is_quoted ? "\"" : "");
    text_release(&clean);
}

static void append_table(const report_table *table, text *out) {
    for (int j = 0; j < table->column_count; j++) {
        text_append(out, j ? "," : "");
        append_csv(out, table->columns[j].header);
    }
    text_append(out, "\r\n");
    for (int i = 0; i < table->row_count; i++) {
        for (int j = 0; j < table->column_count; j++) {
            const table_cell *cell = &table->rows[i].cells[j];
            text_append(out, j ? "," : "");
            if (cell->kind == CELL_TEXT)
                append_csv(out, cell->text);
            else
                table_append_exact(out, cell);
        }
        text_append(out, "\r\n");
    }
}

void render_csv(const report_document *document, render_options options, text *out) {
    (void)options;
    size_t start = out->length;
    for (int64_t i = 0; i < document->count; i++) {
        if (document->blocks[i].kind != BLOCK_TABLE)
            continue;
        text_append(out, out->length == start ? "" : "\r\n");
        append_table(document->blocks[i].table, out);
    }
}
