#include "report/view_ways.h"

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view_parts.h"

int64_t view_whole(double number) {
    return isfinite(number) && fabs(number) < 0x1p62 ? (int64_t)number : 0;
}

int64_t view_parameter_number(const results_cell *cell, const char *name) {
    return view_whole(results_number(cell_find_parameter(cell, name)));
}

void view_add_whole(report_table *t, double number) {
    if (isfinite(number))
        table_add_integer(t, view_whole(number));
    else
        table_add_empty(t);
}

static const char *const WAYS[] = {PARAM_DEVICE,    PARAM_MODE,      PARAM_MATH,    PARAM_ATTENTION,
                                   PARAM_GRADIENTS, PARAM_RECOMPUTE, PARAM_PARALLEL};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static bool varies(const results *run, const char *name) {
    for (int64_t i = 1; i < run->cell_count; i++)
        if (strcmp(view_text(run->cells[i], name), view_text(run->cells[0], name)) != 0)
            return true;
    return false;
}

void view_append_common_ways(const results *run, text *out) {
    text_format(out, "batch %lld", (long long)view_parameter_number(run->cells[0], PARAM_BATCH));
    if (cell_find_parameter(run->cells[0], PARAM_ACCUMULATE))
        text_format(out, " x accumulate %lld x ranks %lld",
                    (long long)view_parameter_number(run->cells[0], PARAM_ACCUMULATE),
                    (long long)view_parameter_number(run->cells[0], PARAM_RANKS));
    for (int i = 0; i < WAY_COUNT; i++) {
        const char *way = view_text(run->cells[0], WAYS[i]);
        bool is_recompute = strcmp(WAYS[i], PARAM_RECOMPUTE) == 0;
        bool follows_from_mode =
            strcmp(WAYS[i], PARAM_ATTENTION) == 0 || strcmp(WAYS[i], PARAM_GRADIENTS) == 0;
        if (!varies(run, WAYS[i]) && !follows_from_mode && strcmp(way, "none") != 0)
            text_format(out, ", %s%s", is_recompute ? "recompute " : "", way);
    }
}

void view_add_way_columns(const results *run, report_table *t) {
    for (int i = 0; i < WAY_COUNT; i++)
        if (varies(run, WAYS[i]))
            table_add_setting(t, WAYS[i], WAYS[i], TABLE_LEFT);
}

static bool has_column(const report_table *t, const char *key) {
    for (int i = 0; i < t->column_count; i++)
        if (t->columns[i].is_setting && strcmp(t->columns[i].key, key) == 0)
            return true;
    return false;
}

void view_add_ways(const results_cell *cell, report_table *t) {
    for (int i = 0; i < WAY_COUNT; i++)
        if (has_column(t, WAYS[i]))
            table_add_text(t, view_text(cell, WAYS[i]));
}

bool view_are_run_alike(const results_cell *a, const results_cell *b) {
    for (int i = 0; i < WAY_COUNT; i++)
        if (strcmp(view_text(a, WAYS[i]), view_text(b, WAYS[i])) != 0)
            return false;
    return true;
}
