#include "report/figure_quantities.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/bench_communication.h"
#include "report/collective_times.h"
#include "report/memory_kinds.h"
#include "report/view_parts.h"

/* ---- samples ---- */

static const char *keep(figure *f, text *said) {
    const char *kept = arena_copy_string(f->memory, text_string(said));
    text_release(said);
    return kept;
}

/* "median 10.4 ms; samples 10.2, 10.4, 10.9" */
static void set_samples(figure *f, double median, const double *values, int64_t count,
                        const char *unit, figure_point *point) {
    enum { MOST_SHOWN = 24 };
    statistics s = statistics_of_reals(values, count);
    text said = {0};
    point->y = median;
    point->low = s.min;
    point->high = s.max;
    text_format(&said, "median %.4g %s; samples ", median, unit);
    for (int64_t i = 0; i < count && i < MOST_SHOWN; i++)
        text_format(&said, "%s%.4g", i ? ", " : "", values[i]);
    if (count > MOST_SHOWN)
        text_format(&said, ", and %lld more", (long long)(count - MOST_SHOWN));
    point->said = keep(f, &said);
}

static void set_number(double value, figure_point *point) {
    point->y = point->low = point->high = value;
}

static double *series_ms(const results_series *series) {
    double *values = memory_allocate((size_t)series->count + 1, sizeof *values);
    for (int64_t i = 0; i < series->count; i++)
        values[i] = results_series_at(series, i) * view_ms_per_unit(series->unit);
    return values;
}

static bool is_time(const results_series *series) {
    return series && series->count > 0 && !isnan(view_ms_per_unit(series->unit));
}

static double median_ms(const results_cell *cell, const char *name) {
    const results_series *series = cell_find_series(cell, name);
    return is_time(series) ? statistics_of_series(series).median * view_ms_per_unit(series->unit)
                           : (double)NAN;
}

/* A cell that calls itself OK and has no steps is not. */
static bool has_steps(const results_cell *cell, figure_point *point) {
    const results_series *steps = view_whole_steps(cell);
    if (cell->status != RESULTS_OK)
        return false;
    if (!is_time(steps))
        point->status = results_status_name(RESULTS_INCOMPLETE);
    return is_time(steps);
}

bool figure_read_step_time(figure *f, const results_cell *cell, int which, figure_point *point) {
    (void)which;
    if (has_steps(cell, point)) {
        const results_series *steps = view_whole_steps(cell);
        double *values = series_ms(steps);
        set_samples(f, statistics_of_reals(values, steps->count).median, values, steps->count, "ms",
                    point);
        free(values);
    }
    return true;
}

void figure_line_add(figure_line *line, figure_point point) {
    MEMORY_GROW(line->points, line->count, line->capacity);
    line->points[line->count++] = point;
}

void figure_add_steps(figure *f, const results_cell *cell, figure_line *line) {
    enum { MOST_STEPS = 500 };
    const results_series *all[] = {cell_find_series(cell, SERIES_WARMUP), view_whole_steps(cell)};
    int64_t index = 0;
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; is_time(all[s]) && i < all[s]->count; i++, index++) {
            double ms = results_series_at(all[s], i) * view_ms_per_unit(all[s]->unit);
            figure_point point = {(double)index, ms, ms, ms, "OK", "", "", s == 0};
            point.said = arena_format(f->memory, "%.4g ms%s", ms, s == 0 ? ", warm-up" : "");
            if (index < MOST_STEPS && figure_can_draw(ms))
                figure_line_add(line, point);
            else
                f->left_out++;
        }
}

/* ---- memory ---- */

static const char *bytes_text(double bytes, units_text *room) {
    *room = units_bytes(bytes >= 0 && bytes < 0x1p62 ? (int64_t)bytes : 0);
    return room->text;
}

static bool is_bytes(double bytes) { return bytes > 0 && bytes < 0x1p62; }

bool figure_read_peak(figure *f, const results_cell *cell, int which, figure_point *point) {
    (void)which;
    double measured =
        cell->status == RESULTS_OK ? view_metric(cell, METRIC_PEAK_BYTES) : (double)NAN;
    double bytes = isnan(measured) ? view_metric(cell, METRIC_PREDICTED_BYTES) : measured;
    units_text room;
    text said = {0};
    if (!is_bytes(bytes))
        return true;
    set_number(bytes, point);
    text_format(&said, "%s, %s", bytes_text(bytes, &room),
                isnan(measured) ? "predicted" : "measured");
    if (cell->status != RESULTS_OK) {
        text_format(&said, "; %s ", point->status);
        view_append_note(&said, cell);
    }
    point->said = keep(f, &said);
    return true;
}

bool figure_read_time_at_peak(figure *f, const results_cell *cell, int which, figure_point *point) {
    const char *metric = which == FIGURE_MEASURED ? METRIC_PEAK_BYTES : METRIC_PREDICTED_BYTES;
    double bytes = view_metric(cell, metric);
    units_text room;
    if (!is_bytes(bytes) || (which == FIGURE_MEASURED && cell->status != RESULTS_OK))
        return false;
    figure_read_step_time(f, cell, 0, point);
    point->x = bytes;
    point->is_hollow = which == FIGURE_PREDICTED;
    if (which == FIGURE_MEASURED || isnan(view_metric(cell, METRIC_PEAK_BYTES)))
        point->label = arena_copy_string(f->memory, view_text(cell, PARAM_RECOMPUTE));
    if (point->said[0])
        point->said = arena_format(f->memory, "%s; peak %s", point->said, bytes_text(bytes, &room));
    return true;
}

bool figure_read_stage_kind(figure *f, const results_cell *cell, int which, figure_point *point) {
    const results_breakdown *stages = memory_stages_of(cell);
    int column;
    const char *stage = stages ? memory_fullest_stage(stages, &column) : NULL;
    units_text room;
    if (!stage)
        return cell->status != RESULTS_OK;
    double bytes = memory_stage_bytes(stages, stage, (memory_kind)which, column);
    if (cell->status == RESULTS_OK && is_bytes(bytes)) {
        set_number(bytes, point);
        point->said =
            arena_format(f->memory, "%s, %s, at the moment \"%s\"", bytes_text(bytes, &room),
                         column == MEMORY_MEASURED ? "measured" : "predicted", stage);
    }
    return true;
}

bool figure_read_planned_kind(figure *f, const results_cell *cell, int which, figure_point *point) {
    size_t prefix = strlen(METRIC_AT_PEAK_PREFIX);
    double bytes = 0;
    units_text room;
    for (int i = 0; i < cell->metric_count; i++) {
        const results_metric *metric = &cell->metrics[i];
        if (strncmp(metric->name, METRIC_AT_PEAK_PREFIX, prefix) == 0 &&
            memory_kind_has_role((memory_kind)which, metric->name + prefix))
            bytes += results_number(&metric->value);
    }
    if (is_bytes(bytes)) {
        set_number(bytes, point);
        point->said = arena_format(f->memory, "%s%s%s", bytes_text(bytes, &room),
                                   cell->status == RESULTS_OK ? "" : "; ",
                                   cell->status == RESULTS_OK ? "" : point->status);
    }
    return true;
}

double figure_memory_limit(const results *run) {
    double limit = results_number(results_find_environment(run, ENV_GPU_MEMORY_BYTES));
    for (int64_t i = 0; i < run->cell_count && isnan(limit); i++)
        limit = view_metric(run->cells[i], METRIC_MEMORY_BYTES);
    for (int64_t i = 0; i < run->cell_count && isnan(limit); i++)
        limit = view_metric(run->cells[i], METRIC_AVAILABLE_BYTES);
    return limit;
}

/* ---- several ranks ---- */

bool figure_read_time_part(figure *f, const results_cell *cell, int which, figure_point *point) {
    if (!has_steps(cell, point))
        return true;
    bench_communication found = bench_communication_of(cell);
    double step = median_ms(cell, SERIES_STEP), busy = found.all_ms, exposed = found.exposed_ms;
    if (isnan(step + busy + exposed))
        return false;
    double all = busy;
    busy = fmin(busy, step); /* medians of series that need not be of the same step */
    exposed = fmin(exposed, busy);
    double hidden = busy - exposed;
    double parts[] = {[FIGURE_COMPUTING] = fmax(0, step - busy),
                      [FIGURE_HIDDEN] = hidden,
                      [FIGURE_EXPOSED] = exposed};
    set_number(parts[which], point);
    point->said = arena_format(f->memory,
                               "%.4g ms; medians: step %.4g ms, communication %.4g ms, of which "
                               "%.4g ms are exposed",
                               parts[which], step, all, exposed);
    return true;
}

static bool read_collective(figure *f, const results_cell *cell, bool is_rate,
                            figure_point *point) {
    int64_t count = 0;
    double *ms = cell->status == RESULTS_OK
                     ? collective_repetitions_ms(cell, SERIES_RANK_PREFIX, &count)
                     : NULL;
    if (cell->status == RESULTS_OK && !count)
        point->status = results_status_name(RESULTS_INCOMPLETE);
    double median = statistics_of_reals(ms, count).median; /* its rate, which the table has, too */
    for (int64_t i = 0; i < count && is_rate; i++)
        ms[i] = collective_bus_gb_s(cell, ms[i]);
    if (count)
        set_samples(f, is_rate ? collective_bus_gb_s(cell, median) : median, ms, count,
                    is_rate ? "GB/s" : "ms", point);
    free(ms);
    return true;
}

bool figure_read_collective_time(figure *f, const results_cell *cell, int which,
                                 figure_point *point) {
    (void)which;
    return read_collective(f, cell, false, point);
}

bool figure_read_bus_bandwidth(figure *f, const results_cell *cell, int which,
                               figure_point *point) {
    (void)which;
    return read_collective(f, cell, true, point);
}

/* ---- on paper ---- */

bool figure_read_scaled_step(figure *f, const results_cell *cell, int which, figure_point *point) {
    (void)which;
    double step = view_metric(cell, METRIC_STEP_NS) / 1e6,
           compute = view_metric(cell, METRIC_COMPUTE_NS) / 1e6,
           collectives = view_metric(cell, METRIC_COLLECTIVES_NS) / 1e6,
           exposed = view_metric(cell, METRIC_EXPOSED_NS) / 1e6;
    if (cell->status != RESULTS_OK)
        point->said = arena_format(f->memory, "%s: %s", point->status, cell->reason);
    if (cell->status != RESULTS_OK || !(step > 0))
        return true;
    set_number(step, point);
    point->is_hollow = collectives > compute;
    point->said = isnan(compute + collectives + exposed)
                      ? arena_format(f->memory, "%.4g ms", step)
                      : arena_format(f->memory,
                                     "%.4g ms; computing alone %.4g ms, collectives alone %.4g ms, "
                                     "exposed %.4g ms",
                                     step, compute, collectives, exposed);
    return true;
}

bool figure_read_largest_ranks(figure *f, const results_cell *cell, int which,
                               figure_point *point) {
    (void)which;
    double ranks = view_metric(cell, METRIC_LARGEST_RANKS),
           tokens = view_metric(cell, METRIC_STEP_TOKENS);
    if (cell->status != RESULTS_OK || !(ranks > 0) || isinf(ranks))
        return cell->status != RESULTS_OK;
    set_number(ranks, point);
    point->said =
        tokens > 0 ? arena_format(f->memory, "%.0f ranks in a step of %.0f tokens", ranks, tokens)
                   : arena_format(f->memory, "%.0f ranks", ranks);
    return true;
}
