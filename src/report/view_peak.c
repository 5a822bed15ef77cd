/* view_peak.c - the values that make a peak, each as a formula. */
#include <math.h>

#include "measure/keys.h"
#include "report/view_parts.h"
#include "report/view_ways.h"

enum { SHOWN_VALUES = 16 }; /* rows for people; the record has all */

static const double MIB = 0x1p20;

/* What all of them take together: the record has the sum by role. */
static double bytes_at_peak(const results_breakdown *b) {
    double bytes = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        bytes += results_number(&b->rows[i].values[1]);
    return isfinite(bytes) ? bytes : 0;
}

report_table *view_create_peak_table(const results_cell *cell, const results_breakdown *b) {
    text title = {0};
    text_format(&title, "%s, context %lld, %s: largest values alive at the peak, %s",
                view_text(cell, PARAM_MODEL), (long long)view_parameter_number(cell, PARAM_CONTEXT),
                view_text(cell, PARAM_PASS), view_text(cell, PARAM_PEAK_AT));
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    table_add_column(t, "value", "value", TABLE_LEFT);
    table_add_column(t, "role", "role", TABLE_LEFT);
    table_add_column(t, "count", "count", TABLE_RIGHT);
    table_add_column(t, "formula", "each", TABLE_LEFT);
    table_add_column(t, "mib", "MiB", TABLE_RIGHT);
    table_add_column(t, "share", "% of peak", TABLE_RIGHT);
    static const char *const importance[] = {"value", "mib", "share", "role", NULL};
    table_set_importance(t, importance);
    double peak = bytes_at_peak(b), rest = peak;
    int64_t shown = b->row_count < SHOWN_VALUES ? b->row_count : SHOWN_VALUES;
    for (int64_t i = 0; i < shown; i++) {
        double bytes = results_number(&b->rows[i].values[1]);
        rest -= bytes;
        table_add_row(t);
        table_add_text(t, b->rows[i].keys[0]);
        table_add_text(t, b->rows[i].keys[1]);
        table_add_integer(t, view_whole(results_number(&b->rows[i].values[0])));
        table_add_text(t, b->rows[i].keys[2]);
        table_add_real(t, bytes / MIB, 2);
        table_add_real(t, peak > 0 ? 100 * bytes / peak : 0, 1);
    }
    if (b->row_count > shown)
        table_add_note(t, "and %lld kinds more, %.1f MiB together; --format json has them all",
                       (long long)(b->row_count - shown), rest / MIB);
    return t;
}

const results_breakdown *view_breakdown_of_form(const results_cell *cell, const char *name,
                                                int keys, int columns) {
    const results_breakdown *b = cell_find_breakdown(cell, name);
    return b && b->key_count == keys && b->column_count == columns ? b : NULL;
}
