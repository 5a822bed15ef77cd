/* view_ways.h - how the cells of a planned grid are run: parameters that are columns of a table when they
 * vary and part of its title when not. */
#ifndef REPORT_VIEW_WAYS_H
#define REPORT_VIEW_WAYS_H

#include "measure/results.h"
#include "report/table.h"

/* "batch 4, cpu, eager, fp32": what all cells have in common. The run must have a cell. */
void view_append_common_ways(const results *run, text *out);

/* A column for each way that varies, and a cell's value in each. */
void view_add_way_columns(const results *run, report_table *t);
void view_add_ways(const results_cell *cell, report_table *t);
bool view_are_run_alike(const results_cell *a, const results_cell *b);

/* Numbers of a file may be anything; those that are no whole number show as 0. */
int64_t view_whole(double number);
/* The next cell of the row; what is not finite leaves a gap. */
void view_add_whole(report_table *t, double number);
/* A parameter that is a count. */
int64_t view_parameter_number(const results_cell *cell, const char *name);

#endif
