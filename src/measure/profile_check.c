#include "measure/profile_check.h"

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/statistics.h"

/* Sums of many reals, each rounded. */
#define ROUNDING 1e-6

static int column_of(const results_breakdown *b, const char *name) {
    for (int i = 0; b && i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return i;
    return -1;
}

static double value_of(const results_breakdown *b, int64_t row, int column) {
    return column < 0 ? (double)NAN : results_number(&b->rows[row].values[column]);
}

static double sum_of(const results_breakdown *b, int column) {
    double sum = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        sum += value_of(b, i, column);
    return sum;
}

static bool is_whole_device(const results_breakdown *devices, int64_t row) {
    return devices->key_count == 2 && strcmp(devices->rows[row].keys[1], ROW_ALL_PHASES) == 0;
}

/* Over all devices. */
static double device_sum(const results_breakdown *devices, const char *column) {
    double sum = 0;
    for (int64_t i = 0; i < devices->row_count; i++)
        if (is_whole_device(devices, i))
            sum += value_of(devices, i, column_of(devices, column));
    return sum;
}

static double larger(double a, double b) { return b > a || isnan(b) ? b : a; }

/* A phase is part of its device's step, busy is part of the span. */
static double largest_of_devices(const results_breakdown *devices) {
    double most = 0, span = NAN;
    int span_at = column_of(devices, COLUMN_SPAN), busy_at = column_of(devices, COLUMN_BUSY);
    for (int64_t i = 0; i < devices->row_count; i++) {
        if (is_whole_device(devices, i)) /* its phases follow */
            span = value_of(devices, i, span_at);
        else if (span > 0)
            most = larger(most, value_of(devices, i, span_at) / span);
        if (span > 0)
            most = larger(most, value_of(devices, i, busy_at) / value_of(devices, i, span_at));
    }
    return most;
}

static const char *const GROUPED[] = {BREAKDOWN_BY_KERNEL, BREAKDOWN_BY_CLASS, BREAKDOWN_BY_OP,
                                      BREAKDOWN_BY_SCOPE,  BREAKDOWN_BY_PHASE, BREAKDOWN_KINDS,
                                      BREAKDOWN_SCOPES,    BREAKDOWN_BY_LAUNCH};
enum { GROUPED_COUNT = sizeof GROUPED / sizeof *GROUPED };

/* No group takes longer than the steps of all devices together. */
static double largest_group(const results_cell *cell, double span) {
    double most = 0;
    for (int i = 0; i < GROUPED_COUNT; i++) {
        const results_breakdown *b = cell_find_breakdown(cell, GROUPED[i]);
        for (int64_t row = 0; b && row < b->row_count; row++)
            most = larger(most, value_of(b, row, column_of(b, COLUMN_TIME)) / span);
    }
    return most;
}

/* Every breakdown is of the same time. */
static double worst_share_sum(const results_cell *cell) {
    const results_breakdown *first = cell_find_breakdown(cell, GROUPED[0]);
    double whole = first ? sum_of(first, column_of(first, COLUMN_TIME)) : (double)NAN, worst = 1;
    for (int i = 0; i < GROUPED_COUNT; i++) {
        const results_breakdown *b = cell_find_breakdown(cell, GROUPED[i]);
        double share = b ? sum_of(b, column_of(b, COLUMN_TIME)) / whole : 1;
        if (isnan(share) || fabs(share - 1) > fabs(worst - 1))
            worst = share;
    }
    return worst;
}

static double metric_of(const results_cell *cell, const char *name) {
    const results_metric *metric = cell_find_metric(cell, name);
    return metric ? results_number(&metric->value) : (double)NAN;
}

static double longest_span(const results_breakdown *devices) {
    double most = 0;
    for (int64_t i = 0; i < devices->row_count; i++)
        if (is_whole_device(devices, i))
            most = larger(most, value_of(devices, i, column_of(devices, COLUMN_SPAN)));
    return most;
}

static double traced_ns(const results_cell *cell) {
    return statistics_of_series(cell_find_series(cell, SERIES_TRACED)).mean;
}

profile_check profile_check_cell(const results_cell *cell) {
    const results_breakdown *devices = cell_find_breakdown(cell, BREAKDOWN_DEVICES);
    profile_check check = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (!devices)
        return check;
    double span = device_sum(devices, COLUMN_SPAN);
    check.coverage =
        1 - device_sum(devices, COLUMN_UNATTRIBUTED) / device_sum(devices, COLUMN_RUNNING);
    check.largest_part = larger(largest_of_devices(devices), largest_group(cell, span));
    /* Devices run side by side: each is compared. */
    check.span_over_host = longest_span(devices) / traced_ns(cell);
    check.share_sum = worst_share_sum(cell);
    check.uneven = metric_of(cell, METRIC_UNEVEN_GROUPS);
    check.unseen = metric_of(cell, METRIC_LAUNCHES_UNSEEN);
    check.overhead = statistics_of_series(cell_find_series(cell, SERIES_TRACED)).median /
                         statistics_of_series(cell_find_series(cell, SERIES_UNTRACED)).median -
                     1;
    return check;
}

dyno_status profile_check_enforce(const profile_check *c) {
    if (!(c->coverage >= PROFILE_LEAST_COVERAGE))
        return dyno_fail(DYNO_CORRUPT,
                         "%.2f %% of the device's time is attributed to launches, it must be %.0f "
                         "%%: the rest of the profile would be about something else",
                         100 * c->coverage, 100 * PROFILE_LEAST_COVERAGE);
    if (!(c->largest_part <= 1 + ROUNDING))
        return dyno_fail(DYNO_CORRUPT,
                         "a part of a step takes %.4f of the step that it is part of: times of "
                         "several steps were added up",
                         c->largest_part);
    if (c->span_over_host > 1 + PROFILE_CLOCK_TOLERANCE)
        return dyno_fail(DYNO_CORRUPT,
                         "the device takes %.3f of the step that the host saw begin and end: times "
                         "of several steps were added up, or clocks do not agree",
                         c->span_over_host);
    if (!(fabs(c->share_sum - 1) <= ROUNDING))
        return dyno_fail(DYNO_CORRUPT, "the shares of a breakdown add up to %.4f %%, not to 100",
                         100 * c->share_sum);
    if (c->uneven > 0)
        return dyno_fail(DYNO_CORRUPT,
                         "%.0f kinds of launches have other counts in one traced step than in "
                         "another, so that no count per step is whole",
                         c->uneven);
    if (c->unseen > 0)
        return dyno_fail(DYNO_CORRUPT,
                         "%.0f launches of the step left no record: a phase is incomplete, and "
                         "nothing is derived from it",
                         c->unseen);
    return DYNO_OK;
}
