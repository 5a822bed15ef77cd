/* plan_record.h - a plan as numbers in a cell of a run. */
#ifndef MEASURE_PLAN_RECORD_H
#define MEASURE_PLAN_RECORD_H

#include "measure/results.h"
#include "plan/memory_account.h"
#include "plan/plan.h"

/* What `p` costs before it runs: launches and how many of them are casts, FLOPs in all and by phase,
 * those of launches that do work of two phases, bytes moved. */
void plan_record_cost(const plan *p, results_cell *cell);

/* Bytes by role at the peak as `at_peak.ROLE`, its launch and `peak_at`. */
void plan_record_peak(const plan *p, const memory_account *account, results_cell *cell);
/* All values alive at a launch, those of one name, role and shape in one row: "peak_values". */
void plan_record_values_at(const plan *p, int launch, results_cell *cell);

/* The costs, bytes by role, the peak with its launch and values; breakdowns "by_scope" and
 * "peak_values". `memory_bytes` is what it has to fit; 0: nothing said about that. */
void plan_record(const plan *p, int64_t memory_bytes, results_cell *cell);

#endif
