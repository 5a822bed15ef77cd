/* render_json.c - the run, as in run.json. Of a document without one, its tables: the only one as an
 * array with an object for each row, several as an object of such arrays by their titles. */
#include "base/json.h"
#include "measure/results_json.h"
#include "report/document.h"

static void append_table(const report_table *table, text *out) {
    text_append(out, "[");
    for (int i = 0; i < table->row_count; i++) {
        text_append(out, i ? ",\n {" : "\n {");
        for (int j = 0; j < table->column_count; j++) {
            const table_cell *cell = &table->rows[i].cells[j];
            text_append(out, j ? ", " : "");
            json_append_string(out, table->columns[j].key);
            text_append(out, ": ");
            if (cell->kind == CELL_EMPTY)
                text_append(out, "null");
            else if (cell->kind == CELL_TEXT)
                json_append_string(out, cell->text);
            else
                table_append_exact(out, cell);
        }
        text_append(out, "}");
    }
    text_append(out, table->row_count ? "\n]\n" : "]\n");
}

static void append_tables(const report_document *document, text *out) {
    int64_t tables = 0, appended = 0;
    for (int64_t i = 0; i < document->count; i++)
        tables += document->blocks[i].kind == BLOCK_TABLE;
    text_append(out, tables == 1 ? "" : "{");
    for (int64_t i = 0; i < document->count; i++) {
        if (document->blocks[i].kind != BLOCK_TABLE)
            continue;
        const report_table *table = document->blocks[i].table;
        if (tables > 1) {
            text_append(out, appended++ ? ",\n" : "\n");
            json_append_string(out, table->title ? table->title : "");
            text_append(out, ": ");
        }
        append_table(table, out);
    }
    text_append(out, tables == 1 ? "" : "}\n");
}

void render_json(const report_document *document, render_options options, text *out) {
    (void)options;
    if (document->run)
        results_append_json(document->run, out);
    else
        append_tables(document, out);
}
