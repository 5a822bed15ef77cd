/* render_terminal.c - aligned columns and pictures of characters.
 *
 * A blank line stands above tables and curves; notes and bars belong to what is above them. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "report/document.h"

enum { CURVE_WIDTH = 72, CURVE_HEIGHT = 8, BAR_WIDTH = 40, MOST_BARS = 40 };

static void append_repeated(text *out, char c, int count) {
    for (int i = 0; i < count; i++)
        text_append_bytes(out, &c, 1);
}

static void append_line(text *out, const char *string) {
    table_append_printable(out, string);
    text_append(out, "\n");
}

/* `from` is where the line begins. */
static void trim_trailing_spaces(text *out, size_t from) {
    while (out->length > from && out->data[out->length - 1] == ' ')
        out->data[--out->length] = '\0';
}

static void append_padded(text *out, const char *string, int width, table_alignment alignment) {
    int padding = width - printable_width(string);
    if (alignment == TABLE_RIGHT)
        append_repeated(out, ' ', padding);
    text_append(out, string);
    if (alignment == TABLE_LEFT)
        append_repeated(out, ' ', padding);
}

/* What stands in a column of a row, -1 being the header; valid until the next call. */
static const char *shown_at(const report_table *table, int row, int column, text *shown) {
    shown->length = 0;
    text_append(shown, "");
    if (row < 0)
        table_append_printable(shown, table->columns[column].header);
    else
        table_append_shown(shown, &table->rows[row].cells[column]);
    return text_string(shown);
}

static int column_width(const report_table *table, int column, text *shown) {
    int widest = 0;
    for (int i = -1; i < table->row_count; i++) {
        int width = printable_width(shown_at(table, i, column, shown));
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void append_row(const report_table *table, int row, const int *width, text *shown,
                       text *out) {
    size_t line = out->length;
    for (int j = 0; j < table->column_count; j++) {
        text_append(out, j ? "  " : "");
        append_padded(out, shown_at(table, row, j, shown), width[j], table->columns[j].alignment);
    }
    trim_trailing_spaces(out, line);
}

static void append_rows(const report_table *table, bool is_bold, text *out) {
    text shown = {0};
    int *width = memory_allocate((size_t)table->column_count, sizeof *width), total = -2;
    for (int j = 0; j < table->column_count; j++) {
        width[j] = column_width(table, j, &shown);
        total += width[j] + 2;
    }
    text_append(out, is_bold ? "\033[1m" : "");
    append_row(table, -1, width, &shown, out);
    text_append(out, is_bold ? "\033[0m\n" : "\n");
    for (int i = 0; i < table->row_count; i++) {
        if (table->rows[i].has_rule_above) {
            append_repeated(out, '-', total);
            text_append(out, "\n");
        }
        append_row(table, i, width, &shown, out);
        text_append(out, "\n");
    }
    text_release(&shown);
    free(width);
}

static void append_table(const report_table *table, bool is_bold, text *out) {
    if (table->title)
        append_line(out, table->title);
    append_rows(table, is_bold, out);
    for (int i = 0; i < table->note_count; i++)
        append_line(out, table->notes[i]);
}

static void append_curve(const document_curve *curve, text *out) {
    append_line(out, curve->title);
    plot_line(out, curve->values, curve->count, curve->warmup, CURVE_WIDTH, CURVE_HEIGHT,
              curve->unit);
}

static void append_bars(const document_bars *bars, text *out) {
    int64_t left_out = bars->count > MOST_BARS ? bars->count - MOST_BARS : 0;
    plot_bars(out, bars->bars, (int)(bars->count - left_out), BAR_WIDTH, bars->unit);
    if (left_out)
        text_format(out, "  and %lld more rows\n", (long long)left_out);
}

void render_terminal(const report_document *document, render_options options, text *out) {
    size_t start = out->length;
    for (int64_t i = 0; i < document->count; i++) {
        const document_block *block = &document->blocks[i];
        bool is_bars = block->kind == BLOCK_BARS, is_curve = block->kind == BLOCK_CURVE;
        if ((is_bars || is_curve) && !options.has_plots)
            continue;
        if (block->kind == BLOCK_NOTE) {
            append_line(out, block->note);
        } else if (is_bars) {
            append_bars(&block->bars, out);
        } else {
            text_append(out, out->length > start ? "\n" : "");
            if (is_curve)
                append_curve(&block->curve, out);
            else
                append_table(block->table, options.is_bold, out);
        }
    }
}
