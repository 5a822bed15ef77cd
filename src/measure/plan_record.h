/* plan_record.h - a plan as numbers in a cell of a run. */
#ifndef MEASURE_PLAN_RECORD_H
#define MEASURE_PLAN_RECORD_H

#include "measure/results.h"
#include "plan/plan.h"

/* What `p` costs before it runs: launches and how many of them are casts, FLOPs in all and by phase,
 * those of launches that do work of two phases, bytes moved. */
void plan_record_cost(const plan *p, results_cell *cell);

/* The same, and bytes by role, the peak with its launch and values; breakdowns "by_scope" and
 * "peak_values". `memory_bytes` is what it has to fit; 0: nothing said about that. */
void plan_record(const plan *p, int64_t memory_bytes, results_cell *cell);

#endif
