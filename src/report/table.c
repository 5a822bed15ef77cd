/* table.c - cells are formatted once into texts, then laid out four ways.
 *
 * Texts may come from a file that somebody sent: control characters never reach a terminal,
 * and every format has its own quoting. */
#define _POSIX_C_SOURCE 200809L
#include "report/table.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/memory.h"

typedef enum cell_kind { CELL_EMPTY, CELL_TEXT, CELL_INTEGER, CELL_REAL } cell_kind;

typedef struct table_cell {
    cell_kind kind;
    const char *text;
    int64_t integer;
    double real;
    int decimals;
} table_cell;

typedef struct table_column {
    const char *key, *header;
    table_alignment alignment;
} table_column;

typedef struct table_row {
    table_cell *cells; /* as many as there are columns */
    int filled;
    bool has_rule_above;
} table_row;

struct report_table {
    const char *title; /* NULL: none */
    table_column *columns;
    table_row *rows;
    const char **notes;
    int column_count, column_capacity;
    int row_count, row_capacity;
    int note_count, note_capacity;
    bool next_has_rule;
    arena *strings;
};

report_table *table_create(const char *title) {
    report_table *table = memory_allocate(1, sizeof *table);
    table->strings = arena_create();
    table->title = title ? arena_copy_string(table->strings, title) : NULL;
    return table;
}

void table_destroy(report_table *table) {
    if (!table)
        return;
    free(table->columns);
    free(table->rows);
    free(table->notes);
    arena_destroy(table->strings);
    free(table);
}

void table_add_column(report_table *table, const char *key, const char *header,
                      table_alignment alignment) {
    assert(table->row_count == 0);
    MEMORY_GROW(table->columns, table->column_count, table->column_capacity);
    table->columns[table->column_count++] =
        (table_column){arena_copy_string(table->strings, key),
                       arena_copy_string(table->strings, header), alignment};
}

void table_add_row(report_table *table) {
    MEMORY_GROW(table->rows, table->row_count, table->row_capacity);
    table->rows[table->row_count++] = (table_row){
        .cells = arena_allocate(table->strings, (size_t)table->column_count, sizeof(table_cell)),
        .has_rule_above = table->next_has_rule};
    table->next_has_rule = false;
}

void table_add_rule(report_table *table) { table->next_has_rule = true; }

static void add_cell(report_table *table, table_cell cell) {
    assert(table->row_count > 0);
    table_row *row = &table->rows[table->row_count - 1];
    assert(row->filled < table->column_count);
    row->cells[row->filled++] = cell;
}

void table_add_text(report_table *table, const char *value) {
    add_cell(table,
             (table_cell){.kind = CELL_TEXT, .text = arena_copy_string(table->strings, value)});
}

void table_add_integer(report_table *table, int64_t value) {
    add_cell(table, (table_cell){.kind = CELL_INTEGER, .integer = value});
}

void table_add_real(report_table *table, double value, int decimals) {
    if (isfinite(value))
        add_cell(table, (table_cell){.kind = CELL_REAL, .real = value, .decimals = decimals});
    else
        table_add_empty(table);
}

void table_add_empty(report_table *table) { add_cell(table, (table_cell){.kind = CELL_EMPTY}); }

void table_add_note(report_table *table, const char *format, ...) {
    MEMORY_GROW(table->notes, table->note_count, table->note_capacity);
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *note = arena_allocate(table->strings, (size_t)length + 1, 1);
    vsnprintf(note, (size_t)length + 1, format, again);
    va_end(again);
    table->notes[table->note_count++] = note;
}

int table_row_count(const report_table *table) { return table->row_count; }

dyno_status table_format_parse(const char *name, table_format *out) {
    static const char *const names[] = {"table", "md", "csv", "json"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (table_format)i;
            return DYNO_OK;
        }
    return dyno_fail(DYNO_INVALID, "unknown format '%s'; known are table, md, csv and json", name);
}

bool table_wants_bold(void) {
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

/* Bytes that a terminal would obey become '?': C0, DEL, and C1 in its UTF-8 form. */
void table_append_printable(text *out, const char *string) {
    for (const unsigned char *p = (const unsigned char *)string; *p; p++) {
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) {
            text_append(out, "?");
            p++;
        } else if (*p < 0x20 || *p == 0x7f) {
            text_append(out, *p == '\n' || *p == '\t' ? " " : "?");
        } else {
            text_append_bytes(out, (const char *)p, 1);
        }
    }
}

/* Columns on the screen, taking each code point for one. */
static int width_of(const char *string) {
    int width = 0;
    for (; *string; string++)
        width += ((unsigned char)*string & 0xc0) != 0x80;
    return width;
}

/* The fewest digits that read back as the same number. */
static void append_exact(text *out, double value) {
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    text_append(out, digits);
}

/* The cell as people see it. */
static void append_shown(text *out, const table_cell *cell) {
    if (cell->kind == CELL_TEXT)
        table_append_printable(out, cell->text);
    else if (cell->kind == CELL_INTEGER)
        text_format(out, "%lld", (long long)cell->integer);
    else if (cell->kind == CELL_REAL)
        text_format(out, "%.*f", cell->decimals, cell->real);
}

static void append_repeated(text *out, char c, int count) {
    for (int i = 0; i < count; i++)
        text_append_bytes(out, &c, 1);
}

static void append_padded(text *out, const char *string, int width, table_alignment alignment,
                          bool is_last) {
    int padding = width - width_of(string);
    if (alignment == TABLE_RIGHT)
        append_repeated(out, ' ', padding);
    text_append(out, string);
    if (alignment == TABLE_LEFT && !is_last)
        append_repeated(out, ' ', padding);
}

static void trim_trailing_spaces(text *out, size_t from) {
    while (out->length > from && out->data[out->length - 1] == ' ')
        out->data[--out->length] = '\0';
}

static void render_terminal(const report_table *table, bool is_bold, text *out) {
    int columns = table->column_count, total = 0;
    int *width = memory_allocate((size_t)columns, sizeof *width);
    text shown = {0};
    for (int j = 0; j < columns; j++) {
        width[j] = width_of(table->columns[j].header);
        for (int i = 0; i < table->row_count; i++) {
            shown.length = 0;
            text_append(&shown, "");
            append_shown(&shown, &table->rows[i].cells[j]);
            int w = width_of(text_string(&shown));
            if (w > width[j])
                width[j] = w;
        }
        total += width[j] + (j ? 2 : 0);
    }
    if (table->title) {
        table_append_printable(out, table->title);
        text_append(out, "\n");
    }
    text_append(out, is_bold ? "\033[1m" : "");
    size_t line = out->length;
    for (int j = 0; j < columns; j++) {
        text_append(out, j ? "  " : "");
        append_padded(out, table->columns[j].header, width[j], table->columns[j].alignment,
                      j == columns - 1);
    }
    trim_trailing_spaces(out, line);
    text_append(out, is_bold ? "\033[0m\n" : "\n");
    for (int i = 0; i < table->row_count; i++) {
        if (table->rows[i].has_rule_above) {
            append_repeated(out, '-', total);
            text_append(out, "\n");
        }
        line = out->length;
        for (int j = 0; j < columns; j++) {
            shown.length = 0;
            text_append(&shown, "");
            append_shown(&shown, &table->rows[i].cells[j]);
            text_append(out, j ? "  " : "");
            append_padded(out, text_string(&shown), width[j], table->columns[j].alignment,
                          j == columns - 1);
        }
        trim_trailing_spaces(out, line);
        text_append(out, "\n");
    }
    text_release(&shown);
    free(width);
}

static void append_markdown(text *out, const char *string) {
    text clean = {0};
    table_append_printable(&clean, string);
    for (const char *p = text_string(&clean); *p; p++) {
        if (*p == '|' || *p == '\\' || *p == '<' || *p == '`')
            text_append(out, "\\");
        text_append_bytes(out, p, 1);
    }
    text_release(&clean);
}

static void render_markdown(const report_table *table, text *out) {
    if (table->title) {
        text_append(out, "**");
        append_markdown(out, table->title);
        text_append(out, "**\n\n");
    }
    for (int j = 0; j < table->column_count; j++) {
        text_append(out, "| ");
        append_markdown(out, table->columns[j].header);
        text_append(out, " ");
    }
    text_append(out, "|\n");
    for (int j = 0; j < table->column_count; j++)
        text_append(out, table->columns[j].alignment == TABLE_RIGHT ? "|---:" : "|:---");
    text_append(out, "|\n");
    for (int i = 0; i < table->row_count; i++) {
        for (int j = 0; j < table->column_count; j++) {
            const table_cell *cell = &table->rows[i].cells[j];
            text_append(out, "| ");
            if (cell->kind == CELL_TEXT)
                append_markdown(out, cell->text);
            else
                append_shown(out, cell);
            text_append(out, " ");
        }
        text_append(out, "|\n");
    }
}

static void append_csv(text *out, const char *string) {
    if (!string[strcspn(string, "\",\r\n")]) {
        text_append(out, string);
        return;
    }
    text_append(out, "\"");
    for (const char *p = string; *p; p++)
        text_append_bytes(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    text_append(out, "\"");
}

static void render_csv(const report_table *table, text *out) {
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
            else if (cell->kind == CELL_REAL)
                append_exact(out, cell->real);
            else
                append_shown(out, cell);
        }
        text_append(out, "\r\n");
    }
}

static void append_json_text(text *out, const char *string) {
    json_t *value = json_string(string);
    if (!value) { /* not UTF-8 */
        char *copy = memory_copy_string(string);
        for (char *p = copy; *p; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
        value = json_string(copy);
        free(copy);
    }
    char *dump = json_dumps(value, JSON_ENCODE_ANY);
    text_append(out, dump ? dump : "\"\"");
    free(dump);
    json_decref(value);
}

static void render_json(const report_table *table, text *out) {
    text_append(out, "[");
    for (int i = 0; i < table->row_count; i++) {
        text_append(out, i ? ",\n {" : "\n {");
        for (int j = 0; j < table->column_count; j++) {
            const table_cell *cell = &table->rows[i].cells[j];
            text_append(out, j ? ", " : "");
            append_json_text(out, table->columns[j].key);
            text_append(out, ": ");
            if (cell->kind == CELL_EMPTY)
                text_append(out, "null");
            else if (cell->kind == CELL_TEXT)
                append_json_text(out, cell->text);
            else if (cell->kind == CELL_REAL)
                append_exact(out, cell->real);
            else
                append_shown(out, cell);
        }
        text_append(out, "}");
    }
    text_append(out, table->row_count ? "\n]\n" : "]\n");
}

void table_render(const report_table *table, table_format format, bool is_bold, text *out) {
    if (format == TABLE_TERMINAL)
        render_terminal(table, is_bold, out);
    else if (format == TABLE_MARKDOWN)
        render_markdown(table, out);
    else if (format == TABLE_CSV)
        render_csv(table, out);
    else
        render_json(table, out);
    if (format == TABLE_CSV || format == TABLE_JSON)
        return;
    for (int i = 0; i < table->note_count; i++) {
        text_append(out, format == TABLE_MARKDOWN ? "\n" : "");
        if (format == TABLE_MARKDOWN)
            append_markdown(out, table->notes[i]);
        else
            table_append_printable(out, table->notes[i]);
        text_append(out, "\n");
    }
}
