/* view_memory_stages.c - the bytes of a step by kind, predicted beside measured, a row for each cell and
 * moment. */
#include <string.h>

#include "measure/keys.h"
#include "report/memory_kinds.h"
#include "report/view.h"
#include "report/view_parts.h"

/* That have columns; activations include what is saved for the backward and workspaces. */
static const memory_kind SHOWN[] = {MEMORY_WEIGHTS, MEMORY_GRADIENTS, MEMORY_STATE,
                                    MEMORY_ACTIVATIONS, MEMORY_ALL};
enum { SHOWN_COUNT = sizeof SHOWN / sizeof *SHOWN };

static void add_rows(const results_cell *cell, const results_breakdown *b, report_table *table) {
    static const char *const SETTINGS[] = {PARAM_MODEL, PARAM_MODE, PARAM_MATH, PARAM_RANKS,
                                           PARAM_PARALLEL};
    for (int64_t i = 0; i < b->row_count; i++) {
        const char *stage = b->rows[i].keys[0];
        if (i > 0 && strcmp(stage, b->rows[i - 1].keys[0]) == 0)
            continue;
        table_add_row(table);
        for (size_t s = 0; s < sizeof SETTINGS / sizeof *SETTINGS; s++)
            view_add_value(table, cell_find_parameter(cell, SETTINGS[s]));
        table_add_text(table, stage);
        for (int k = 0; k < SHOWN_COUNT; k++)
            for (int column = 0; column < 2; column++)
                table_add_real(table, memory_stage_bytes(b, stage, SHOWN[k], column) / 0x1p20, 2);
    }
}

static void add_kind_columns(report_table *table) {
    static const char *const COLUMNS[] = {"predicted", "measured"};
    for (int k = 0; k < SHOWN_COUNT; k++)
        for (int column = 0; column < 2; column++) {
            text key = {0}, header = {0};
            text_format(&key, "%s_%s_mib", COLUMNS[column], memory_kind_name(SHOWN[k]));
            text_format(&header, "%s %s MiB", COLUMNS[column], memory_kind_name(SHOWN[k]));
            table_add_column(table, text_string(&key), text_string(&header), TABLE_RIGHT);
            text_release(&key);
            text_release(&header);
        }
}

void view_memory_stages(const results *run, report_document *out) {
    report_table *table = NULL;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = memory_stages_of(run->cells[i]);
        if (!b)
            continue;
        if (!table) {
            table =
                table_create("memory of rank 0 by kind, predicted by the plan and measured in a "
                             "step whose allocations are recorded");
            table_add_setting(table, PARAM_MODEL, "model", TABLE_LEFT);
            table_add_setting(table, PARAM_MODE, "mode", TABLE_LEFT);
            table_add_setting(table, PARAM_MATH, "math", TABLE_LEFT);
            table_add_setting(table, PARAM_RANKS, "ranks", TABLE_RIGHT);
            table_add_setting(table, PARAM_PARALLEL, "parallel", TABLE_LEFT);
            table_add_setting(table, KEY_STAGE, "moment", TABLE_LEFT);
            add_kind_columns(table);
        }
        add_rows(run->cells[i], b, table);
    }
    if (table)
        document_add_table(out, table);
}
