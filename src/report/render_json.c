/* render_json.c - the run, as in run.json. Of a document without one, its tables: the only one as an
 * array with an object for each row, several as an object of such arrays by their titles. */
#include <jansson.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "measure/results_json.h"
#include "report/document.h"

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
    text_append_printable_json(out, dump ? dump : "\"\"");
    free(dump);
    json_decref(value);
}

static void append_table(const report_table *table, text *out) {
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
            append_json_text(out, table->title ? table->title : "");
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
