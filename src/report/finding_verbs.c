#include "report/finding_verbs.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/attention_table_rows.h"
#include "report/finding.h"
#include "report/finding_parts.h"
#include "report/view.h"
#include "report/view_parts.h"

static bool is_part(const results_cell *cell, const char *part) {
    return cell->status == RESULTS_OK && strcmp(view_text(cell, PARAM_PART), part) == 0;
}

static double number_of(const results_cell *cell, const char *parameter) {
    return results_number(cell_find_parameter(cell, parameter));
}

/* ---- precision ---- */

void finding_append_accumulation(const results *run, text *out) {
    const results_cell *worst = NULL, *best = NULL;
    double most = -1, least = INFINITY, right = 0;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double exact = number_of(cell, PARAM_TERMS) * number_of(cell, PARAM_TERM);
        double error = fabs(view_metric(cell, METRIC_SUM) - exact);
        if (!is_part(cell, "accumulation") || isnan(error))
            continue;
        if (error > most) {
            most = error;
            worst = cell;
            right = exact;
        }
        if (error < least) {
            least = error;
            best = cell;
        }
    }
    if (!worst || worst == best)
        return;
    text_format(out,
                " Instead of %g the sum is %.4f in %s, the worst way, and %.4f in %s, the best.",
                right, view_metric(worst, METRIC_SUM), view_text(worst, PARAM_WAY),
                view_metric(best, METRIC_SUM), view_text(best, PARAM_WAY));
}

static bool is_of_16_bits(const results_value *value) {
    return value->kind == RESULTS_TEXT &&
           (strcmp(value->text, "f16") == 0 || strcmp(value->text, "bf16") == 0);
}

void finding_append_policy(const results *run, text *out) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        int low = 0, types = 0;
        text names = {0};
        if (!is_part(cell, "policy"))
            continue;
        for (int p = 0; p < cell->parameters.count; p++) {
            const results_entry *entry = &cell->parameters.entries[p];
            if (strcmp(entry->key, PARAM_PART) == 0 || strcmp(entry->key, PARAM_MATH) == 0)
                continue;
            types++;
            if (is_of_16_bits(&entry->value))
                text_format(&names, low++ ? ", %s" : "%s", entry->key);
        }
        if (low)
            text_format(out, " Under %s %d of %d have 16 bits: %s.", view_text(cell, PARAM_MATH),
                        low, types, text_string(&names));
        text_release(&names);
    }
}

/* ---- the best row of the table that is shown: its formulas are the only ones ---- */

static int column_of(const report_table *table, const char *key) {
    for (int i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].key, key) == 0)
            return i;
    return -1;
}

enum { WHOLE_STEP = 2 };

/* How much of a training step the row is; rows without a pass are all alike. */
static int extent_of_row(const report_table *table, int row) {
    static const char *const extents[] = {"forward", "forward+backward", "step"};
    int column = column_of(table, PARAM_PASS), extent = 0;
    if (column < 0 || table->rows[row].cells[column].kind != CELL_TEXT)
        return 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(table->rows[row].cells[column].text, extents[i]) == 0)
            extent = i < 2 ? 1 : WHOLE_STEP;
    return extent; /* 0: a part, as "step: forward" */
}

/* What samples that scatter more say is as much about what disturbed them. */
#define MOST_SCATTER_PERCENT 10

/* Whole steps come before passes and those before parts; among rows alike the steady ones come first. */
static int weight_of_row(const report_table *table, int row) {
    int scatter = column_of(table, "std_percent");
    bool is_steady = scatter < 0 || table->rows[row].cells[scatter].kind != CELL_REAL ||
                     table->rows[row].cells[scatter].real <= MOST_SCATTER_PERCENT;
    return 2 * extent_of_row(table, row) + is_steady;
}

/* Whether the rows have the same math; those without any have. */
static bool has_same_math(const report_table *table, int a, int b) {
    int math = column_of(table, PARAM_MATH);
    if (math < 0)
        return true;
    const table_cell *x = &table->rows[a].cells[math], *y = &table->rows[b].cells[math];
    return x->kind == y->kind && (x->kind != CELL_TEXT || strcmp(x->text, y->text) == 0);
}

/* The most that a row with this number has; -1: none has it. */
static int greatest_weight(const report_table *table, int column) {
    int greatest = -1;
    for (int i = 0; column >= 0 && i < table->row_count; i++)
        if (table->rows[i].cells[column].kind == CELL_REAL && weight_of_row(table, i) > greatest)
            greatest = weight_of_row(table, i);
    return greatest;
}

/* Of the rows of that weight, and with the math of the row `like` unless that is -1; -1: none. */
static int best_row(const report_table *table, int column, int weight, int like) {
    int best = -1;
    for (int i = 0; weight >= 0 && i < table->row_count; i++) {
        const table_cell *cell = &table->rows[i].cells[column];
        if (cell->kind == CELL_REAL && weight_of_row(table, i) == weight &&
            (like < 0 || has_same_math(table, i, like)) &&
            (best < 0 || cell->real > table->rows[best].cells[column].real))
            best = i;
    }
    return best;
}

/* Rates in different math are no rivals: the best row of each, and how many there are; one row where
 * they are more than are worth a sentence. */
enum { MOST_MATHS = 4 };
static int best_rows(const report_table *table, int column, int rows[MOST_MATHS]) {
    int weight = greatest_weight(table, column), count = 0;
    for (int i = 0; weight >= 0 && i < table->row_count && count <= MOST_MATHS; i++) {
        bool is_first = true;
        for (int j = 0; j < i && is_first; j++)
            is_first = !has_same_math(table, i, j);
        int best = is_first ? best_row(table, column, weight, i) : -1;
        if (best < 0)
            continue;
        if (count < MOST_MATHS)
            rows[count] = best;
        count++;
    }
    if (count <= MOST_MATHS)
        return count;
    rows[0] = best_row(table, column, weight, -1);
    return 1;
}

static bool column_varies(const report_table *table, int column) {
    text first = {0}, other = {0};
    bool varies = false;
    for (int i = 0; i < table->row_count && !varies; i++) {
        text_release(&other);
        other = (text){0};
        table_append_shown(i ? &other : &first, &table->rows[i].cells[column]);
        varies = i && strcmp(text_string(&first), text_string(&other)) != 0;
    }
    text_release(&first);
    text_release(&other);
    return varies;
}

/* Whether the name of a row has the column: what varies among settings, and what tells what it is. */
static bool is_named(const report_table *table, int column, int row) {
    static const char *const always[] = {PARAM_MODEL, PARAM_PASS, PARAM_IMPL, PARAM_RANKS, NULL};
    const table_column *about = &table->columns[column];
    const table_cell *cell = &table->rows[row].cells[column];
    if (cell->kind == CELL_EMPTY || strcmp(about->key, "status") == 0)
        return false;
    if (about->is_setting && column_varies(table, column))
        return true;
    bool is_alone = strcmp(about->key, PARAM_RANKS) == 0 && cell->integer == 1;
    return view_is_one_of(about->key, always) && !is_alone;
}

/* " (ranks 2, bytes 1000000)": without the column `except`, unless that is -1. */
static void append_row_name(const report_table *table, int row, int except, text *out) {
    int written = 0;
    for (int i = 0; i < table->column_count; i++) {
        if (i == except || !is_named(table, i, row))
            continue;
        text_format(out, written++ ? ", %s " : " (%s ", table->columns[i].key);
        table_append_shown(out, &table->rows[row].cells[i]);
    }
    text_append(out, written ? ")" : "");
}

/* What is best where it is most, and how a sentence says it. */
typedef struct rate {
    const char *key, *begin, *unit;
    const char *of;     /* that it is a part of; "" */
    double most;        /* more is a mistake of the measurement, */
    const char *beyond; /* of this kind */
    /* Instead of `begin` where the best row is a whole training step; NULL: `begin` there, too. */
    const char *begin_of_steps;
} rate;

/* Whether one of the rows is above what is possible. */
static bool is_beyond(const report_table *table, const int *rows, int count, int column,
                      const rate *what) {
    bool found = false;
    for (int i = 0; i < count; i++)
        found = found || table->rows[rows[i]].cells[column].real > what->most;
    return found;
}

/* " Begin 12.3 unit (ranks 2, bytes 1000000).", " Begin 45.6 % of it in fp32 (model a), 12.3 % in bf16 (model b)." */
static void append_best(const report_table *table, const rate *what, text *out) {
    int rows[MOST_MATHS], math = column_of(table, PARAM_MATH);
    int column = column_of(table, what->key), count = best_rows(table, column, rows);
    for (int i = 0; i < count; i++) {
        bool is_step = what->begin_of_steps && extent_of_row(table, rows[0]) == WHOLE_STEP;
        text_append(out, i ? ", " : is_step ? what->begin_of_steps : what->begin);
        table_append_shown(out, &table->rows[rows[i]].cells[column]);
        text_format(out, " %s%s", what->unit, i ? "" : what->of);
        if (count > 1) {
            text_append(out, " in ");
            table_append_shown(out, &table->rows[rows[i]].cells[math]);
        }
        append_row_name(table, rows[i], count > 1 ? math : -1, out);
    }
    text_append(out, count ? "." : "");
    if (count && is_beyond(table, rows, count, column, what))
        text_format(out, " %s", what->beyond);
}

/* Of the first table that has the column. */
static void append_best_of_run(const results *run, const rate *what, text *out) {
    report_document *document = view_create_document(run, false);
    size_t before = out->length;
    for (int64_t i = 0; i < document->count && out->length == before; i++)
        if (document->blocks[i].kind == BLOCK_TABLE)
            append_best(document->blocks[i].table, what, out);
    document_destroy(document);
}

void finding_append_limits(const results *run, text *out) {
    rate mfu = {
        "mfu_percent",
        "The highest MFU is ",
        "%",
        " of the measured peak",
        100,
        "More than 100 % is not possible: the machine was slower when its peak was measured.",
        "The highest MFU of a whole step is "};
    if (attention_has_split_products(run))
        mfu.beyond = "Flash in fp32 multiplies on tensor cores; the peak is that of FMAs.";
    append_best_of_run(run, &mfu, out);
}

void finding_append_utilization(const results *run, text *out) {
    static const char *const timed[] = {RUN_BENCH, RUN_ATTENTION, NULL};
    text said = {0};
    if (view_is_one_of(run->verb, timed) && !finding_compares_ways(run))
        finding_append_limits(run, &said);
    if (said.length)
        text_format(out, " %s", text_string(&said));
    text_release(&said);
}

void finding_append_bandwidth(const results *run, text *out) {
    static const rate bandwidth = {
        "busbw_gb_s", " The highest bus bandwidth is ", "GB/s", "", INFINITY, "", NULL};
    if (strcmp(run->verb, RUN_ALLREDUCE) == 0)
        append_best_of_run(run, &bandwidth, out);
}

/* The number of tokens belongs to the sentence: steps of fewer are bound by communication sooner. */
static void append_largest_ranks(const report_table *table, text *out) {
    int ranks = column_of(table, "largest_ranks"), way = column_of(table, PARAM_PARALLEL);
    int model = column_of(table, PARAM_MODEL), tokens = column_of(table, "step_tokens");
    int written = 0;
    for (int i = 0; ranks >= 0 && way >= 0 && i < table->row_count; i++) {
        const table_cell *cells = table->rows[i].cells;
        if (cells[ranks].kind != CELL_REAL)
            continue;
        if (tokens < 0)
            continue;
        bool is_new =
            !written || (i > 0 && table->rows[i - 1].cells[tokens].real != cells[tokens].real);
        text_append(out, written++ ? "; " : "");
        if (is_new) {
            text_append(out, written == 1 ? " In a step of " : "in one of ");
            table_append_shown(out, &cells[tokens]);
            text_append(out, " tokens computing takes longer than communicating up to ");
        }
        table_append_shown(out, &cells[ranks]);
        text_append(out, cells[ranks].real < 1.5 ? " rank with " : " ranks with ");
        table_append_shown(out, &cells[way]);
        if (model >= 0 && column_varies(table, model)) {
            text_append(out, " of ");
            table_append_shown(out, &cells[model]);
        }
    }
    text_append(out, written ? "." : "");
}

/* The sentence above is of one number of tokens, divided among ranks; the table's steps have the same for each rank. */
static void append_bound_steps(const results *run, text *out) {
    int steps = 0, bound = 0;
    const results_cell *any = NULL;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double computes = view_metric(cell, METRIC_COMPUTE_NS),
               communicates = view_metric(cell, METRIC_COLLECTIVES_NS);
        if (isnan(computes) || isnan(communicates))
            continue;
        any = cell;
        steps++;
        bound += communicates > computes;
    }
    if (!any)
        return;
    text_format(out, " Of %d step%s of the table", steps, steps > 1 ? "s" : "");
    if (!view_parameter_varies(run, PARAM_BATCH) && !view_parameter_varies(run, PARAM_CONTEXT))
        text_format(out, " (batch %.0f, context %.0f)", number_of(any, PARAM_BATCH),
                    number_of(any, PARAM_CONTEXT));
    text_format(out, ", %d communicate%s for longer than %s.", bound, bound == 1 ? "s" : "",
                bound == 1 ? "it computes" : "they compute");
}

void finding_append_ranks(const results *run, text *out) {
    if (strcmp(run->verb, RUN_SCALE) != 0)
        return;
    report_document *document = view_create_document(run, false);
    for (int64_t i = 0; i < document->count; i++)
        if (document->blocks[i].kind == BLOCK_TABLE)
            append_largest_ranks(document->blocks[i].table, out);
    document_destroy(document);
    append_bound_steps(run, out);
}

/* ---- sweeps of a bench ---- */

static double scatter_of(const results_cell *cell) {
    statistics s = statistics_of_series(view_whole_steps(cell));
    return s.count > 1 && s.mean > 0 ? 100 * s.std / s.mean : (double)NAN;
}

void finding_append_warmup(const results *run, text *out) {
    if (strcmp(run->verb, RUN_BENCH) != 0 || !view_parameter_varies(run, PARAM_WARMUP) ||
        run->cell_count > FINDING_MOST_CELLS)
        return;
    const results_cell *cold = NULL, *warm = NULL;
    for (int64_t i = 0; i < run->cell_count && !warm; i++) {
        const results_cell *a = run->cells[i];
        if (isnan(finding_median_ms(a)) || number_of(a, PARAM_WARMUP) != 0)
            continue;
        for (int64_t j = 0; j < run->cell_count; j++) {
            const results_cell *b = run->cells[j];
            if (finding_differ_only_in(a, b, PARAM_WARMUP) && !isnan(finding_median_ms(b)) &&
                number_of(b, PARAM_WARMUP) > (warm ? number_of(warm, PARAM_WARMUP) : 0)) {
                cold = a;
                warm = b;
            }
        }
    }
    if (!warm)
        return;
    const results_series *steps = view_whole_steps(cold);
    double first = results_series_at(steps, 0) * view_ms_per_unit(steps->unit);
    text_format(
        out, " Without warm-up the first step takes %.2f times the median after %g warm-up steps",
        first / finding_median_ms(warm), number_of(warm, PARAM_WARMUP));
    if (!isnan(scatter_of(cold)) && !isnan(scatter_of(warm)))
        text_format(out, ", and std/mean is %.1f %% instead of %.1f %%", scatter_of(cold),
                    scatter_of(warm));
    text_append(out, ".");
}

void finding_append_recompute(const results *run, text *out) {
    const results_cell *from = NULL, *to = NULL;
    double best = 1;
    if (!view_parameter_varies(run, PARAM_RECOMPUTE) || run->cell_count > FINDING_MOST_CELLS)
        return;
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int64_t j = 0; j < run->cell_count; j++) {
            const results_cell *a = run->cells[i], *b = run->cells[j];
            double ratio = finding_peak_bytes(b) / finding_peak_bytes(a);
            if (strcmp(view_text(a, PARAM_RECOMPUTE), "none") == 0 && ratio < best &&
                finding_differ_only_in(a, b, PARAM_RECOMPUTE)) {
                best = ratio;
                from = a;
                to = b;
            }
        }
    if (!to)
        return;
    text_format(out, " Recomputing %s has a peak of %s, %.1f %% below that without",
                view_text(to, PARAM_RECOMPUTE), units_bytes((int64_t)finding_peak_bytes(to)).text,
                100 * (1 - best));
    double slower = finding_median_ms(to) / finding_median_ms(from);
    if (!isnan(slower))
        text_format(out, ", and a step takes %.2f times as long", slower);
    text_append(out, ".");
}
