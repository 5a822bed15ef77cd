#include "report/finding_parts.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view_parts.h"

double finding_median_ms(const results_cell *cell) {
    const results_series *steps = view_whole_steps(cell);
    if (cell->status != RESULTS_OK || view_steps_status(cell) != RESULTS_OK || !steps)
        return (double)NAN;
    return statistics_of_series(steps).median * view_ms_per_unit(steps->unit);
}

/* That follow from another parameter, or are no setting of the measurement. */
static const char *const FREE_PARAMETERS[] = {
    PARAM_REPS,    PARAM_TILE,     PARAM_TILES_USED, PARAM_ATTENTION, PARAM_GRADIENTS,
    PARAM_PEAK_AT, PARAM_RESIDUAL, PARAM_FITS,       PARAM_FITS_WITH, NULL};

bool finding_differ_only_in(const results_cell *a, const results_cell *b, const char *parameter) {
    if (view_values_are_equal(cell_find_parameter(a, parameter), cell_find_parameter(b, parameter)))
        return false;
    for (int i = 0; i < a->parameters.count; i++) {
        const char *key = a->parameters.entries[i].key;
        if (strcmp(key, parameter) != 0 && !view_is_one_of(key, FREE_PARAMETERS) &&
            !view_values_are_equal(&a->parameters.entries[i].value, cell_find_parameter(b, key)))
            return false;
    }
    return true;
}

double finding_peak_bytes(const results_cell *cell) {
    double peak = view_metric(cell, METRIC_PEAK_BYTES);
    peak = isnan(peak) ? view_metric(cell, METRIC_PREDICTED_BYTES) : peak;
    return peak > 0 && peak < 0x1p62 ? peak : (double)NAN;
}

void finding_append_bytes(double bytes, text *out) {
    text_append(out, units_bytes(bytes >= 0 && bytes < 0x1p62 ? (int64_t)bytes : 0).text);
}

void finding_append_cell_name(const results *run, const results_cell *cell,
                              const char *const *except, text *out) {
    bool is_first = true;
    static const char *const never[] = {PARAM_TILES_USED, PARAM_PEAK_AT,  PARAM_FITS_WITH,
                                        PARAM_THREADS,    PARAM_RESIDUAL, NULL};
    for (int i = 0; i < cell->parameters.count; i++) {
        const results_entry *entry = &cell->parameters.entries[i];
        bool is_named = strcmp(entry->key, PARAM_MODEL) == 0 || strcmp(entry->key, PARAM_PASS) == 0;
        if (view_is_one_of(entry->key, never) || (except && view_is_one_of(entry->key, except)) ||
            view_is_in_the_models_name(cell, entry->key) ||
            (!is_named && !view_parameter_varies(run, entry->key)))
            continue;
        text_format(out, is_first ? "%s " : ", %s ", entry->key);
        view_append_value(out, &entry->value);
        is_first = false;
    }
}

bool finding_compares_ways(const results *run) {
    static const char *const ways[] = {PARAM_WARMUP, PARAM_RECOMPUTE, PARAM_PARALLEL, PARAM_MODE,
                                       PARAM_MATH,   PARAM_IMPL,      PARAM_TILE};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (cell_find_parameter(run->cells[0], ways[i]) && view_parameter_varies(run, ways[i]))
            return true;
    return false;
}
