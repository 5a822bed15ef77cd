/* view_precision.c - the two tables of `dyno precision`. */
#include <math.h>
#include <string.h>

#include "cli/experiment_views.h"

static const results_cell *next_cell(const results *run, const char *part, int64_t *at) {
    while (*at < run->cell_count) {
        const results_cell *cell = run->cells[(*at)++];
        if (strcmp(cell_find_parameter(cell, "part")->text, part) == 0)
            return cell;
    }
    return NULL;
}

static double metric(const results_cell *cell, const char *name) {
    return results_number(&cell_find_metric(cell, name)->value);
}

static report_table *accumulation_table(const results *run) {
    static const char *const names[] = {"way", "term_type", "total_type"};
    report_table *t = table_create("accumulation");
    table_add_column(t, "way", "way", TABLE_LEFT);
    table_add_column(t, "term_type", "term", TABLE_LEFT);
    table_add_column(t, "total_type", "total", TABLE_LEFT);
    table_add_column(t, "sum", "sum", TABLE_RIGHT);
    table_add_column(t, "error_percent", "error %", TABLE_RIGHT);
    int64_t at = 0, terms = 0;
    double term = 0, exact = 0;
    for (const results_cell *cell; (cell = next_cell(run, "accumulation", &at));) {
        terms = cell_find_parameter(cell, "terms")->integer;
        term = results_number(cell_find_parameter(cell, "term"));
        exact = term * (double)terms;
        double sum = metric(cell, "sum");
        table_add_row(t);
        for (int i = 0; i < 3; i++)
            table_add_text(t, cell_find_parameter(cell, names[i])->text);
        table_add_real(t, sum, 4);
        table_add_real(t, exact != 0 ? 100 * (sum - exact) / fabs(exact) : NAN, 4);
    }
    table_add_note(t, "%lld x %g = %g", (long long)terms, term, exact);
    return t;
}

static report_table *policy_table(const results *run) {
    enum { COLUMNS = 3 };
    const results_cell *cells[COLUMNS];
    int64_t at = 0;
    report_table *t = table_create("policy");
    table_add_column(t, "item", "what", TABLE_LEFT);
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = next_cell(run, "policy", &at);
        const char *math = cell_find_parameter(cells[i], "math")->text;
        table_add_column(t, math, math, TABLE_LEFT);
    }
    for (int row = 2; row < cells[0]->parameters.count; row++) { /* after part and math */
        table_add_row(t);
        table_add_text(t, cells[0]->parameters.entries[row].key);
        for (int i = 0; i < COLUMNS; i++)
            table_add_text(t, cells[i]->parameters.entries[row].value.text);
    }
    table_add_note(t, "loss %.6f in fp32, %.6f in fp16, %.6f in bf16", metric(cells[0], "loss"),
                   metric(cells[1], "loss"), metric(cells[2], "loss"));
    table_add_note(t, "products have their operands and results in the low type and their sums in "
                      "f32; logits stay in f32, which PyTorch's autocast rounds and widens again");
    return t;
}

static const struct {
    const char *name;
    report_table *(*create)(const results *run);
} PARTS[] = {{"accumulation", accumulation_table}, {"policy", policy_table}};

static bool has_part(const results *run, const char *part) {
    int64_t at = 0;
    return next_cell(run, part, &at);
}

void view_render_precision(const results *run, view_options options, text *out) {
    bool is_object = options.format == TABLE_JSON && has_part(run, PARTS[0].name) &&
                     has_part(run, PARTS[1].name);
    for (int i = 0; i < 2; i++) {
        if (!has_part(run, PARTS[i].name))
            continue;
        report_table *t = PARTS[i].create(run);
        if (is_object)
            text_format(out, "%s\n\"%s\": ", i ? "," : "{", PARTS[i].name);
        else if (out->length)
            text_append(out, "\n");
        table_render(t, options.format, options.is_bold, out);
        table_destroy(t);
    }
    if (is_object)
        text_append(out, "}\n");
}
