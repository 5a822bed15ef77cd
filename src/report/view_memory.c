/* view_memory.c - the tables of verb "memory": the grid of peaks, then the parts that were asked for. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "measure/keys.h"
#include "report/view.h"
#include "report/view_memory.h"
#include "report/view_parts.h"
#include "report/view_ways.h"

static const double MIB = 0x1p20;

/* ---- what the parts share ---- */

static const struct {
    const char *name;
    table_alignment alignment;
} SETTINGS[] = {
    {PARAM_MODEL, TABLE_LEFT},       {PARAM_CONTEXT, TABLE_RIGHT},  {PARAM_BATCH, TABLE_RIGHT},
    {PARAM_ACCUMULATE, TABLE_RIGHT}, {PARAM_RANKS, TABLE_RIGHT},    {PARAM_PARALLEL, TABLE_LEFT},
    {PARAM_PASS, TABLE_LEFT},        {PARAM_MODE, TABLE_LEFT},      {PARAM_MATH, TABLE_LEFT},
    {PARAM_ATTENTION, TABLE_LEFT},   {PARAM_RECOMPUTE, TABLE_LEFT}, {PARAM_DEVICE, TABLE_LEFT}};
enum { SETTING_COUNT = sizeof SETTINGS / sizeof *SETTINGS };

void view_memory_append_cell(const results_cell *cell, text *out) {
    text_format(out, "%s, context %lld, %s, %s %s", view_text(cell, PARAM_MODEL),
                (long long)view_parameter_number(cell, PARAM_CONTEXT), view_text(cell, PARAM_PASS),
                view_text(cell, PARAM_MODE), view_text(cell, PARAM_MATH));
    const char *recompute = view_text(cell, PARAM_RECOMPUTE);
    if (strcmp(view_text(cell, PARAM_MODE), "compiled") == 0 &&
        strcmp(view_text(cell, PARAM_ATTENTION), "naive") == 0)
        text_append(out, ", naive attention");
    if (*recompute && strcmp(recompute, "none") != 0)
        text_format(out, ", recompute %s", recompute);
}

static void add_setting_columns(report_table *t) {
    for (int i = 0; i < SETTING_COUNT; i++)
        table_add_setting(t, SETTINGS[i].name, SETTINGS[i].name, SETTINGS[i].alignment);
}

report_table *view_memory_begin_table(const results_cell *cell, const char *what) {
    text title = {0};
    if (cell)
        view_memory_append_cell(cell, &title);
    text_format(&title, "%s%s", cell ? ": " : "", what);
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    if (!cell) {
        add_setting_columns(t);
        table_add_setting(t, "status", "status", TABLE_LEFT);
        table_add_column(t, "note", "note", TABLE_LEFT);
    }
    return t;
}

static void add_settings(report_table *t, const results_cell *cell) {
    for (int i = 0; i < SETTING_COUNT; i++)
        view_add_value(t, cell_find_parameter(cell, SETTINGS[i].name));
}

static void add_note(report_table *t, const results_cell *cell) {
    text note = {0};
    view_append_note(&note, cell);
    table_add_text(t, text_string(&note));
    text_release(&note);
}

void view_memory_begin_row(report_table *t, const results_cell *cell, bool is_full) {
    table_add_row(t);
    if (!is_full)
        return;
    add_settings(t, cell);
    table_add_text(t, results_status_name(cell->status));
    add_note(t, cell);
}

double view_memory_value(const results_breakdown *b, int64_t row, const char *column) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, column) == 0)
            return results_number(&b->rows[row].values[i]);
    return NAN;
}

/* ---- the grid ---- */

/* The plan of a cell that ran out of memory is as good as any. */
static bool is_planned(const results_cell *cell) {
    return cell_find_metric(cell, METRIC_PREDICTED_RESERVED_BYTES) != NULL;
}

static bool has_metric(const results *run, const char *name) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (cell_find_metric(run->cells[i], name))
            return true;
    return false;
}

static bool has_notes(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (run->cells[i]->status != RESULTS_OK)
            return true;
    return false;
}

static const struct {
    const char *metric, *key, *header;
} AT_PEAK[] = {{METRIC_AT_PEAK_PREFIX "parameter", "weights_mib", "weights MiB"},
               {METRIC_AT_PEAK_PREFIX "gradient", "gradients_mib", "gradients MiB"},
               {METRIC_AT_PEAK_PREFIX "optimizer-state", "state_mib", "state MiB"},
               {METRIC_AT_PEAK_PREFIX "saved", "saved_mib", "saved MiB"},
               {METRIC_AT_PEAK_PREFIX "activation", "activations_mib", "activations MiB"},
               {METRIC_AT_PEAK_PREFIX "workspace", "workspace_mib", "workspace MiB"}};
enum { AT_PEAK_COUNT = sizeof AT_PEAK / sizeof *AT_PEAK };

/* A file has the same columns for every grid, whatever varies in it. */
static void add_grid_columns(const results *run, bool is_full, report_table *t) {
    if (is_full) {
        add_setting_columns(t);
    } else {
        table_add_setting(t, "model", "model", TABLE_LEFT);
        table_add_setting(t, "context", "context", TABLE_RIGHT);
        view_add_way_columns(run, t);
        table_add_setting(t, "pass", "pass", TABLE_LEFT);
    }
    for (int i = 0; i < AT_PEAK_COUNT; i++)
        table_add_column(t, AT_PEAK[i].key, AT_PEAK[i].header, TABLE_RIGHT);
    table_add_column(t, "peak_mib", "peak MiB", TABLE_RIGHT);
    table_add_column(t, "reserved_mib", "reserved MiB", TABLE_RIGHT);
    table_add_column(t, "gaps", "% gaps", TABLE_RIGHT);
    if (has_metric(run, METRIC_TENSOR_BYTES)) {
        table_add_column(t, "measured_peak_mib", "measured peak MiB", TABLE_RIGHT);
        table_add_column(t, "measured_reserved_mib", "measured reserved MiB", TABLE_RIGHT);
        table_add_column(t, "difference", "measured - predicted B", TABLE_RIGHT);
    }
    table_add_setting(t, "status", "status", TABLE_LEFT);
    if (has_notes(run))
        table_add_column(t, "note", "note", TABLE_LEFT);
    if (is_full) {
        table_add_column(t, "residual", "residual stream", TABLE_LEFT);
        table_add_column(t, "residual_bytes", "residual stream B", TABLE_RIGHT);
        table_add_column(t, "saved_bytes", "saved for backward B", TABLE_RIGHT);
    }
    table_add_column(t, "peak_at", "peak at", TABLE_LEFT);
}

/* Of the range that the pool holds, what no value takes at the fullest moment, rounding apart. */
static double gaps_of(const results_cell *cell) {
    double reserved = view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES);
    double blocks = view_metric(cell, METRIC_BLOCK_BYTES);
    return reserved > 0 ? 100 * (reserved - blocks) / reserved : NAN;
}

static void add_measured(const results_cell *cell, report_table *t) {
    bool is_measured = cell->status == RESULTS_OK;
    double reserved = is_measured ? view_metric(cell, METRIC_RESERVED_BYTES) : NAN;
    double peak = is_measured ? view_metric(cell, METRIC_TENSOR_BYTES) : NAN;
    table_add_real(t, peak / MIB, 1);
    table_add_real(t, reserved / MIB, 1);
    view_add_whole(t, reserved - view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES));
}

static void add_grid_row(const results *run, const results_cell *cell, bool is_full,
                         report_table *t) {
    table_add_row(t);
    if (is_full) {
        add_settings(t, cell);
    } else {
        table_add_text(t, view_text(cell, PARAM_MODEL));
        table_add_integer(t, view_parameter_number(cell, PARAM_CONTEXT));
        view_add_ways(cell, t);
        table_add_text(t, view_text(cell, PARAM_PASS));
    }
    for (int i = 0; i < AT_PEAK_COUNT; i++)
        table_add_real(t, view_metric(cell, AT_PEAK[i].metric) / MIB, 1);
    table_add_real(t, view_metric(cell, METRIC_ALIVE_BYTES) / MIB, 1);
    table_add_real(t, view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES) / MIB, 1);
    table_add_real(t, gaps_of(cell), 1);
    if (has_metric(run, METRIC_TENSOR_BYTES))
        add_measured(cell, t);
    table_add_text(t, results_status_name(cell->status));
    if (has_notes(run))
        add_note(t, cell);
    if (is_full) {
        table_add_text(t, view_text(cell, PARAM_RESIDUAL));
        view_add_whole(t, view_metric(cell, METRIC_RESIDUAL_BYTES));
        view_add_whole(t, view_metric(cell, METRIC_SAVED_BYTES));
    }
    table_add_text(t, view_text(cell, PARAM_PEAK_AT));
}

static void add_grid_notes(const results *run, report_table *t) {
    double limit = NAN;
    for (int64_t i = 0; i < run->cell_count && !(limit > 0); i++)
        limit = view_metric(run->cells[i], METRIC_MEMORY_BYTES);
    table_add_note(t,
                   "by role: bytes alive at the peak. peak: their sum, inputs included. reserved: "
                   "what the allocator holds for it, predicted by running its policy%s",
                   has_metric(run, METRIC_TENSOR_BYTES)
                       ? "; measured: bytes of tensors, and what the pool reserved, in a step that "
                         "ran"
                       : "");
    const results_value *chip = results_find_environment(run, ENV_PLANNED_CHIP);
    bool is_of_chip = chip && chip->kind == RESULTS_TEXT;
    if (limit > 0)
        table_add_note(t, "the limit is %s%s%s%s; a step that reserves more is OOM",
                       units_bytes(view_whole(limit)).text, is_of_chip ? " (" : "",
                       is_of_chip ? chip->text : "", is_of_chip ? ")" : "");
}

static void add_grid(const results *run, bool is_full, report_document *out) {
    text title = {0};
    text_append(&title, "memory: ");
    view_append_common_ways(run, &title);
    report_table *t = table_create(text_string(&title));
    text_release(&title);
    add_grid_columns(run, is_full, t);
    static const char *const importance[] = {"reserved_mib",
                                             "status",
                                             "peak_mib",
                                             "measured_reserved_mib",
                                             "difference",
                                             "note",
                                             "saved_mib",
                                             "weights_mib",
                                             "state_mib",
                                             "gradients_mib",
                                             TABLE_OTHERS,
                                             "peak_at",
                                             NULL};
    table_set_importance(t, importance);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_grid_row(run, run->cells[i], is_full, t);
    add_grid_notes(run, t);
    document_add_table(out, t);
}

/* ---- sentences about a single cell ---- */

static void add_sentences(const results_cell *cell, report_document *out) {
    double residual = view_metric(cell, METRIC_RESIDUAL_BYTES);
    double alive = view_metric(cell, METRIC_ALIVE_BYTES);
    double blocks = view_metric(cell, METRIC_BLOCK_BYTES);
    double reserved = view_metric(cell, METRIC_PREDICTED_RESERVED_BYTES);
    if (!is_planned(cell))
        return;
    document_add_note(out, "one tensor of the residual stream: %s = %s",
                      view_text(cell, PARAM_RESIDUAL), units_bytes(view_whole(residual)).text);
    document_add_note(out,
                      "reserved %.1f MiB = %.1f of values at the peak + %.3f rounding to blocks of "
                      "the allocator + %.1f gaps between them",
                      reserved / MIB, alive / MIB, (blocks - alive) / MIB,
                      (reserved - blocks) / MIB);
}

/* Without the grid nothing else tells of a cell that has no plan. */
static void add_unplanned(const results *run, report_document *out) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (is_planned(cell))
            continue;
        text line = {0};
        view_memory_append_cell(cell, &line);
        text_format(&line, ": %s ", results_status_name(cell->status));
        view_append_note(&line, cell);
        document_add_note(out, "%s", text_string(&line));
        text_release(&line);
    }
}

/* ---- all of it ---- */

static const struct {
    const char *name;
    view_memory_part *append;
} PARTS[] = {{"timeline", view_memory_timeline},       {"peak", view_memory_peak},
             {"allocations", view_memory_allocations}, {"saved", view_memory_saved},
             {"blocks", view_memory_blocks},           {"advice", view_memory_advice}};
enum { PART_COUNT = sizeof PARTS / sizeof *PARTS };

/* Whether the comma-separated list has the name. */
static bool has_part(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* A file may name no part that there is. */
static bool has_known_part(const char *list) {
    bool found = false;
    for (int i = 0; i < PART_COUNT; i++)
        found = found || has_part(list, PARTS[i].name);
    return found;
}

void view_memory(const results *run, bool is_full, report_document *out) {
    if (!run->cell_count) {
        view_general(run, is_full, out);
        return;
    }
    const char *parts = view_text(run->cells[0], PARAM_PART);
    bool has_grid = !has_known_part(parts) || has_part(parts, "grid");
    if (has_grid) {
        add_grid(run, is_full, out);
        if (run->cell_count == 1)
            add_sentences(run->cells[0], out);
    }
    for (int i = 0; i < PART_COUNT; i++)
        if (has_part(parts, PARTS[i].name))
            PARTS[i].append(run, is_full, out);
    if (!has_grid && !is_full)
        add_unplanned(run, out);
    view_add_interruption(run, out);
}
