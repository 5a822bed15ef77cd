/* view_doctor.c - verb "doctor": a row for each cell of the record. */
#include <string.h>

#include "measure/keys.h"
#include "report/view.h"
#include "report/view_parts.h"

/* The unit is in the item's name. */
static int decimals_of(const char *item) {
    return strstr(item, "KiB") ? 0 : strstr(item, "GiB") ? 2 : 1;
}

static void add_row(const results_cell *cell, report_table *table) {
    const char *item = view_text(cell, PARAM_ITEM);
    const results_value *value = cell_find_parameter(cell, PARAM_VALUE);
    table_add_row(table);
    table_add_text(table, view_text(cell, PARAM_PART));
    table_add_text(table, item);
    if (value && value->kind == RESULTS_REAL)
        table_add_real(table, value->real, decimals_of(item));
    else
        view_add_value(table, value);
    table_add_text(table, view_text(cell, PARAM_NOTE));
}

void view_doctor(const results *run, bool is_full, report_document *out) {
    (void)is_full;
    static const char *const columns[] = {PARAM_PART, PARAM_ITEM, PARAM_VALUE, PARAM_NOTE};
    const results_value *verdict = results_find_environment(run, ENV_VERDICT);
    report_table *table = table_create(NULL);
    for (int i = 0; i < 4; i++)
        table_add_column(table, columns[i], columns[i], TABLE_LEFT);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_row(run->cells[i], table);
    if (verdict && verdict->kind == RESULTS_TEXT)
        table_add_note(table, "%s", verdict->text);
    view_note_contention(run, table);
    document_add_table(out, table);
}
