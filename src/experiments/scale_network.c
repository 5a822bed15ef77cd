#include "experiments/scale_network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "measure/keys.h"
#include "measure/results.h"
#include "measure/statistics.h"

static dyno_status parse_rate(const flags *given, const char *name, double *out) {
    dyno_status status = units_parse_bandwidth(flags_text(given, name), out);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--%s", name);
}

static const char *text_of(const results_cell *cell, const char *name) {
    const results_value *value = cell_find_parameter(cell, name);
    return value && value->kind == RESULTS_TEXT ? value->text : "";
}

/* Of each repetition the slowest rank's time, of these the median or the least; NAN where some rank has
 * none. */
static double time_ns(const results_cell *cell, int64_t ranks, bool takes_least) {
    int64_t reps = -1;
    double *slowest = NULL;
    bool is_whole = true;
    for (int64_t r = 0; r < ranks && is_whole; r++) {
        char name[64];
        snprintf(name, sizeof name, SERIES_RANK_PREFIX "%lld", (long long)r);
        const results_series *series = cell_find_series(cell, name);
        is_whole = series && strcmp(series->unit, "ns") == 0 && series->count > 0 &&
                   (reps < 0 || series->count == reps);
        if (!is_whole)
            break;
        if (reps < 0)
            slowest = memory_allocate((size_t)series->count, sizeof *slowest);
        reps = series->count;
        for (int64_t i = 0; i < reps; i++)
            slowest[i] = fmax(slowest[i], results_series_at(series, i));
    }
    statistics timed = statistics_of_reals(slowest, is_whole && reps > 0 ? reps : 0);
    free(slowest);
    return takes_least ? timed.min : timed.median;
}

/* Whether the cell is a point of a curve, and which. */
static bool read_point(const results_cell *cell, bool takes_least, network_curve *which,
                       network_point *point) {
    enum { MOST_RANKS = 65536 };
    double ranks = results_number(cell_find_parameter(cell, PARAM_RANKS));
    if (cell->status != RESULTS_OK || !(ranks >= 2 && ranks <= MOST_RANKS) ||
        !collective_op_parse(text_of(cell, PARAM_OP), &which->op) ||
        which->op == COLLECTIVE_BROADCAST || which->op == COLLECTIVE_BARRIER)
        return false;
    which->ranks = (int64_t)ranks;
    which->is_private = strcmp(text_of(cell, PARAM_OPERANDS), "private") == 0;
    point->bytes = results_number(cell_find_parameter(cell, PARAM_BYTES));
    point->ns = time_ns(cell, which->ranks, takes_least);
    return point->bytes >= 1 && point->bytes < 1e18 && point->ns > 0;
}

static dyno_status read_curves(const char *directory, bool takes_least, network *n) {
    results *run;
    RETURN_IF_FAILED(results_read(directory, &run));
    double best = 0;
    const char *transport = NULL; /* the first one's: transports are not mixed */
    for (int64_t i = 0; i < run->cell_count && strcmp(run->verb, RUN_ALLREDUCE) == 0; i++) {
        network_curve which = {0};
        network_point point;
        if (!read_point(run->cells[i], takes_least, &which, &point))
            continue;
        const char *mine = text_of(run->cells[i], PARAM_TRANSPORT);
        transport = transport ? transport : mine;
        if (strcmp(transport, mine) != 0)
            continue;
        network_add_point(n, &which, point.bytes, point.ns);
        best = fmax(best, point.bytes * collective_bus_factor(which.op, (int)which.ranks) /
                              point.ns * 1e9);
    }
    results_destroy(run);
    if (best <= 0)
        return dyno_fail(DYNO_INVALID,
                         "--from: '%s' has no time of a collective; make it with `dyno allreduce "
                         "--op all-reduce,reduce-scatter,all-gather --ranks 2,4 --out DIR`",
                         directory);
    n->inside = best;
    return DYNO_OK;
}

dyno_status scale_network_open(const flags *given, int64_t usual_per_node, network *out) {
    *out = (network){.per_node = flags_is_set(given, "per-node") ? flags_integer(given, "per-node")
                                                                 : usual_per_node,
                     .latency_ns = flags_real(given, "latency") * 1e3};
    const char *directory = flags_text(given, "from");
    if (directory && flags_is_set(given, "inside"))
        return dyno_fail(DYNO_INVALID, "--from measures what --inside says; give one of them");
    RETURN_IF_FAILED(parse_rate(given, "inside", &out->inside));
    RETURN_IF_FAILED(parse_rate(given, "across", &out->across));
    dyno_status status =
        directory ? read_curves(directory, flags_switch(given, "best"), out) : DYNO_OK;
    if (status != DYNO_OK)
        network_release(out);
    return status;
}
