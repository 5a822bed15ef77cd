/* view_bench.c - verb "bench": a row for each cell, and one for each phase of its steps. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/bench_baselines.h"
#include "report/bench_communication.h"
#include "report/view.h"
#include "report/view_parts.h"

static const char *const LEADING[] = {PARAM_MODEL, PARAM_CONTEXT, PARAM_BATCH, PARAM_ACCUMULATE,
                                      PARAM_RANKS, PARAM_WARMUP,  PARAM_PASS,  NULL};
static const char *const LEADING_HEADER[] = {"model", "context tokens", "batch", "accumulate",
                                             "ranks", "warm-up steps",  "pass"};
enum { LEADING_COUNT = 7 };

/* Columns of numbers, in the order in which they stand. */
typedef enum bench_column {
    LAUNCHES,
    FIRST_STEP_MS,
    WARMUP_MS,
    TOTAL_MS,
    MEAN_MS,
    STD_MS,
    STD_PERCENT,
    MEDIAN_MS,
    MIN_MS,
    MAX_MS,
    SPEEDUP,
    EXTRA_MS,
    EXTRA_PERCENT,
    COMMUNICATION_MS,
    EXPOSED_MS,
    OVERLAP_PERCENT,
    SENT_MB,
    SENT_FORMULA_MB,
    TOKENS,
    GFLOPS,
    MFU,
    HFU,
    CAST_MS,
    SAVED_MIB,
    PEAK_MIB,
    PREDICTED_MIB,
    DEVICE_USED_MIB,
    DEVICE_BUSY,
    DEVICE_IDLE,
    RSS_MIB,
    SETUP_MS,
    BENCH_COLUMN_COUNT
} bench_column;

/* Who sees a column: all, those whose cells have it, files. */
typedef enum column_audience {
    ALL,
    WAYS,
    RECOMPUTE,
    RANKS,
    CASTS,
    GPUS,
    RECORDS,
    PEAKS,
    FILES
} column_audience;

static const struct {
    const char *key, *header;
    int decimals;
    column_audience audience;
} COLUMNS[BENCH_COLUMN_COUNT] = {
    [LAUNCHES] = {"launches", "launches", 0, ALL},
    [FIRST_STEP_MS] = {"first_step_ms", "first step ms", 2, ALL},
    [WARMUP_MS] = {"warmup_ms", "warm-up ms", 2, ALL},
    [TOTAL_MS] = {"total_ms", "total ms", 2, ALL},
    [MEAN_MS] = {"mean_ms", "mean ms", 2, ALL},
    [STD_MS] = {"std_ms", "std ms", 2, ALL},
    [STD_PERCENT] = {"std_percent", "std/mean %", 1, ALL},
    [MEDIAN_MS] = {"median_ms", "median ms", 2, ALL},
    [MIN_MS] = {"min_ms", "min ms", 2, ALL},
    [MAX_MS] = {"max_ms", "max ms", 2, ALL},
    [SPEEDUP] = {"speedup", "speed-up", 2, WAYS},
    [EXTRA_MS] = {"recompute_extra_ms", "recompute extra ms", 2, RECOMPUTE},
    [EXTRA_PERCENT] = {"recompute_extra_percent", "recompute extra %", 1, RECOMPUTE},
    [COMMUNICATION_MS] = {"communication_ms", "communication ms", 2, RANKS},
    [EXPOSED_MS] = {"exposed_communication_ms", "exposed communication ms", 2, RANKS},
    [OVERLAP_PERCENT] = {"overlap_percent", "overlap %", 1, RANKS},
    [SENT_MB] = {"sent_mb", "sent MB", 2, RANKS},
    [SENT_FORMULA_MB] = {"sent_formula_mb", "formula MB", 2, RANKS},
    [TOKENS] = {"tokens_per_s", "tokens/s", 0, ALL},
    [GFLOPS] = {"gflops", "GFLOP/s", 1, ALL},
    [MFU] = {"mfu_percent", "MFU %", 1, PEAKS},
    [HFU] = {"hfu_percent", "HFU %", 1, PEAKS},
    [CAST_MS] = {"cast_ms", "casts ms", 3, CASTS},
    [SAVED_MIB] = {"saved_mib", "saved MiB", 1, ALL},
    [PEAK_MIB] = {"peak_mib", "peak MiB", 1, ALL},
    [PREDICTED_MIB] = {"predicted_mib", "predicted MiB", 1, ALL},
    [DEVICE_USED_MIB] = {"device_used_mib", "in use on the GPU MiB", 1, GPUS},
    [DEVICE_BUSY] = {"device_busy_percent", "GPU busy %", 2, RECORDS},
    [DEVICE_IDLE] = {"device_idle_percent", "GPU idle %", 2, RECORDS},
    [RSS_MIB] = {"rss_mib", "RSS MiB", 1, FILES},
    [SETUP_MS] = {"setup_ms", "setup ms", 2, FILES},
};

/* A row's numbers, NAN where there is none. */
typedef struct bench_row {
    double numbers[BENCH_COLUMN_COUNT];
} bench_row;

/* Of columns, where a terminal has no room for all. */
static const char *const IMPORTANCE[] = {
    "median_ms",   PARAM_PASS,  "status",       PARAM_MODEL, PARAM_CONTEXT,
    PARAM_MODE,    PARAM_MATH,  "tokens_per_s", "note",      "peak_mib",
    "mfu_percent", "speedup",   "mean_ms",      "std_ms",    TABLE_OTHERS,
    "gflops",      "warmup_ms", "max_ms",       "min_ms",    "device_idle_percent",
    NULL};

typedef struct bench_view {
    const results *run;
    report_table *table;
    bench_baselines baselines;
    view_list others; /* parameters beyond the leading ones that have a column */
    bool is_full;     /* every column: CSV */
    bool has_device;  /* cells have device_used_bytes: those of a GPU */
    bool has_records; /* cells have device_busy_ns: a GPU kept records */
    bool has_ranks;   /* cells have more than one */
    bool has_peak;    /* cells have a peak: it was measured */
    bool has_casts;   /* cells have cast_ns: steps were traced */
} bench_view;

static bool is_shown(const bench_view *view, int column) {
    switch (COLUMNS[column].audience) {
    case WAYS:
        return view->baselines.has_ways;
    case RECOMPUTE:
        return view->baselines.has_recompute;
    case RANKS:
        return view->has_ranks;
    case CASTS:
        return view->has_casts;
    case PEAKS:
        return view->is_full || view->has_peak;
    case GPUS:
        return view->has_device;
    case RECORDS:
        return view->has_records;
    case FILES:
        return view->is_full;
    default:
        return true;
    }
}

static bench_row empty_row(void) {
    bench_row row;
    for (int i = 0; i < BENCH_COLUMN_COUNT; i++)
        row.numbers[i] = (double)NAN;
    return row;
}

static void add_numbers(const bench_view *view, const bench_row *row) {
    for (int i = 0; i < BENCH_COLUMN_COUNT; i++)
        if (is_shown(view, i))
            table_add_real(view->table, row->numbers[i], COLUMNS[i].decimals);
}

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

/* In ms; NAN where the cell is not OK, or has no such samples. */
static double median_ms(const results_cell *cell, const char *series_name) {
    if (!cell || view_steps_status(cell) != RESULTS_OK)
        return (double)NAN;
    const results_series *series =
        series_name ? cell_find_series(cell, series_name) : view_whole_steps(cell);
    return series ? statistics_of_series(series).median * view_ms_per_unit(series->unit)
                  : (double)NAN;
}

/* The same part of a step in other ways; `series_name` is NULL for the whole. */
static void compare(const bench_view *view, int64_t index, const char *series_name,
                    bench_row *row) {
    double own = row->numbers[MEDIAN_MS];
    double first = median_ms(view->baselines.first_way[index], series_name);
    double plain = median_ms(view->baselines.plain[index], series_name);
    if (own > 0)
        row->numbers[SPEEDUP] = first / own;
    row->numbers[EXTRA_MS] = own - plain;
    if (plain > 0)
        row->numbers[EXTRA_PERCENT] = 100 * (own / plain - 1);
}

static void fill_timing(const bench_view *view, const results_cell *cell,
                        const results_series *series, const bench_work *work, bench_row *row) {
    double ms = view_ms_per_unit(series->unit), *numbers = row->numbers;
    statistics s = statistics_of_series(series);
    double peak = view_peak_gflops(view->run, cell);
    double seconds = s.median * ms / 1e3;
    numbers[TOTAL_MS] = s.total * ms;
    numbers[MEAN_MS] = s.mean * ms;
    numbers[STD_MS] = s.std * ms;
    if (s.mean > 0)
        numbers[STD_PERCENT] = 100 * s.std / s.mean;
    numbers[MEDIAN_MS] = s.median * ms;
    numbers[MIN_MS] = s.min * ms;
    numbers[MAX_MS] = s.max * ms;
    if (seconds > 0) {
        numbers[TOKENS] = work->tokens / seconds;
        numbers[GFLOPS] = work->flops / seconds / 1e9;
    }
    numbers[MFU] = view_utilization(work->model_flops, seconds, peak);
    numbers[HFU] = view_utilization(work->flops, seconds, peak);
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

static void add_phase_rows(const bench_view *view, int64_t index) {
    const results_cell *cell = view->run->cells[index];
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
        bench_row row = empty_row();
        fill_timing(view, cell, phase, &work, &row);
        compare(view, index, phases[i], &row);
        add_leading(view, cell, text_string(&label));
        table_add_text(view->table, results_status_name(RESULTS_OK));
        add_numbers(view, &row);
        text_release(&label);
    }
}

static void fill_communication(const results_cell *cell, double *numbers) {
    bench_communication found = bench_communication_of(cell);
    numbers[COMMUNICATION_MS] = found.all_ms;
    numbers[EXPOSED_MS] = found.exposed_ms;
    numbers[OVERLAP_PERCENT] = found.overlap_percent;
    numbers[SENT_MB] = found.sent_bytes / 1e6;
    numbers[SENT_FORMULA_MB] = found.formula_bytes / 1e6;
}

/* What the plan knows, of cells that did not run as well. */
static void fill_plan(const results_cell *cell, double *numbers) {
    fill_communication(cell, numbers);
    numbers[LAUNCHES] = view_metric(cell, METRIC_LAUNCHES);
    numbers[SAVED_MIB] = view_metric(cell, METRIC_SAVED_BYTES) / 0x1p20;
    numbers[PREDICTED_MIB] = view_metric(cell, METRIC_PREDICTED_BYTES) / 0x1p20;
    numbers[SETUP_MS] = view_metric(cell, METRIC_SETUP_NS) / 1e6;
    numbers[FIRST_STEP_MS] = view_metric(cell, METRIC_FIRST_STEP_NS) / 1e6;
}

static void fill_measured(const bench_view *view, int64_t index, bench_row *row) {
    const results_cell *cell = view->run->cells[index];
    const results_series *warmup = cell_find_series(cell, SERIES_WARMUP);
    double *numbers = row->numbers;
    bench_work work = {view_metric(cell, METRIC_TOKENS), view_metric(cell, METRIC_FLOPS),
                       view_metric(cell, METRIC_MODEL_FLOPS)};
    /* Of a step as the GPU saw it, from its first launch to its last. */
    double busy =
        view_metric(cell, METRIC_DEVICE_BUSY_NS) / view_metric(cell, METRIC_DEVICE_SPAN_NS);
    fill_timing(view, cell, view_whole_steps(cell), &work, row);
    compare(view, index, NULL, row);
    if (warmup)
        numbers[WARMUP_MS] = statistics_of_series(warmup).total * view_ms_per_unit(warmup->unit);
    numbers[CAST_MS] = view_metric(cell, METRIC_CAST_NS) / 1e6;
    numbers[PEAK_MIB] = view_metric(cell, METRIC_PEAK_BYTES) / 0x1p20;
    numbers[RSS_MIB] = view_metric(cell, METRIC_RSS_BYTES) / 0x1p20;
    numbers[DEVICE_USED_MIB] = view_metric(cell, METRIC_DEVICE_USED_BYTES) / 0x1p20;
    numbers[DEVICE_BUSY] = 100 * busy;
    numbers[DEVICE_IDLE] = 100 * (1 - busy);
}

static void add_bench_rows(const bench_view *view, int64_t index) {
    const results_cell *cell = view->run->cells[index];
    results_status status = view_steps_status(cell);
    bench_row row = empty_row();
    fill_plan(cell, row.numbers);
    if (status == RESULTS_OK)
        fill_measured(view, index, &row);
    add_leading(view, cell, NULL);
    table_add_text(view->table, results_status_name(status));
    add_numbers(view, &row);
    text note = {0};
    view_append_note(&note, cell);
    table_add_text(view->table, text_string(&note));
    text_release(&note);
    if (status == RESULTS_OK)
        add_phase_rows(view, index);
}

static void add_bench_columns(bench_view *view) {
    for (int i = 0; i < LEADING_COUNT; i++)
        table_add_setting(view->table, LEADING[i], LEADING_HEADER[i],
                          i == 0 || i == LEADING_COUNT - 1 ? TABLE_LEFT : TABLE_RIGHT);
    for (int i = 0; i < view->others.count; i++)
        view_add_parameter_column(view->run, view->others.names[i], view->others.names[i],
                                  view->table);
    table_add_setting(view->table, "status", "status", TABLE_LEFT);
    for (int i = 0; i < BENCH_COLUMN_COUNT; i++)
        if (is_shown(view, i))
            table_add_column(view->table, COLUMNS[i].key, COLUMNS[i].header, TABLE_RIGHT);
    table_add_column(view->table, "note", "note", TABLE_LEFT);
    table_set_importance(view->table, IMPORTANCE);
}

static void note_comparisons(const bench_view *view) {
    if (view->baselines.has_ways)
        table_add_note(view->table,
                       "speed-up: median of the first row with the same model, sizes and pass, in "
                       "whichever mode and precision, / median of this row");
    if (view->baselines.has_recompute)
        table_add_note(view->table, "recompute extra: this row's median against that of the same "
                                    "row with recompute none");
    if (view->has_ranks)
        table_add_note(
            view->table,
            "a step's sequences are ranks x accumulate x batch; tokens/s are those of all "
            "ranks, other numbers those of rank 0. communication: time in collectives; "
            "exposed: of that, what launches had to wait for; overlap: 1 - exposed / "
            "communication. sent: bytes each rank sends in a ring, from the plan; formula: "
            "(n-1)/n x (gradients scattered + what is gathered), which is the gradients "
            "again for ddp, the weights for zero1, the weights twice for fsdp");
    if (view->has_casts)
        table_add_note(view->table, "casts: launches that only change the type of numbers, in "
                                    "traced steps; casts fused into other kernels are not in it");
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
    bench_view view = {.run = run, .is_full = is_full, .has_peak = view_has_peak(run)};
    for (int64_t i = 0; i < run->cell_count; i++) {
        view.has_device =
            view.has_device || cell_find_metric(run->cells[i], METRIC_DEVICE_USED_BYTES);
        view.has_records =
            view.has_records || cell_find_metric(run->cells[i], METRIC_DEVICE_BUSY_NS);
        view.has_ranks = view.has_ranks || bench_communication_of(run->cells[i]).ranks > 1;
        view.has_casts = view.has_casts || cell_find_metric(run->cells[i], METRIC_CAST_NS);
    }
    view.baselines = bench_baselines_of(run);
    /* What the numbers were computed in is part of every row that is to be compared. */
    static const char *const always[] = {PARAM_MATH, NULL};
    text title = {0};
    view_append_origin(run, &title);
    view_choose_parameters(run, is_full, always, LEADING, &view.others, &title);
    view.table = table_create(text_string(&title));
    text_release(&title);
    add_bench_columns(&view);
    for (int64_t i = 0; i < run->cell_count; i++)
        add_bench_rows(&view, i);
    table_add_note(view.table, "tokens/s%s are those of the median step; warm-up is in none",
                   view.has_peak ? ", GFLOP/s, MFU and HFU" : " and GFLOP/s");
    table_add_note(view.table, "first step: with what happens once and had not happened before, in "
                               "this process or its caches; total: the timed steps; saved: kept "
                               "for the backward, and predicted: the peak, both from the plan");
    view_note_utilization(run, "median time", view.table);
    note_comparisons(&view);
    note_split_launches(&view);
    view_note_contention(run, view.table);
    bench_baselines_release(&view.baselines);
    return view.table;
}

void view_bench(const results *run, bool is_full, report_document *out) {
    document_add_table(out, view_create_bench_table(run, is_full));
    view_memory_stages(run, out);
    view_add_interruption(run, out);
    view_add_cells(run, is_full, out);
}
