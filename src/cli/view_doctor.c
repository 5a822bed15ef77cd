/* view_doctor.c - the table of `dyno doctor`: a row for each cell of the record. */
#include <string.h>

#include "cli/experiment_views.h"
#include "report/view_parts.h"

/* The unit is in the item's name. */
static int decimals_of(const char *item) {
    return strstr(item, "KiB") ? 0 : strstr(item, "GiB") ? 2 : 1;
}

static void add_row(const results_cell *cell, report_table *table) {
    const char *item = cell_find_parameter(cell, "item")->text;
    const results_value *value = cell_find_parameter(cell, "value");
    table_add_row(table);
    table_add_text(table, cell_find_parameter(cell, "part")->text);
    table_add_text(table, item);
    if (value->kind == RESULTS_REAL)
        table_add_real(table, value->real, decimals_of(item));
    else
        view_add_value(table, value);
    table_add_text(table, cell_find_parameter(cell, "note")->text);
}

void view_render_doctor(const results *run, view_options options, text *out) {
    static const char *const columns[] = {"part", "item", "value", "note"};
    report_table *table = table_create(NULL);
    for (int i = 0; i < 4; i++)
        table_add_column(table, columns[i], columns[i], TABLE_LEFT);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_row(run->cells[i], table);
    table_add_note(table, "%s", results_find_environment(run, "verdict")->text);
    view_note_contention(run, table);
    table_render(table, options.format, options.is_bold, out);
    table_destroy(table);
}
