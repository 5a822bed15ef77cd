#include "report/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view_parts.h"

enum { MOST_LINES = 24, MOST_SAMPLES_SHOWN = 24 };

static const char *axis_of(const results *run) {
    static const char *const axes[] = {PARAM_SEQ, PARAM_CONTEXT, "bytes", PARAM_BATCH};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (run->cell_count && cell_find_parameter(run->cells[0], axes[i]) &&
            view_parameter_varies(run, axes[i]))
            return axes[i];
    return NULL;
}

/* "flash, bf16, head_dim 64": what tells this line from the others. */
static const char *name_line(figure *f, const results *run, const results_cell *cell,
                             const char *axis) {
    text name = {0};
    text_append(&name, "");
    for (int i = 0; i < cell->parameters.count; i++) {
        const results_entry *entry = &cell->parameters.entries[i];
        static const char *const never[] = {PARAM_TILES_USED, PARAM_PEAK_AT, PARAM_FITS_WITH,
                                            PARAM_REPS, NULL};
        if (strcmp(entry->key, axis) == 0 || view_is_one_of(entry->key, never) ||
            view_is_in_the_models_name(cell, entry->key) || !view_parameter_varies(run, entry->key))
            continue;
        text_append(&name, name.length ? ", " : "");
        if (entry->value.kind != RESULTS_TEXT)
            text_format(&name, "%s ", entry->key);
        view_append_value(&name, &entry->value);
    }
    const char *copy = arena_copy_string(f->memory, name.length ? text_string(&name) : run->verb);
    text_release(&name);
    return copy;
}

static figure_line *find_line(figure *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->lines[i].name, name) == 0)
            return &f->lines[i];
    if (f->count == MOST_LINES)
        return NULL;
    MEMORY_GROW(f->lines, f->count, f->capacity);
    f->lines[f->count] = (figure_line){.name = name};
    return &f->lines[f->count++];
}

static figure_point point_of(figure *f, const results_cell *cell, double x) {
    figure_point point = {x, (double)NAN, (double)NAN, (double)NAN, "", ""};
    const results_series *steps = view_whole_steps(cell);
    results_status status =
        cell->status == RESULTS_OK && !steps ? RESULTS_INCOMPLETE : cell->status;
    point.status = results_status_name(status);
    if (status != RESULTS_OK || isnan(view_ms_per_unit(steps->unit)))
        return point;
    statistics s = statistics_of_series(steps);
    double ms = view_ms_per_unit(steps->unit);
    text samples = {0};
    point.y = s.median * ms;
    point.low = s.min * ms;
    point.high = s.max * ms;
    for (int64_t i = 0; i < steps->count && i < MOST_SAMPLES_SHOWN; i++)
        text_format(&samples, "%s%.4g", i ? ", " : "", results_series_at(steps, i) * ms);
    if (steps->count > MOST_SAMPLES_SHOWN)
        text_format(&samples, ", and %lld more", (long long)(steps->count - MOST_SAMPLES_SHOWN));
    point.samples = arena_copy_string(f->memory, text_string(&samples));
    text_release(&samples);
    return point;
}

static int compare_points(const void *a, const void *b) {
    double x = ((const figure_point *)a)->x, y = ((const figure_point *)b)->x;
    return (x > y) - (x < y);
}

static bool is_worth_drawing(const figure *f) {
    for (int i = 0; i < f->count; i++) {
        int drawn = 0;
        for (int j = 0; j < f->lines[i].count; j++)
            drawn += f->lines[i].points[j].y > 0;
        if (drawn > 1)
            return true;
    }
    return false;
}

figure *figure_create(const results *run) {
    const char *axis = axis_of(run);
    if (!axis)
        return NULL;
    figure *f = memory_allocate(1, sizeof *f);
    f->memory = arena_create();
    f->title = arena_format(f->memory, "%s: time over %s", run->verb, axis);
    f->x_label = arena_copy_string(f->memory, axis);
    f->y_label = "ms (median; bars: least and largest sample)";
    f->is_logarithmic = true;
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        double x = results_number(cell_find_parameter(cell, axis));
        figure_line *line = x > 0 ? find_line(f, name_line(f, run, cell, axis)) : NULL;
        if (!line)
            continue;
        MEMORY_GROW(line->points, line->count, line->capacity);
        line->points[line->count++] = point_of(f, cell, x);
    }
    for (int i = 0; i < f->count; i++)
        qsort(f->lines[i].points, (size_t)f->lines[i].count, sizeof(figure_point), compare_points);
    if (is_worth_drawing(f))
        return f;
    figure_destroy(f);
    return NULL;
}

void figure_destroy(figure *f) {
    if (!f)
        return;
    for (int i = 0; i < f->count; i++)
        free(f->lines[i].points);
    free(f->lines);
    arena_destroy(f->memory);
    free(f);
}

static void stretch(figure_range *range, double value) {
    if (!(value > 0) || !isfinite(value))
        return;
    range->low = range->low > 0 && range->low < value ? range->low : value;
    range->high = range->high > value ? range->high : value;
}

figure_range figure_x_range(const figure *f) {
    figure_range range = {0};
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++)
            stretch(&range, f->lines[i].points[j].x);
    return range;
}

figure_range figure_y_range(const figure *f) {
    figure_range range = {0};
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++) {
            stretch(&range, f->lines[i].points[j].low);
            stretch(&range, f->lines[i].points[j].high);
        }
    if (range.high <= range.low * 1.0001) { /* one value: room above and below it */
        range.low /= 2;
        range.high *= 2;
    }
    return range;
}
