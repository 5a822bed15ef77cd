/* view_memory_stages.c - the bytes of a step by kind, predicted beside measured, a row for each cell and
 * moment. */
#include <string.h>

#include "measure/keys.h"
#include "report/view.h"
#include "report/view_parts.h"

/* Kinds as a reader thinks of them; the roles of each, "" for all. */
static const struct {
    const char *key, *header;
    const char *roles[3];
} KINDS[] = {
    {"weights_mib", "weights MiB", {"parameter"}},
    {"gradients_mib", "gradients MiB", {"gradient"}},
    {"state_mib", "state MiB", {"optimizer-state"}},
    {"activations_mib", "activations MiB", {"activation", "saved", "workspace"}},
    {"all_mib", "all MiB", {""}},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static const results_breakdown *stages_of(const results_cell *cell) {
    const results_breakdown *b = cell_find_breakdown(cell, BREAKDOWN_MEMORY_STAGES);
    return b && b->key_count == 2 && b->column_count == 2 ? b : NULL;
}

static bool is_of_kind(const char *role, int kind) {
    for (int i = 0; i < 3 && KINDS[kind].roles[i]; i++)
        if (!KINDS[kind].roles[i][0] || strcmp(KINDS[kind].roles[i], role) == 0)
            return true;
    return false;
}

static double sum_mib(const results_breakdown *b, const char *stage, int kind, int column) {
    double bytes = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        if (strcmp(b->rows[i].keys[0], stage) == 0 && is_of_kind(b->rows[i].keys[1], kind))
            bytes += results_number(&b->rows[i].values[column]);
    return bytes / 0x1p20;
}

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
        for (int k = 0; k < KIND_COUNT; k++)
            for (int column = 0; column < 2; column++)
                table_add_real(table, sum_mib(b, stage, k, column), 2);
    }
}

void view_memory_stages(const results *run, report_document *out) {
    static const char *const COLUMNS[] = {"predicted", "measured"};
    report_table *table = NULL;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = stages_of(run->cells[i]);
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
            for (int k = 0; k < KIND_COUNT; k++)
                for (int column = 0; column < 2; column++) {
                    text key = {0}, header = {0};
                    text_format(&key, "%s_%s", COLUMNS[column], KINDS[k].key);
                    text_format(&header, "%s %s", COLUMNS[column], KINDS[k].header);
                    table_add_column(table, text_string(&key), text_string(&header), TABLE_RIGHT);
                    text_release(&key);
                    text_release(&header);
                }
        }
        add_rows(run->cells[i], b, table);
    }
    if (table)
        document_add_table(out, table);
}
