#include "report/view_parts.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "measure/keys.h"

static bool list_has(const view_list *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}

bool view_is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

void view_list_add(view_list *list, const char *name, const char *unit) {
    if (list->count == VIEW_MOST_NAMES || list_has(list, name))
        return;
    list->units[list->count] = unit;
    list->names[list->count++] = name;
}

double view_ms_per_unit(const char *unit) {
    return strcmp(unit, "ns") == 0   ? 1e-6
           : strcmp(unit, "us") == 0 ? 1e-3
           : strcmp(unit, "ms") == 0 ? 1
           : strcmp(unit, "s") == 0  ? 1e3
                                     : (double)NAN;
}

void view_append_value(text *out, const results_value *value) {
    if (value->kind == RESULTS_TEXT)
        text_append(out, value->text);
    else if (value->kind == RESULTS_INTEGER)
        text_format(out, "%lld", (long long)value->integer);
    else
        text_format(out, "%g", value->real);
}

bool view_is_in_the_models_name(const results_cell *cell, const char *key) {
    static const char *const sizes[] = {PARAM_LAYERS,   PARAM_D_MODEL,  PARAM_D_FF,  PARAM_HEADS,
                                        PARAM_KV_HEADS, PARAM_HEAD_DIM, PARAM_VOCAB, NULL};
    return cell_find_parameter(cell, PARAM_MODEL) && view_is_one_of(key, sizes);
}

void view_describe_cell(const results_cell *cell, text *out) {
    bool is_first = true;
    for (int i = 0; i < cell->parameters.count; i++) {
        const results_entry *entry = &cell->parameters.entries[i];
        if (view_is_in_the_models_name(cell, entry->key))
            continue;
        text_format(out, "%s%s ", is_first ? "" : ", ", entry->key);
        view_append_value(out, &entry->value);
        is_first = false;
    }
}

void view_add_value(report_table *table, const results_value *value) {
    if (!value)
        table_add_empty(table);
    else if (value->kind == RESULTS_TEXT)
        table_add_text(table, value->text);
    else if (value->kind == RESULTS_INTEGER)
        table_add_integer(table, value->integer);
    else
        table_add_real(table, value->real, 4);
}

void view_add_three_digits(report_table *table, double value) {
    enum { LEAST = 3, MOST = 6 };
    int decimals = LEAST;
    for (double limit = 0.1; value > 0 && value < limit && decimals < MOST; limit /= 10)
        decimals++;
    table_add_real(table, value, decimals);
}

bool view_values_are_equal(const results_value *a, const results_value *b) {
    if (!a || !b || a->kind != b->kind)
        return false;
    return a->kind == RESULTS_TEXT      ? strcmp(a->text, b->text) == 0
           : a->kind == RESULTS_INTEGER ? a->integer == b->integer
                                        : !(a->real < b->real) && !(a->real > b->real);
}

void view_collect_parameters(const results *run, view_list *list) {
    for (int64_t i = 0; i < run->cell_count; i++)
        for (int j = 0; j < run->cells[i]->parameters.count; j++)
            view_list_add(list, run->cells[i]->parameters.entries[j].key, "");
}

bool view_parameter_varies(const results *run, const char *key) {
    const results_value *first = cell_find_parameter(run->cells[0], key);
    for (int64_t i = 1; i < run->cell_count; i++)
        if (!view_values_are_equal(first, cell_find_parameter(run->cells[i], key)))
            return true;
    return false;
}

static bool is_text(const results *run, const char *key) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_value *value = cell_find_parameter(run->cells[i], key);
        if (value && value->kind == RESULTS_TEXT)
            return true;
    }
    return false;
}

void view_add_parameter_column(const results *run, const char *name, const char *header,
                               report_table *table) {
    table_add_setting(table, name, header, is_text(run, name) ? TABLE_LEFT : TABLE_RIGHT);
}

void view_choose_parameters(const results *run, bool is_full, const char *const *always,
                            const char *const *never, view_list *chosen, text *title) {
    view_list all = {0};
    view_collect_parameters(run, &all);
    for (int i = 0; i < all.count; i++) {
        const char *name = all.names[i];
        if (view_is_one_of(name, never) ||
            (!is_full && view_is_in_the_models_name(run->cells[0], name)))
            continue;
        if (is_full || view_is_one_of(name, always) || view_parameter_varies(run, name)) {
            view_list_add(chosen, name, "");
        } else {
            text_format(title, ", %s ", name);
            view_append_value(title, cell_find_parameter(run->cells[0], name));
        }
    }
}

results_status view_trusted_status(const results_cell *cell, const results_series *whole,
                                   const char *asked_for) {
    const results_value *count = cell_find_parameter(cell, asked_for);
    if (cell->status != RESULTS_OK)
        return cell->status;
    bool is_whole = whole && whole->count > 0 &&
                    !(count && count->kind == RESULTS_INTEGER && whole->count < count->integer);
    return is_whole ? RESULTS_OK : RESULTS_INCOMPLETE;
}

const results_series *view_whole_steps(const results_cell *cell) {
    const results_series *step = cell_find_series(cell, SERIES_STEP);
    const results_value *pass = cell_find_parameter(cell, PARAM_PASS);
    if (!step && pass && pass->kind == RESULTS_TEXT)
        step = cell_find_series(cell, pass->text);
    return step;
}

results_status view_steps_status(const results_cell *cell) {
    return view_trusted_status(cell, view_whole_steps(cell), PARAM_STEPS);
}

const char *view_text(const results_cell *cell, const char *name) {
    const results_value *found = cell_find_parameter(cell, name);
    return found && found->kind == RESULTS_TEXT ? found->text : "";
}

double view_metric(const results_cell *cell, const char *name) {
    const results_metric *found = cell_find_metric(cell, name);
    return found ? results_number(&found->value) : (double)NAN;
}

static double environment_number(const results *run, const char *key) {
    return results_number(results_find_environment(run, key));
}

static bool is_bf16(const results_cell *cell) {
    return strcmp(view_text(cell, PARAM_MATH), "bf16") == 0;
}

double view_peak_gflops(const results *run, const results_cell *cell) {
    double own = view_metric(cell, METRIC_PEAK_GFLOPS);
    if (!isnan(own))
        return own;
    double bf16 = environment_number(run, ENV_PEAK_BF16_GFLOPS);
    return is_bf16(cell) && bf16 > 0 ? bf16 : environment_number(run, ENV_PEAK_GFLOPS);
}

double view_utilization(double flops, double seconds, double peak_gflops) {
    bool is_known = flops > 0 && seconds > 0 && peak_gflops > 0;
    return is_known ? 100 * flops / seconds / (peak_gflops * 1e9) : (double)NAN;
}

/* The peak of rows in bf16 or of the others; both ends where several runs measured it. */
static void append_peak(const results *run, bool of_bf16, double measured, text *out) {
    double least = measured, most = measured;
    for (int64_t i = 0; i < run->cell_count; i++) {
        double peak =
            is_bf16(run->cells[i]) == of_bf16 ? view_peak_gflops(run, run->cells[i]) : (double)NAN;
        least = peak < least ? peak : least;
        most = peak > most ? peak : most;
    }
    if (most - least < 0.05)
        text_format(out, "%.1f GFLOP/s", measured);
    else
        text_format(out, "%.1f to %.1f GFLOP/s, each part's own", least, most);
}

/* What 100 % are. */
static void note_peaks(const results *run, report_table *table) {
    double fp32 = environment_number(run, ENV_PEAK_GFLOPS),
           bf16 = environment_number(run, ENV_PEAK_BF16_GFLOPS);
    const results_value *by = results_find_environment(run, ENV_PEAK_BF16_BY);
    text of_fp32 = {0}, of_bf16 = {0};
    append_peak(run, false, fp32, &of_fp32);
    append_peak(run, true, bf16, &of_bf16);
    if (fp32 > 0)
        table_add_note(table, "peak = %s, measured here with fp32 FMAs in registers",
                       text_string(&of_fp32));
    else
        table_add_note(table, "peak = rate of large products in the row's math, measured on this "
                              "GPU");
    if (bf16 > 0)
        table_add_note(table, "peak of rows in bf16 = %s, measured here with %s",
                       text_string(&of_bf16),
                       by && by->kind == RESULTS_TEXT ? by->text : "products of bf16");
    text_release(&of_fp32);
    text_release(&of_bf16);
}

bool view_has_peak(const results *run) {
    bool has_peak = false;
    for (int64_t i = 0; i < run->cell_count; i++)
        has_peak = has_peak || view_peak_gflops(run, run->cells[i]) > 0;
    return has_peak;
}

void view_note_utilization(const results *run, const char *time, report_table *table) {
    if (!view_has_peak(run)) {
        if (run->cell_count)
            table_add_note(table, "no MFU and no HFU: no peak was measured (--peaks none)");
        return;
    }
    table_add_note(table,
                   "MFU %% = 100 x FLOP of the model / %s / peak; its products once, 2 M N K each, "
                   "causal attention half, backward twice the forward: the same for every mode, "
                   "attention and recompute",
                   time);
    table_add_note(table,
                   "HFU %% = 100 x FLOP that ran / %s / peak; every op of every launch, what is "
                   "computed again included",
                   time);
    note_peaks(run, table);
}

void view_append_note(text *out, const results_cell *cell) {
    double needed = view_metric(cell, METRIC_NEEDED_BYTES),
           available = view_metric(cell, METRIC_AVAILABLE_BYTES);
    bool has_sizes = cell->status == RESULTS_OOM && needed >= 0 && needed < 0x1p62 &&
                     available >= 0 && available < 0x1p62;
    if (has_sizes)
        text_format(out, "needs %s, there is %s", units_bytes((int64_t)needed).text,
                    units_bytes((int64_t)available).text);
    if (cell->reason[0])
        text_format(out, "%s%s", has_sizes ? "; " : "", cell->reason);
}

void view_note_split_launches(const results_cell *cell, report_table *table) {
    if (view_metric(cell, METRIC_SPLIT_LAUNCHES) > 0)
        table_add_note(
            table, "compiled, the loss head computes the loss and its gradients in one launch; "
                   "forward and backward each have its FLOPs of their kind, and its time in the "
                   "same proportion");
}

void view_add_interruption(const results *run, report_document *out) {
    if (run->is_complete)
        return;
    int64_t planned = run->planned_cells > run->cell_count ? run->planned_cells : run->cell_count;
    document_add_note(out, "incomplete: interrupted after %lld of %lld cells",
                      (long long)results_finished_cells(run), (long long)planned);
}

void view_append_origin(const results *run, text *out) {
    const results_value *gpu = results_find_environment(run, ENV_GPU),
                        *cpu = results_find_environment(run, ENV_CPU), *on = gpu ? gpu : cpu;
    text_append(out, run->verb);
    if (on && on->kind == RESULTS_TEXT)
        text_format(out, " on %s", on->text);
    text_format(out, ", %s", run->started);
}
