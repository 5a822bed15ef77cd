/* collective_times.h - what a cell of `dyno allreduce` took, and the bandwidths that follow from it.
 *
 * The time of a repetition is the slowest rank's; that of a cell is the median of its repetitions. */
#ifndef REPORT_COLLECTIVE_TIMES_H
#define REPORT_COLLECTIVE_TIMES_H

#include "measure/results.h"
#include "measure/statistics.h"

/* A parameter as a count; 0 where it is no number that could be one. */
int64_t collective_parameter(const results_cell *cell, const char *name);

/* Of each repetition the slowest rank's ms, `*count` of them; the caller frees. `prefix` is that of the ranks'
 * series. NULL and 0 without samples of some rank, or with fewer than others have. */
double *collective_repetitions_ms(const results_cell *cell, const char *prefix, int64_t *count);
statistics collective_times_ms(const results_cell *cell, const char *prefix);

bool collective_is_timed(const results_cell *cell);
/* The median; NAN where the cell is not OK. */
double collective_time_ms(const results_cell *cell);

/* Of a repetition that takes `ms`: bytes / time, and that times the factor of nccl-tests. */
double collective_algorithm_gb_s(const results_cell *cell, double ms);
double collective_bus_gb_s(const results_cell *cell, double ms);

#endif
