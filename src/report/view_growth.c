/* view_growth.c - how attention's times grow with the length, a row for each curve.
 *
 * Two exponents for each time: over all lengths, where what every launch costs holds short ones
 * back, and between the two longest, which is nearer to what the algorithm does. */
#include <math.h>

#include "measure/keys.h"
#include "report/attention_table_rows.h"
#include "report/view.h"
#include "report/view_parts.h"

/* Whether two cells that have this parameter differ in it. */
static bool has_choice(const results *run, const char *key) {
    const results_value *first = NULL;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_value *found = cell_find_parameter(run->cells[i], key);
        if (first && found && !view_values_are_equal(first, found))
            return true;
        first = first ? first : found;
    }
    return false;
}

/* "flash compiled bf16, head size 64" */
static void add_curve(report_table *table, const results *run, const attention_table_row *row) {
    static const struct {
        const char *name, *before;
        bool only_if_there_is_a_choice;
    } parts[] = {{PARAM_IMPL, "", false},           {PARAM_MODE, " ", false},
                 {PARAM_MATH, " ", true},           {PARAM_TILE, ", tile ", true},
                 {PARAM_CAUSAL, ", causal ", true}, {PARAM_HEAD_DIM, ", head size ", false}};
    text curve = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const results_value *value =
            cell_find_parameter(attention_table_row_cell(row), parts[i].name);
        if (!value || (parts[i].only_if_there_is_a_choice && !has_choice(run, parts[i].name)))
            continue;
        text_append(&curve, parts[i].before);
        view_append_value(&curve, value);
    }
    table_add_text(table, text_string(&curve));
    text_release(&curve);
}

/* Two decimals, and no sign where they are zeros. */
static void append_exponent(text *out, double k) {
    text_format(out, "%.2f", fabs(k) < 0.005 ? 0 : k);
}

/* "0.87 over 10, 1.93 from 32768 to 65536"; of two lengths the latter alone. */
static void add_growth(report_table *table, const attention_growth *growth) {
    text shown = {0};
    if (!isnan(growth->fit) && growth->lengths > 2) {
        append_exponent(&shown, growth->fit);
        text_format(&shown, " over %lld, ", (long long)growth->lengths);
    }
    if (!isnan(growth->at_end)) {
        append_exponent(&shown, growth->at_end);
        text_format(&shown, " from %lld to %lld", (long long)growth->from, (long long)growth->to);
    }
    table_add_text(table, text_string(&shown));
    text_release(&shown);
}

static bool is_first_of_curve(const attention_table_rows *all, int64_t row) {
    static const char *const except[] = {PARAM_SEQ, NULL};
    for (int64_t i = 0; i < row; i++)
        if (attention_table_rows_agree(&all->rows[row], &all->rows[i], except))
            return false;
    return true;
}

/* Whether some curve has three lengths: through two there is nothing to fit. */
static bool has_fit(const attention_table_rows *all) {
    enum { MOST_ROWS = 1000 }; /* of more rows some curve has three, and looking takes long */
    if (all->count > MOST_ROWS)
        return true;
    for (int64_t i = 0; i < all->count; i++)
        for (int which = 0; which < ATTENTION_TIME_COUNT; which++)
            if (attention_growth_of(all, &all->rows[i], which).lengths > 2)
                return true;
    return false;
}

report_table *view_create_growth_table(const results *run) {
    attention_table_rows all = attention_table_rows_of(run);
    report_table *table =
        table_create(has_fit(&all) ? "time grows as seq^k: k over all lengths (least squares on "
                                     "the logarithms), and between the two longest"
                                   : "time grows as seq^k: k is the slope between two lengths");
    table_add_column(table, "curve", "curve", TABLE_LEFT);
    for (int which = 0; which < ATTENTION_TIME_COUNT; which++)
        if (attention_table_rows_have_time(&all, which))
            table_add_column(table, attention_time_name(which), attention_time_name(which),
                             TABLE_LEFT);
    for (int64_t i = 0; i < all.count; i++) {
        if (!is_first_of_curve(&all, i))
            continue;
        attention_growth growth[ATTENTION_TIME_COUNT];
        bool has_any = false;
        for (int which = 0; which < ATTENTION_TIME_COUNT; which++) {
            growth[which] = attention_growth_of(&all, &all.rows[i], which);
            has_any = has_any || !isnan(growth[which].fit);
        }
        if (!has_any)
            continue;
        table_add_row(table);
        add_curve(table, run, &all.rows[i]);
        for (int which = 0; which < ATTENTION_TIME_COUNT; which++)
            if (attention_table_rows_have_time(&all, which))
                add_growth(table, &growth[which]);
    }
    attention_table_rows_release(&all);
    return table;
}
