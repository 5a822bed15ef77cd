/* view_precision.c - verb "precision": a table for each of its parts that the run has. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view.h"
#include "report/view_parts.h"

static const results_cell *next_cell(const results *run, const char *part, int64_t *at) {
    while (*at < run->cell_count) {
        const results_cell *cell = run->cells[(*at)++];
        if (strcmp(view_text(cell, PARAM_PART), part) == 0)
            return cell;
    }
    return NULL;
}

static report_table *accumulation_table(const results *run, const char *part) {
    report_table *t = table_create(part);
    table_add_column(t, "way", "way", TABLE_LEFT);
    table_add_column(t, "term_type", "term", TABLE_LEFT);
    table_add_column(t, "total_type", "total", TABLE_LEFT);
    table_add_column(t, "sum", "sum", TABLE_RIGHT);
    table_add_column(t, "error_percent", "error %", TABLE_RIGHT);
    int64_t at = 0;
    double terms = 0, term = 0, exact = 0;
    for (const results_cell *cell; (cell = next_cell(run, part, &at));) {
        terms = results_number(cell_find_parameter(cell, PARAM_TERMS));
        term = results_number(cell_find_parameter(cell, PARAM_TERM));
        exact = term * terms;
        double sum = view_metric(cell, METRIC_SUM);
        table_add_row(t);
        table_add_text(t, view_text(cell, PARAM_WAY));
        table_add_text(t, view_text(cell, PARAM_TERM_TYPE));
        table_add_text(t, view_text(cell, PARAM_TOTAL_TYPE));
        table_add_real(t, sum, 4);
        table_add_real(t, exact != 0 ? 100 * (sum - exact) / fabs(exact) : NAN, 4);
    }
    table_add_note(t, "%.0f x %g = %g", terms, term, exact);
    return t;
}

/* A column for each precision, a row for each parameter that is the type of something. */
static report_table *policy_table(const results *run, const char *part) {
    static const char *const not_types[] = {PARAM_PART, PARAM_MATH, NULL};
    int64_t at = 0;
    const results_cell *first = next_cell(run, part, &at);
    report_table *t = table_create(part);
    text losses = {0};
    table_add_column(t, "item", "what", TABLE_LEFT);
    for (const results_cell *cell = first; cell; cell = next_cell(run, part, &at)) {
        const char *math = view_text(cell, PARAM_MATH);
        table_add_column(t, math, math, TABLE_LEFT);
        text_format(&losses, "%s%.6f in %s", cell == first ? "loss " : ", ",
                    view_metric(cell, METRIC_LOSS), math);
    }
    for (int row = 0; row < first->parameters.count; row++) {
        const char *item = first->parameters.entries[row].key;
        if (view_is_one_of(item, not_types))
            continue;
        table_add_row(t);
        table_add_text(t, item);
        at = 0;
        for (const results_cell *cell; (cell = next_cell(run, part, &at));)
            table_add_text(t, view_text(cell, item));
    }
    table_add_note(t, "%s", text_string(&losses));
    table_add_note(t, "products have their operands and results in the low type and their sums in "
                      "f32; logits stay in f32, which PyTorch's autocast rounds and widens again");
    text_release(&losses);
    return t;
}

void view_precision(const results *run, bool is_full, report_document *out) {
    static const struct {
        const char *name;
        report_table *(*create)(const results *run, const char *part);
    } parts[] = {{"accumulation", accumulation_table}, {"policy", policy_table}};
    for (int i = 0; i < 2; i++) {
        int64_t at = 0;
        if (next_cell(run, parts[i].name, &at))
            document_add_table(out, parts[i].create(run, parts[i].name));
    }
    if (!out->count)
        view_general(run, is_full, out);
}
