/* view_compare.c - two runs side by side: a row for each cell, and what else differs. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/compare.h"
#include "report/view_parts.h"

static const char *const IMPORTANCE[] = {"verdict", "ratio",  "a_ms",       "b_ms", "low",
                                         "high",    "memory", TABLE_OTHERS, "note", NULL};

static const char *time_verdict(const compare_row *row) {
    static const char *const names[] = {[COMPARE_NONE] = "",
                                        [COMPARE_UNDECIDED] = "UNDECIDED",
                                        [COMPARE_SAME] = "SAME",
                                        [COMPARE_BETTER] = "FASTER",
                                        [COMPARE_WORSE] = "SLOWER"};
    return !row->a || !row->b ? "ONLY ONE" : row->is_broken ? "BROKEN" : names[row->of_time];
}

static const char *count_verdict(compare_verdict verdict) {
    return verdict == COMPARE_WORSE    ? "MORE"
           : verdict == COMPARE_BETTER ? "LESS"
           : verdict == COMPARE_SAME   ? "SAME"
                                       : "";
}

static void add_note(const compare_row *row, report_table *table) {
    text note = {0};
    text_append(&note, "");
    if (!row->b)
        text_append(&note, "only in A");
    else if (!row->a)
        text_append(&note, "only in B");
    else if (row->a->status != RESULTS_OK || row->b->status != RESULTS_OK) {
        text_format(&note, "%s in A, %s in B", results_status_name(row->a->status),
                    results_status_name(row->b->status));
        const results_cell *not_ok = row->b->status != RESULTS_OK ? row->b : row->a;
        text why = {0};
        view_append_note(&why, not_ok);
        if (why.length)
            text_format(&note, ": %s", text_string(&why));
        text_release(&why);
    }
    table_add_text(table, text_string(&note));
    text_release(&note);
}

static double mib(const results_cell *cell) {
    return cell && cell->status == RESULTS_OK ? view_metric(cell, METRIC_PEAK_BYTES) / 0x1p20
                                              : (double)NAN;
}

static void add_row(const comparison *of, const compare_row *row, const view_list *parameters,
                    bool is_full, report_table *table) {
    const results_cell *named = row->a ? row->a : row->b;
    table_add_row(table);
    for (int i = 0; i < parameters->count; i++)
        view_add_value(table, cell_find_parameter(named, parameters->names[i]));
    table_add_text(table, time_verdict(row));
    table_add_real(table, row->time.ratio, 3);
    table_add_real(table, row->time.low, 3);
    table_add_real(table, row->time.high, 3);
    view_add_three_digits(table, row->a_ms);
    view_add_three_digits(table, row->b_ms);
    if (is_full || of->a->count > 1 || of->b->count > 1) {
        table_add_integer(table, row->a_rounds);
        table_add_integer(table, row->b_rounds);
    }
    table_add_text(table, count_verdict(row->of_memory));
    table_add_real(table, mib(row->a), 1);
    table_add_real(table, mib(row->b), 1);
    table_add_text(table, count_verdict(row->of_launches));
    table_add_real(table, row->a ? view_metric(row->a, METRIC_LAUNCHES) : (double)NAN, 0);
    table_add_real(table, row->b ? view_metric(row->b, METRIC_LAUNCHES) : (double)NAN, 0);
    add_note(row, table);
}

static void add_columns(const comparison *of, const view_list *parameters, bool is_full,
                        report_table *table) {
    for (int i = 0; i < parameters->count; i++)
        view_add_parameter_column(of->a->runs[0], parameters->names[i], parameters->names[i],
                                  table);
    table_add_column(table, "verdict", "verdict", TABLE_LEFT);
    table_add_column(table, "ratio", "B/A", TABLE_RIGHT);
    table_add_column(table, "low", "from", TABLE_RIGHT);
    table_add_column(table, "high", "to", TABLE_RIGHT);
    table_add_column(table, "a_ms", "A ms", TABLE_RIGHT);
    table_add_column(table, "b_ms", "B ms", TABLE_RIGHT);
    if (is_full || of->a->count > 1 || of->b->count > 1) {
        table_add_column(table, "a_rounds", "A rounds", TABLE_RIGHT);
        table_add_column(table, "b_rounds", "B rounds", TABLE_RIGHT);
    }
    table_add_column(table, "memory", "memory", TABLE_LEFT);
    table_add_column(table, "a_peak_mib", "A peak MiB", TABLE_RIGHT);
    table_add_column(table, "b_peak_mib", "B peak MiB", TABLE_RIGHT);
    table_add_column(table, "launches", "launches", TABLE_LEFT);
    table_add_column(table, "a_launches", "A launches", TABLE_RIGHT);
    table_add_column(table, "b_launches", "B launches", TABLE_RIGHT);
    table_add_column(table, "note", "note", TABLE_LEFT);
    table_set_importance(table, IMPORTANCE);
}

static void append_pair(text *out, const char *key, const results_value *a,
                        const results_value *b) {
    text_format(out, "%s%s ", out->length ? "; " : "", key);
    if (a)
        view_append_value(out, a);
    else
        text_append(out, "unknown");
    text_append(out, " in A, ");
    if (b)
        view_append_value(out, b);
    else
        text_append(out, "unknown");
    text_append(out, " in B");
}

static void append_differences(const results *a, const results *b, const char *const *keys,
                               text *out) {
    for (; *keys; keys++) {
        const results_value *of_a = results_find_environment(a, *keys),
                            *of_b = results_find_environment(b, *keys);
        if ((of_a || of_b) && !view_values_are_equal(of_a, of_b))
            append_pair(out, *keys, of_a, of_b);
    }
}

static void note_environment(const comparison *of, report_table *table) {
    static const char *const machine[] = {ENV_CPU,
                                          ENV_GPU,
                                          ENV_DEVICE,
                                          ENV_CORES_AVAILABLE,
                                          ENV_MEMORY_TOTAL_BYTES,
                                          ENV_FREQUENCY_GOVERNOR,
                                          ENV_KERNEL,
                                          ENV_CUDA_DRIVER,
                                          ENV_THREADS,
                                          ENV_TARGET,
                                          NULL};
    static const char *const versions[] = {ENV_DYNO_VERSION, ENV_DYNO_REVISION, ENV_COMPILER,
                                           ENV_ONEDNN,       ENV_CUDA_RUNTIME,  NULL};
    const results *a = of->a->runs[0], *b = of->b->runs[0];
    text said = {0};
    append_differences(a, b, machine, &said);
    if (said.length)
        table_add_note(table,
                       "warning: the machines differ, and the ratio is of the programs and the "
                       "machines together: %s",
                       text_string(&said));
    said.length = 0;
    append_differences(a, b, versions, &said);
    if (said.length)
        table_add_note(table, "versions differ: %s", text_string(&said));
    text_release(&said);
}

static void note_what_is_compared(const comparison *of, report_table *table) {
    const results *a = of->a->runs[0], *b = of->b->runs[0];
    text said = {0};
    for (int i = 0; i < a->cells[0]->parameters.count; i++) {
        const char *key = a->cells[0]->parameters.entries[i].key;
        if (comparison_is_between(of, key))
            append_pair(&said, key, cell_find_parameter(a->cells[0], key),
                        cell_find_parameter(b->cells[0], key));
    }
    if (said.length)
        table_add_note(table, "compared are different settings: %s", text_string(&said));
    text_release(&said);
}

static void note_rounds(const comparison *of, report_table *table) {
    const compare_options *o = &of->options;
    int rounds = of->a->count < of->b->count ? of->a->count : of->b->count;
    table_add_note(table,
                   "B/A: typical step of B / of A, with the interval that holds it with %g %% "
                   "confidence in all rows together; %s",
                   100 * o->confidence,
                   of->is_paired ? "rounds were run in turns and are compared pair by pair"
                   : rounds > 1  ? "rounds of the two are resampled apart"
                                 : "steps of one run each are resampled");
    if (rounds < COMPARE_ENOUGH_ROUNDS)
        table_add_note(table,
                       "fewer than %d rounds a side do not tell how much two runs of one program "
                       "differ: intervals are %g %% wider on each side (--between-runs); dyno "
                       "compare --run measures it",
                       COMPARE_ENOUGH_ROUNDS, 100 * o->between_runs);
    table_add_note(table,
                   "SLOWER and FASTER: by %g %% or more, and the interval excludes 1; SAME: the "
                   "interval is within %g %%; UNDECIDED: more rounds or an idle machine would tell",
                   100 * o->threshold, 100 * o->threshold);
}

/* A record that ended early says nothing of the rows that it lacks. */
static void note_incomplete(const run_set *side, const char *name, report_document *out) {
    for (int i = 0; i < side->count; i++)
        if (!side->runs[i]->is_complete) {
            document_add_note(out, "%s is incomplete: it ended after %lld of %lld cells", name,
                              (long long)results_finished_cells(side->runs[i]),
                              (long long)side->runs[i]->planned_cells);
            return;
        }
}

static void note_counts(const comparison *of, report_document *out) {
    int64_t counts[COMPARE_WORSE + 1] = {0}, broken = 0, more = 0, only_a = 0, only_b = 0;
    for (int64_t i = 0; i < of->count; i++) {
        only_a += !of->rows[i].b;
        only_b += !of->rows[i].a;
        counts[of->rows[i].of_time]++;
        broken += of->rows[i].is_broken;
        more += of->rows[i].of_memory == COMPARE_WORSE;
    }
    text said = {0};
    text_format(&said, "%lld slower, %lld faster, %lld the same, %lld undecided",
                (long long)counts[COMPARE_WORSE], (long long)counts[COMPARE_BETTER],
                (long long)counts[COMPARE_SAME], (long long)counts[COMPARE_UNDECIDED]);
    if (more)
        text_format(&said, ", %lld with more memory", (long long)more);
    if (broken)
        text_format(&said, ", %lld that ran in A and does not in B", (long long)broken);
    if (only_a)
        text_format(&said, ", %lld only in A", (long long)only_a);
    if (only_b)
        text_format(&said, ", %lld only in B", (long long)only_b);
    document_add_note(out, "%s", text_string(&said));
    text_release(&said);
    note_incomplete(of->a, "A", out);
    note_incomplete(of->b, "B", out);
}

/* In a file every parameter of A is a column; elsewhere those that tell rows apart are, and `common` says what
 * holds for all rows of both sides. */
static void choose_parameters(const comparison *of, bool is_full, view_list *chosen, text *common) {
    const results *a = of->a->runs[0];
    static const char *const always[] = {NULL};
    static const char *const measured[] = {PARAM_STEPS,      PARAM_SEED, PARAM_REPS,
                                           PARAM_TILES_USED, PARAM_FITS, PARAM_PEAK_AT,
                                           PARAM_FITS_WITH,  NULL};
    view_list all = {0}, never = {0};
    for (int i = 0; measured[i]; i++)
        view_list_add(&never, measured[i], "");
    view_collect_parameters(a, &all);
    for (int i = 0; i < all.count && !is_full; i++)
        if (comparison_is_between(of, all.names[i]))
            view_list_add(&never, all.names[i], "");
    const char *names[VIEW_MOST_NAMES + 1] = {NULL};
    memcpy(names, never.names, (size_t)never.count * sizeof *names);
    view_choose_parameters(a, is_full, always, names, chosen, common);
}

report_document *comparison_create_document(const comparison *of, const char *a_name,
                                            const char *b_name, bool is_full) {
    report_document *document = document_create(NULL);
    text title = {0}, rest = {0};
    view_list parameters = {0};
    text_format(&title, "%s: A is %s, B is %s", of->a->runs[0]->verb, a_name, b_name);
    choose_parameters(of, is_full, &parameters, &rest);
    report_table *table = table_create(text_string(&title));
    text_release(&title);
    add_columns(of, &parameters, is_full, table);
    for (int64_t i = 0; i < of->count; i++)
        add_row(of, &of->rows[i], &parameters, is_full, table);
    note_rounds(of, table);
    if (rest.length)
        table_add_note(table, "all rows: %s", text_string(&rest) + strlen(", "));
    text_release(&rest);
    note_what_is_compared(of, table);
    note_environment(of, table);
    document_add_table(document, table);
    note_counts(of, document);
    return document;
}
