/* plan_record.h - a plan as numbers in a cell of a run. */
#ifndef MEASURE_PLAN_RECORD_H
#define MEASURE_PLAN_RECORD_H

#include "measure/results.h"
#include "plan/plan.h"

/* FLOPs, launches, bytes by role, the peak with its launch and values; breakdowns "by_scope" and
 * "peak_values". `memory_bytes` is what it has to fit; 0: nothing said about that. */
void plan_record(const plan *p, int64_t memory_bytes, results_cell *cell);

#endif
