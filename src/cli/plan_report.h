/* plan_report.h - a plan as numbers in a cell, and such cells as tables. */
#ifndef CLI_PLAN_REPORT_H
#define CLI_PLAN_REPORT_H

#include "measure/results.h"
#include "plan/plan.h"
#include "report/table.h"

typedef struct plan_report_options {
    table_format format; /* JSON is the run itself */
    bool is_bold;
    bool is_map;     /* memory needed, models down and contexts across, and nothing else */
    bool has_detail; /* FLOPs by scope and the values at the peak, for each cell */
} plan_report_options;

/* FLOPs, launches, bytes by role, the peak with its launch and values. `memory_bytes` is what it
 * has to fit; 0: nothing said about that. */
void plan_report_record(const plan *p, int64_t memory_bytes, results_cell *cell);

void plan_report_render(const results *run, plan_report_options options, text *out);

#endif
