/* table.c - building a table, and its cells as text.
 *
 * Texts may come from a file that somebody sent: control characters never reach a terminal. */
#include "report/table.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "report/document.h"

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
                       arena_copy_string(table->strings, header), alignment, false};
}

void table_add_setting(report_table *table, const char *key, const char *header,
                       table_alignment alignment) {
    table_add_column(table, key, header, alignment);
    table->columns[table->column_count - 1].is_setting = true;
}

void table_set_importance(report_table *table, const char *const *keys) {
    table->importance = keys;
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

void table_add_format(report_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *value = arena_format_list(table->strings, format, arguments);
    va_end(arguments);
    add_cell(table, (table_cell){.kind = CELL_TEXT, .text = value});
}

void table_add_text(report_table *table, const char *value) {
    table_add_format(table, "%s", value);
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
    va_list arguments;
    va_start(arguments, format);
    table->notes[table->note_count++] = arena_format_list(table->strings, format, arguments);
    va_end(arguments);
}

int table_row_count(const report_table *table) { return table->row_count; }

void table_append_printable(text *out, const char *string) {
    size_t from = out->length;
    text_append_printable(out, string, "\n\t");
    for (size_t i = from; i < out->length; i++)
        if (out->data[i] == '\n' || out->data[i] == '\t')
            out->data[i] = ' ';
}

/* Beyond that a number has more digits than it has to say. */
static const double LARGEST_PLAIN = 1e15;

/* What is shown as zero has no sign: "-0.0" looks like a gain. */
static double without_sign_of_zero(double value, int decimals) {
    return fabs(value) < 0.5 * pow(10, -decimals) ? 0 : value;
}

void table_append_shown(text *out, const table_cell *cell) {
    if (cell->kind == CELL_TEXT)
        table_append_printable(out, cell->text);
    else if (cell->kind == CELL_INTEGER)
        text_format(out, "%lld", (long long)cell->integer);
    else if (cell->kind == CELL_REAL)
        text_format(out, fabs(cell->real) < LARGEST_PLAIN ? "%.*f" : "%.*e", cell->decimals,
                    without_sign_of_zero(cell->real, cell->decimals));
}

/* The fewest digits that read back as the same number. */
static void append_real(text *out, double value) {
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    text_append(out, digits);
}

void table_append_exact(text *out, const table_cell *cell) {
    if (cell->kind == CELL_REAL)
        append_real(out, cell->real);
    else
        table_append_shown(out, cell);
}

void table_render(const report_table *table, table_format format, bool is_bold, text *out) {
    table_render_with(table, format, (render_options){.is_bold = is_bold}, out);
}

void table_render_with(const report_table *table, table_format format, render_options options,
                       text *out) {
    report_table borrowed = *table; /* a block's table is not const: a document owns its own */
    document_block block = {.kind = BLOCK_TABLE, .table = &borrowed};
    report_document document = {.blocks = &block, .count = 1};
    document_render(&document, format, options, out);
}
