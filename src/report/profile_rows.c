#include "report/profile_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view_parts.h"

static double environment_number(const results *run, const char *key) {
    return results_number(results_find_environment(run, key));
}

static int column_index(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return i;
    return -1;
}

static int key_index(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->key_count; i++)
        if (strcmp(b->keys[i], name) == 0)
            return i;
    return -1;
}

profile_rows profile_rows_find(const results *run, const results_cell *cell,
                               const char *breakdown) {
    const results_breakdown *found = cell_find_breakdown(cell, breakdown);
    double gpu = environment_number(run, ENV_GPU_COPY_GBS);
    double copy =
        profile_is_on_cpu(cell) || isnan(gpu) ? environment_number(run, ENV_COPY_GBS) : gpu;
    double peak = view_peak_gflops(run, cell);
    return (profile_rows){.of = found,
                          .count = found ? found->row_count : 0,
                          .peak_flops = peak > 0 ? peak * 1e9 : (double)NAN,
                          .bandwidth = copy > 0 ? copy * 1e9 : (double)NAN};
}

double profile_rows_number(const profile_rows *rows, int64_t row, const char *column) {
    int at = rows->of ? column_index(rows->of, column) : -1;
    if (at < 0)
        return NAN;
    double value = results_number(&rows->of->rows[row].values[at]);
    double ms = view_ms_per_unit(rows->of->columns[at].unit);
    return isnan(ms) ? value : value * (ms * 1e6);
}

const char *profile_rows_text(const profile_rows *rows, int64_t row, const char *key) {
    int at = rows->of ? key_index(rows->of, key) : -1;
    return at < 0 ? "" : rows->of->rows[row].keys[at];
}

double profile_rows_sum(const profile_rows *rows, const char *column) {
    double sum = rows->count ? 0 : (double)NAN;
    for (int64_t i = 0; i < rows->count; i++)
        sum += profile_rows_number(rows, i, column);
    return sum;
}

double profile_rows_floor(const profile_rows *rows, int64_t row) {
    double moving = profile_rows_number(rows, row, COLUMN_BYTES) / rows->bandwidth;
    double computing = profile_rows_number(rows, row, COLUMN_FLOPS) / rows->peak_flops;
    return 1e9 * (moving > computing ? moving : computing + 0 * moving); /* NAN if either is */
}

bool profile_rows_is_bound_by_memory(const profile_rows *rows, int64_t row) {
    return profile_rows_number(rows, row, COLUMN_BYTES) / rows->bandwidth >
           profile_rows_number(rows, row, COLUMN_FLOPS) / rows->peak_flops;
}

double profile_rows_floor_of(const profile_rows *kinds, const char *key, const char *value) {
    double sum = 0;
    for (int64_t i = 0; i < kinds->count; i++)
        if (strcmp(profile_rows_text(kinds, i, key), value) == 0)
            sum += profile_rows_floor(kinds, i);
    return kinds->count ? sum : (double)NAN;
}

/* A text and how long launches with it took. */
typedef struct timed_text {
    const char *text;
    double ns;
} timed_text;

profile_main profile_rows_main(const profile_rows *kinds, const char *key, const char *value,
                               const char *wanted) {
    profile_main found = {.text = ""};
    timed_text *seen = NULL;
    int capacity = 0;
    for (int64_t i = 0; i < kinds->count; i++) {
        if (strcmp(profile_rows_text(kinds, i, key), value) != 0)
            continue;
        const char *here = profile_rows_text(kinds, i, wanted);
        int at = 0;
        while (at < found.count && strcmp(seen[at].text, here) != 0)
            at++;
        if (at == found.count) {
            MEMORY_GROW(seen, found.count, capacity);
            seen[found.count++] = (timed_text){here, 0};
        }
        seen[at].ns += profile_rows_number(kinds, i, COLUMN_TIME);
    }
    double most = -1;
    for (int i = 0; i < found.count; i++)
        if (seen[i].ns > most) {
            most = seen[i].ns;
            found.text = seen[i].text;
        }
    free(seen);
    return found;
}

double profile_phase_ns(const results *run, const results_cell *cell, const char *phase) {
    profile_rows phases = profile_rows_find(run, cell, BREAKDOWN_BY_PHASE);
    for (int64_t i = 0; i < phases.count; i++)
        if (strcmp(profile_rows_text(&phases, i, KEY_PHASE), phase) == 0)
            return profile_rows_number(&phases, i, COLUMN_TIME);
    return NAN;
}

bool profile_is_on_cpu(const results_cell *cell) {
    return strcmp(view_text(cell, PARAM_DEVICE), "cpu") == 0;
}

double profile_host_ns(const results_cell *cell) {
    const results_series *steps = view_whole_steps(cell);
    return steps ? statistics_of_series(steps).median * view_ms_per_unit(steps->unit) * 1e6
                 : (double)NAN;
}

double profile_device_number(const results *run, const results_cell *cell, const char *column) {
    profile_rows devices = profile_rows_find(run, cell, BREAKDOWN_DEVICES);
    double sum = NAN;
    for (int64_t i = 0; i < devices.count; i++)
        if (strcmp(profile_rows_text(&devices, i, KEY_PHASE), ROW_ALL_PHASES) == 0)
            sum = (isnan(sum) ? 0 : sum) + profile_rows_number(&devices, i, column);
    return sum;
}

bool profile_is_host_bound(const results *run, const results_cell *cell) {
    double busy = profile_device_number(run, cell, COLUMN_BUSY), host = profile_host_ns(cell);
    double span = profile_device_number(run, cell, COLUMN_SPAN);
    double median = profile_device_number(run, cell, COLUMN_SPAN_MEDIAN);
    if (median > 0 && span > 0) /* of the median step, as the host's time is */
        busy *= median / span;
    return !profile_is_on_cpu(cell) && busy > 0 && host > 0 && 1 - busy / host > PROFILE_IDLE_LIMIT;
}

bool profile_is_shown(const results_cell *cell) {
    return cell->status == RESULTS_OK && cell_find_breakdown(cell, BREAKDOWN_KINDS);
}

static bool is_unfinished(const results_cell *cell) {
    return cell->status == RESULTS_OK && !profile_is_shown(cell);
}

const char *profile_status_name(const results_cell *cell) {
    return results_status_name(is_unfinished(cell) ? RESULTS_INCOMPLETE : cell->status);
}

void profile_append_note(const results_cell *cell, text *out) {
    if (is_unfinished(cell))
        text_append(out, "timed, but not traced");
    else
        view_append_note(out, cell);
}

const char *profile_shown_by(const results *run) {
    const results_value *by = results_find_environment(run, ENV_SHOWN_BY);
    return by && by->kind == RESULTS_TEXT ? by->text : NULL;
}

int64_t profile_shown_number(const results *run, const char *key, int64_t fallback) {
    const results_value *value = results_find_environment(run, key);
    return value && value->kind == RESULTS_INTEGER && value->integer >= 0 ? value->integer
                                                                          : fallback;
}

bool profile_shows_tree(const results *run) {
    return profile_shown_number(run, ENV_SHOWN_TREE, 0) == 1;
}

void profile_append_cell(const results *run, const results_cell *cell, text *out) {
    static const char *const ALWAYS[] = {PARAM_MODEL, PARAM_CONTEXT, PARAM_PASS, PARAM_TRACE, NULL};
    static const char *const NEVER[] = {NULL};
    view_list chosen = {0};
    text others = {0};
    view_choose_parameters(run, false, ALWAYS, NEVER, &chosen, &others);
    text_release(&others);
    for (int i = 0; i < chosen.count; i++) {
        const results_value *value = cell_find_parameter(cell, chosen.names[i]);
        if (!value)
            continue;
        text_append(out, i ? ", " : "");
        if (value->kind != RESULTS_TEXT)
            text_format(out, "%s ", chosen.names[i]);
        view_append_value(out, value);
    }
}

report_table *profile_create_table(const results *run, const results_cell *cell, const char *title,
                                   bool is_full) {
    text label = {0};
    text_format(&label, "%s: ", title);
    profile_append_cell(run, cell, &label);
    report_table *table = table_create(text_string(&label));
    text_release(&label);
    for (int i = 0; is_full && i < cell->parameters.count; i++)
        table_add_setting(table, cell->parameters.entries[i].key, cell->parameters.entries[i].key,
                          TABLE_LEFT);
    if (is_full && !profile_is_foreign(cell)) {
        table_add_column(table, "status", "status", TABLE_LEFT);
        table_add_column(table, "note", "note", TABLE_LEFT);
    }
    return table;
}

void profile_add_row(const results_cell *cell, bool is_full, report_table *table) {
    table_add_row(table);
    if (!is_full)
        return;
    for (int i = 0; i < table->column_count && table->columns[i].is_setting; i++)
        view_add_value(table, cell_find_parameter(cell, table->columns[i].key));
    if (profile_is_foreign(cell))
        return;
    text note = {0};
    profile_append_note(cell, &note);
    table_add_text(table, profile_status_name(cell));
    table_add_text(table, text_string(&note));
    text_release(&note);
}

void profile_add_every_cell(const results *run, const profile_part *part, report_document *out) {
    const results_cell *widest = NULL;
    for (int64_t i = 0; i < run->cell_count; i++)
        if (!widest || run->cells[i]->parameters.count > widest->parameters.count)
            widest = run->cells[i];
    if (!widest)
        return;
    report_table *t = profile_create_table(run, widest, part->title, true);
    part->add_columns(part, t);
    for (int64_t i = 0; i < run->cell_count; i++)
        if (profile_is_shown(run->cells[i]))
            part->add_rows(part, run->cells[i], t);
        else
            profile_add_row(run->cells[i], true, t);
    document_add_table(out, t);
}
