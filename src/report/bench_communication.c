#include "report/bench_communication.h"

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"
#include "report/view_parts.h"

static double rank_count(const results_cell *cell) {
    const results_value *ranks = cell_find_parameter(cell, PARAM_RANKS);
    return ranks ? results_number(ranks) : 1;
}

static double median_of(const results_cell *cell, const char *series_name) {
    const results_series *series = cell_find_series(cell, series_name);
    return series ? statistics_of_series(series).median * view_ms_per_unit(series->unit)
                  : (double)NAN;
}

/* What a ring sends from each rank, with gradients and weights of so many bytes: an all-reduce of all
 * gradients, or a reduce-scatter of them and an all-gather of the weights, which fsdp does twice. */
static double formula_bytes(const results_cell *cell, double n) {
    static const char *const low[] = {"bf16", "fp16", NULL};
    bool is_fsdp = strcmp(view_text(cell, PARAM_PARALLEL), "fsdp") == 0;
    bool is_zero1 = strcmp(view_text(cell, PARAM_PARALLEL), "zero1") == 0;
    bool is_compiled = strcmp(view_text(cell, PARAM_MODE), "compiled") == 0;
    double sent = view_is_one_of(view_text(cell, PARAM_REDUCE), low) ? 2 : 4;
    double read = is_compiled && view_is_one_of(view_text(cell, PARAM_MATH), low) ? 2 : 4;
    double gathered = is_fsdp ? 2 * read : is_zero1 ? 4 : sent;
    return (n - 1) / n * (sent + gathered) * view_metric(cell, METRIC_PARAMETERS);
}

bench_communication bench_communication_of(const results_cell *cell) {
    bench_communication found = {.ranks = rank_count(cell), NAN, NAN, NAN, NAN, NAN};
    if (!(found.ranks > 1))
        return found;
    found.all_ms = median_of(cell, SERIES_COLLECTIVES);
    found.exposed_ms = median_of(cell, SERIES_EXPOSED);
    if (found.all_ms > 0 && !isnan(found.exposed_ms))
        found.overlap_percent = 100 * fmax(0, 1 - found.exposed_ms / found.all_ms);
    found.sent_bytes = view_metric(cell, METRIC_BYTES_SENT);
    found.formula_bytes = formula_bytes(cell, found.ranks);
    return found;
}
