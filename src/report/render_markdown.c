/* render_markdown.c - tables as GitHub draws them; plots have no form here.
 *
 * Whatever Markdown or HTML gives a meaning is escaped: text from a file must not become a link, an
 * image that is fetched, a tag or another column. */
#include <string.h>

#include "report/document.h"

void render_markdown_text(text *out, const char *string) {
    text clean = {0};
    table_append_printable(&clean, string);
    for (const char *p = text_string(&clean); *p; p++) {
        if (strchr("|\\<`&[]*~", *p))
            text_append(out, "\\");
        text_append_bytes(out, p, 1);
    }
    text_release(&clean);
}

/* A paragraph; what would begin a heading, a list or a quotation does not. */
static void append_note(text *out, const char *note) {
    text_append(out, *note && strchr("#+->=", *note) ? "\n\\" : "\n");
    render_markdown_text(out, note);
    text_append(out, "\n");
}

static void append_cell(text *out, const table_cell *cell) {
    text_append(out, "| ");
    if (cell->kind == CELL_TEXT)
        render_markdown_text(out, cell->text);
    else
        table_append_shown(out, cell);
    text_append(out, " ");
}

static void append_table(const report_table *table, text *out) {
    if (table->title) {
        text_append(out, "**");
        render_markdown_text(out, table->title);
        text_append(out, "**\n\n");
    }
    for (int j = 0; j < table->column_count; j++) {
        text_append(out, "| ");
        render_markdown_text(out, table->columns[j].header);
        text_append(out, " ");
    }
    text_append(out, "|\n");
    for (int j = 0; j < table->column_count; j++)
        text_append(out, table->columns[j].alignment == TABLE_RIGHT ? "|---:" : "|:---");
    text_append(out, "|\n");
    for (int i = 0; i < table->row_count; i++) {
        for (int j = 0; j < table->column_count; j++)
            append_cell(out, &table->rows[i].cells[j]);
        text_append(out, "|\n");
    }
    for (int i = 0; i < table->note_count; i++)
        append_note(out, table->notes[i]);
}

void render_markdown(const report_document *document, render_options options, text *out) {
    (void)options;
    size_t start = out->length;
    for (int64_t i = 0; i < document->count; i++) {
        const document_block *block = &document->blocks[i];
        if (block->kind == BLOCK_TABLE) {
            text_append(out, out->length == start ? "" : "\n");
            append_table(block->table, out);
        } else if (block->kind == BLOCK_NOTE) {
            append_note(out, block->note);
        }
    }
}
