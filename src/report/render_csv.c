/* render_csv.c - RFC 4180: the tables alone, a blank line between them. */
#include <string.h>

#include "report/document.h"

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
