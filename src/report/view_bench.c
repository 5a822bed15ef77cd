/* view_bench.c - verb "bench": a row for each cell, and one for each phase of its steps. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view.h"
#include "report/view_parts.h"

static const char *const LEADING[] = {PARAM_MODEL,  PARAM_CONTEXT, PARAM_BATCH,
                                      PARAM_WARMUP, PARAM_PASS,    NULL};
static const char *const LEADING_HEADER[] = {"model", "context tokens", "batch", "warm-up steps",
                                             "pass"};
enum { LEADING_COUNT = 5 };

typedef struct bench_view {
    const results *run;
    report_table *table;
    view_list others; /* parameters beyond the leading ones that have a column */
    bool is_full;     /* every column: CSV */
    bool has_device;  /* cells have device_used_bytes: those of a GPU */
    bool has_records; /* cells have device_busy_ns: a GPU kept records */
} bench_view;

static void add_leading(const bench_view *view, const results_cell *cell, const char *pass) {
    table_add_row(view->table);
    for (int i = 0; i < LEADING_COUNT; i++) {
        if (pass && strcmp(LEADING[i], PARAM_PASS) == 0)
            table_add_text(view->table, pass);
        else
            view_add_value(view->table, cell_find_parameter(cell, LEADING[i]));
    }
    for (int i = 0; i < view->others.count; i++)
        view_add_value(view->table, cell_find_parameter(cell, view->others.names[i]));
}

/* What one row is about. */
typedef struct bench_work {
    double tokens, flops, model_flops; /* NAN: does not apply */
} bench_work;

static void add_timing(const bench_view *view, const results_cell *cell,
                       const results_series *series, const bench_work *work) {
    double ms = view_ms_per_unit(series->unit);
    statistics s = statistics_of_series(series);
    double peak = view_peak_gflops(view->run, cell);
    double seconds = s.median * ms / 1e3;
    table_add_real(view->table, s.mean * ms, 2);
    table_add_real(view->table, s.std * ms, 2);
    table_add_real(view->table, s.median * ms, 2);
    table_add_real(view->table, s.min * ms, 2);
    table_add_real(view->table, s.max * ms, 2);
    table_add_real(view->table, seconds > 0 ? work->tokens / seconds : (double)NAN, 0);
    table_add_real(view->table, seconds > 0 ? work->flops / seconds / 1e9 : (double)NAN, 1);
    table_add_real(view->table, view_utilization(work->model_flops, seconds, peak), 1);
    table_add_real(view->table, view_utilization(work->flops, seconds, peak), 1);
}

static void add_gap(const bench_view *view, int count) {
    for (int i = 0; i < count; i++)
        table_add_empty(view->table);
}

enum { FORWARD, BACKWARD, OPTIMIZER, BOTH };

/* Updates are no arithmetic of the model. */
static bench_work work_of_phase(const results_cell *cell, int phase) {
    bench_work work = {.tokens = (double)NAN, .model_flops = (double)NAN};
    work.flops = view_metric(cell, phase == FORWARD     ? METRIC_FORWARD_FLOPS
                                   : phase == OPTIMIZER ? METRIC_OPTIMIZER_FLOPS
                                                        : METRIC_BACKWARD_FLOPS);
    if (phase == BOTH)
        work.flops += view_metric(cell, METRIC_OPTIMIZER_FLOPS);
    if (phase != OPTIMIZER)
        work.model_flops = view_metric(cell, phase == FORWARD ? METRIC_MODEL_FORWARD_FLOPS
                                                              : METRIC_MODEL_BACKWARD_FLOPS);
    return work;
}

static void add_phase_rows(const bench_view *view, const results_cell *cell) {
    static const char *const phases[] = {SERIES_FORWARD, SERIES_BACKWARD, SERIES_OPTIMIZER,
                                         SERIES_BACKWARD_OPTIMIZER};
    const results_series *whole = view_whole_steps(cell);
    const char *pass_name = view_text(cell, PARAM_PASS);
    for (int i = 0; i <= BOTH; i++) {
        const results_series *phase = cell_find_series(cell, phases[i]);
        bool is_the_pass = strcmp(phases[i], pass_name) == 0;
        if (!phase || phase == whole || is_the_pass || phase->count != whole->count)
            continue;
        text label = {0};
        if (strcmp(pass_name, "forward+backward") != 0 || i != BACKWARD)
            text_format(&label, "%s: ", pass_name);
        text_append(&label, phases[i]);
        bench_work work = work_of_phase(cell, i);
        add_leading(view, cell, text_string(&label));
        table_add_text(view->table, results_status_name(RESULTS_OK));
        table_add_empty(view->table);
        add_timing(view, cell, phase, &work);
        text_release(&label);
    }
}

/* Of a step as the GPU saw it, from its first launch to its last. */
static void add_busy(const bench_view *view, const results_cell *cell, bool is_ok) {
    double busy =
        view_metric(cell, METRIC_DEVICE_BUSY_NS) / view_metric(cell, METRIC_DEVICE_SPAN_NS);
    table_add_real(view->table, is_ok ? 100 * busy : (double)NAN, 2);
    table_add_real(view->table, is_ok ? 100 * (1 - busy) : (double)NAN, 2);
}

static void add_bench_rows(const bench_view *view, const results_cell *cell) {
    report_table *table = view->table;
    results_status status = view_steps_status(cell);
    add_leading(view, cell, NULL);
    table_add_text(table, results_status_name(status));
    if (status == RESULTS_OK) {
        const results_series *warmup = cell_find_series(cell, SERIES_WARMUP);
        if (warmup)
            table_add_real(table,
                           statistics_of_series(warmup).total * view_ms_per_unit(warmup->unit), 2);
        else
            table_add_empty(table);
        bench_work work = {view_metric(cell, METRIC_TOKENS), view_metric(cell, METRIC_FLOPS),
                           view_metric(cell, METRIC_MODEL_FLOPS)};
        add_timing(view, cell, view_whole_steps(cell), &work);
        table_add_real(table, view_metric(cell, METRIC_PEAK_BYTES) / 0x1p20, 1);
    } else {
        add_gap(view, 11);
    }
    bool is_ok = status == RESULTS_OK;
    if (view->has_device)
        table_add_real(
            table, is_ok ? view_metric(cell, METRIC_DEVICE_USED_BYTES) / 0x1p20 : (double)NAN, 1);
    if (view->has_records)
        add_busy(view, cell, is_ok);
    if (view->is_full) {
        table_add_real(table, view_metric(cell, METRIC_PREDICTED_BYTES) / 0x1p20, 1);
        table_add_real(table, is_ok ? view_metric(cell, METRIC_RSS_BYTES) / 0x1p20 : (double)NAN,
                       1);
        table_add_real(table, view_metric(cell, METRIC_SETUP_NS) / 1e6, 2);
        table_add_real(table, view_metric(cell, METRIC_FIRST_STEP_NS) / 1e6, 2);
    }
    text note = {0};
    view_append_note(&note, cell);
    table_add_text(table, text_string(&note));
    text_release(&note);
    if (status == RESULTS_OK)
        add_phase_rows(view, cell);
}

static void add_bench_columns(bench_view *view) {
    static const struct {
        const char *key, *header;
        enum { ALL, GPUS, RECORDS, FILES } who;
    } columns[] = {{"warmup_ms", "warm-up ms", ALL},
                   {"mean_ms", "mean ms", ALL},
                   {"std_ms", "std ms", ALL},
                   {"median_ms", "median ms", ALL},
                   {"min_ms", "min ms", ALL},
                   {"max_ms", "max ms", ALL},
                   {"tokens_per_s", "tokens/s", ALL},
                   {"gflops", "GFLOP/s", ALL},
                   {"mfu_percent", "MFU %", ALL},
                   {"hfu_percent", "HFU %", ALL},
                   {"peak_mib", "peak MiB", ALL},
                   {"device_used_mib", "in use on the GPU MiB", GPUS},
                   {"device_busy_percent", "GPU busy %", RECORDS},
                   {"device_idle_percent", "GPU idle %", RECORDS},
                   {"predicted_mib", "predicted MiB", FILES},
                   {"rss_mib", "RSS MiB", FILES},
                   {"setup_ms", "setup ms", FILES},
                   {"first_step_ms", "first step ms", FILES}};
    for (int i = 0; i < LEADING_COUNT; i++)
        table_add_column(view->table, LEADING[i], LEADING_HEADER[i],
                         i == 0 || i == LEADING_COUNT - 1 ? TABLE_LEFT : TABLE_RIGHT);
    for (int i = 0; i < view->others.count; i++)
        view_add_parameter_column(view->run, view->others.names[i], view->others.names[i],
                                  view->table);
    table_add_column(view->table, "status", "status", TABLE_LEFT);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i].who == GPUS      ? view->has_device
            : columns[i].who == RECORDS ? view->has_records
                                        : columns[i].who == ALL || view->is_full)
            table_add_column(view->table, columns[i].key, columns[i].header, TABLE_RIGHT);
    table_add_column(view->table, "note", "note", TABLE_LEFT);
}

/* Once, whichever cells have them. */
static void note_split_launches(const bench_view *view) {
    for (int64_t i = 0; i < view->run->cell_count; i++)
        if (cell_find_metric(view->run->cells[i], METRIC_SPLIT_LAUNCHES)) {
            view_note_split_launches(view->run->cells[i], view->table);
            return;
        }
}

report_table *view_create_bench_table(const results *run, bool is_full) {
    bench_view view = {.run = run, .is_full = is_full};
    for (int64_t i = 0; i < run->cell_count; i++) {
        view.has_device =
            view.has_device || cell_find_metric(run->cells[i], METRIC_DEVICE_USED_BYTES);
        view.has_records =
            view.has_records || cell_find_metric(run->cells[i], METRIC_DEVICE_BUSY_NS);
    }
    /* What the numbers were computed in is part of every row that is to be compared. */
    static const char *const always[] = {PARAM_MATH, NULL};
    text title = {0};
    view_append_origin(run, &title);
    view_choose_parameters(run, is_full, always, LEADING, &view.others, &title);
    view.table = table_create(text_string(&title));
    text_release(&title);
    add_bench_columns(&view);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_bench_rows(&view, run->cells[i]);
    table_add_note(
        view.table,
        "tokens/s, GFLOP/s, MFU and HFU are those of the median step; warm-up is in none");
    view_note_utilization(run, "median time", view.table);
    note_split_launches(&view);
    view_note_contention(run, view.table);
    return view.table;
}

void view_bench(const results *run, bool is_full, report_document *out) {
    document_add_table(out, view_create_bench_table(run, is_full));
    view_add_interruption(run, out);
    view_add_cells(run, is_full, out);
}
