/* render_terminal.c - aligned columns and pictures of characters.
 *
 * A blank line stands above tables and curves; notes and bars belong to what is above them. Where the
 * terminal's width is known, no line is wider: table_layout.h chooses the columns, texts are wrapped. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/document.h"
#include "report/table_layout.h"

enum { CURVE_WIDTH = 72, CURVE_HEIGHT = 8, AREAS_HEIGHT = 16, BAR_WIDTH = 40, MOST_BARS = 40 };
enum { NOTE_INDENT = 2 };

static void append_repeated(text *out, char c, int count) {
    char some[64];
    memset(some, c, sizeof some);
    for (; count > 0; count -= (int)sizeof some)
        text_append_bytes(out, some, (size_t)count < sizeof some ? (size_t)count : sizeof some);
}

static void append_line(text *out, const char *string, int columns) {
    text line = {0};
    table_append_printable(&line, string);
    text_append_wrapped(out, text_string(&line), 0, NOTE_INDENT, columns);
    text_release(&line);
}

/* `from` is where the line begins. */
static void trim_trailing_spaces(text *out, size_t from) {
    while (out->length > from && out->data[out->length - 1] == ' ')
        out->data[--out->length] = '\0';
}

static void append_padded(text *out, const char *string, size_t bytes, int width,
                          table_alignment alignment) {
    int padding = width - printable_width_of(string, bytes);
    append_repeated(out, ' ', alignment == TABLE_RIGHT ? padding : 0);
    text_append_bytes(out, string, bytes);
    append_repeated(out, ' ', alignment == TABLE_LEFT ? padding : 0);
}

/* One row of a table being printed: what each column still has to show. */
typedef struct shown_row {
    const report_table *table;
    const table_layout *layout;
    text *cells; /* of each column; kept from row to row */
    const char **rest;
    int *lines; /* that it takes */
} shown_row;

static shown_row row_create(const report_table *table, const table_layout *layout) {
    size_t count = (size_t)layout->count;
    return (shown_row){table, layout, memory_allocate(count, sizeof(text)),
                       memory_allocate(count, sizeof(char *)), memory_allocate(count, sizeof(int))};
}

static void row_release(shown_row *row) {
    for (int j = 0; j < row->layout->count; j++)
        text_release(&row->cells[j]);
    free(row->cells);
    free(row->rest);
    free(row->lines);
}

/* How many lines a cell takes in its column. */
static int count_lines(const char *cell, int width) {
    int lines = 0;
    if (printable_width(cell) <= width)
        return 1;
    for (; *cell; lines++) {
        cell += wrap_line(cell, width);
        cell += strspn(cell, " ");
    }
    return lines;
}

static void append_cell_line(const shown_row *row, int j, bool is_blank, text *out) {
    const char *rest = row->rest[j];
    int width = row->layout->widths[j];
    size_t bytes = is_blank ? 0 : row->lines[j] == 1 ? strlen(rest) : wrap_line(rest, width);
    append_padded(out, rest, bytes, width, row->table->columns[row->layout->columns[j]].alignment);
    row->rest[j] += bytes + strspn(rest + bytes, " ");
}

/* `index` is -1 for the header, whose last lines stand above the first row. */
static void append_row(const shown_row *row, int index, bool is_bold, text *out) {
    const table_layout *layout = row->layout;
    int most = 1;
    for (int j = 0; j < layout->count; j++) {
        table_layout_show(row->table, index, layout->columns[j], &row->cells[j]);
        row->rest[j] = text_string(&row->cells[j]);
        row->lines[j] = count_lines(row->rest[j], layout->widths[j]);
        most = row->lines[j] > most ? row->lines[j] : most;
    }
    for (int line = 0; line < most; line++) {
        text_append(out, is_bold ? "\033[1m" : "");
        size_t from = out->length;
        for (int j = 0; j < layout->count; j++) {
            text_append(out, j ? "  " : "");
            append_cell_line(row, j, index < 0 && line < most - row->lines[j], out);
        }
        trim_trailing_spaces(out, from);
        text_append(out, is_bold ? "\033[0m\n" : "\n");
    }
}

static void append_rows(const report_table *table, const table_layout *layout, bool is_bold,
                        text *out) {
    shown_row row = row_create(table, layout);
    int total = -TABLE_GAP;
    for (int j = 0; j < layout->count; j++)
        total += layout->widths[j] + TABLE_GAP;
    append_row(&row, -1, is_bold, out);
    for (int i = 0; i < table->row_count; i++) {
        if (table->rows[i].has_rule_above) {
            append_repeated(out, '-', total);
            text_append(out, "\n");
        }
        append_row(&row, i, false, out);
    }
    row_release(&row);
}

static void append_table(const report_table *table, render_options options, text *out) {
    table_layout layout = table_layout_create(table, options.columns);
    if (table->title)
        append_line(out, table->title, options.columns);
    if (layout.heading.length)
        append_line(out, text_string(&layout.heading), options.columns);
    append_rows(table, &layout, options.is_bold, out);
    if (layout.left_out.length) {
        text line = {0};
        text_format(&line, "left out to fit %d columns: %s; --wide shows all", options.columns,
                    text_string(&layout.left_out));
        append_line(out, text_string(&line), options.columns);
        text_release(&line);
    }
    for (int i = 0; i < table->note_count; i++)
        append_line(out, table->notes[i], options.columns);
    table_layout_release(&layout);
}

static void append_curve(const document_curve *curve, int columns, text *out) {
    int room = columns - PLOT_LINE_MARGIN;
    bool is_narrow = columns > 0 && room < CURVE_WIDTH;
    append_line(out, curve->title, columns);
    plot_line(out, curve->values, curve->count, curve->warmup, is_narrow ? room : CURVE_WIDTH,
              CURVE_HEIGHT, curve->unit);
}

static void append_bars(const document_bars *bars, int columns, text *out) {
    int64_t left_out = bars->count > MOST_BARS ? bars->count - MOST_BARS : 0;
    plot_bars(out, bars->bars, (int)(bars->count - left_out), BAR_WIDTH, columns, bars->unit);
    if (left_out)
        text_format(out, "  and %lld more rows\n", (long long)left_out);
}

static void append_areas(const document_areas *plot, int columns, text *out) {
    int room = columns - PLOT_LINE_MARGIN;
    bool is_narrow = columns > 0 && room < CURVE_WIDTH;
    append_line(out, plot->title, columns);
    plot_areas(out, plot->areas, plot->area_count, plot->count, plot->marks,
               is_narrow ? room : CURVE_WIDTH, AREAS_HEIGHT, plot->unit);
}

/* Narrower than that nothing can be read. */
static render_options widen(render_options options) {
    if (options.columns > 0 && options.columns < TABLE_NARROWEST)
        options.columns = TABLE_NARROWEST;
    return options;
}

void render_terminal(const report_document *document, render_options given, text *out) {
    render_options options = widen(given);
    size_t start = out->length;
    for (int64_t i = 0; i < document->count; i++) {
        const document_block *block = &document->blocks[i];
        bool is_bars = block->kind == BLOCK_BARS, is_curve = block->kind == BLOCK_CURVE;
        if ((is_bars || is_curve) && !options.has_plots)
            continue;
        if (block->kind == BLOCK_NOTE) {
            append_line(out, block->note, options.columns);
        } else if (is_bars) {
            append_bars(&block->bars, options.columns, out);
        } else {
            text_append(out, out->length > start ? "\n" : "");
            if (is_curve)
                append_curve(&block->curve, options.columns, out);
            else if (block->kind == BLOCK_AREAS)
                append_areas(&block->areas, options.columns, out);
            else
                append_table(block->table, options, out);
        }
    }
}
