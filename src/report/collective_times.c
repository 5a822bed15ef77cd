#include "report/collective_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "report/view_parts.h"

int64_t collective_parameter(const results_cell *cell, const char *name) {
    double number = results_number(cell_find_parameter(cell, name));
    return number >= 0 && number < 1e18 ? (int64_t)number : 0;
}

double *collective_repetitions_ms(const results_cell *cell, const char *prefix, int64_t *count) {
    int64_t ranks = collective_parameter(cell, PARAM_RANKS), reps = -1;
    double *slowest = NULL;
    *count = 0;
    for (int64_t r = 0; r < ranks; r++) {
        char name[64];
        snprintf(name, sizeof name, "%s%lld", prefix, (long long)r);
        const results_series *series = cell_find_series(cell, name);
        double ms = series ? view_ms_per_unit(series->unit) : NAN;
        if (!series || isnan(ms) || (reps >= 0 && series->count != reps)) {
            free(slowest);
            return NULL;
        }
        if (reps < 0) {
            reps = series->count;
            slowest = memory_allocate((size_t)reps + 1, sizeof *slowest);
        }
        for (int64_t i = 0; i < reps; i++)
            slowest[i] = fmax(slowest[i], results_series_at(series, i) * ms);
    }
    *count = reps > 0 ? reps : 0;
    return slowest;
}

statistics collective_times_ms(const results_cell *cell, const char *prefix) {
    int64_t count;
    double *slowest = collective_repetitions_ms(cell, prefix, &count);
    statistics found = statistics_of_reals(slowest, count);
    free(slowest);
    return found;
}

bool collective_is_timed(const results_cell *cell) {
    return cell->status == RESULTS_OK && collective_times_ms(cell, SERIES_RANK_PREFIX).count > 0;
}

double collective_time_ms(const results_cell *cell) {
    return collective_is_timed(cell) ? collective_times_ms(cell, SERIES_RANK_PREFIX).median : NAN;
}

double collective_algorithm_gb_s(const results_cell *cell, double ms) {
    return (double)collective_parameter(cell, PARAM_BYTES) / (ms * 1e6);
}

double collective_bus_gb_s(const results_cell *cell, double ms) {
    const char *op = view_text(cell, PARAM_OP);
    double ranks = (double)collective_parameter(cell, PARAM_RANKS), part = (ranks - 1) / ranks;
    double factor = strcmp(op, "all-reduce") == 0  ? 2 * part
                    : strcmp(op, "broadcast") == 0 ? 1
                                                   : part;
    return collective_algorithm_gb_s(cell, ms) * factor;
}
