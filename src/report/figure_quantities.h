/* figure_quantities.h - what figures show of a cell, each as a figure_read (figure_recipes.h). */
#ifndef REPORT_FIGURE_QUANTITIES_H
#define REPORT_FIGURE_QUANTITIES_H

#include "report/figure_recipes.h"

/* Times of whole steps, in ms. */
figure_read figure_read_step_time;
/* Measured in cells that ran, else from the plan; in bytes. */
figure_read figure_read_peak;
/* The step's time over its peak. Which: measured or predicted. */
enum { FIGURE_MEASURED, FIGURE_PREDICTED };
figure_read figure_read_time_at_peak;
/* Of a step of several ranks, in ms. They add up to the step. */
enum { FIGURE_COMPUTING, FIGURE_HIDDEN, FIGURE_EXPOSED };
figure_read figure_read_time_part;
/* Which: a memory_kind, at the fullest moment of the step; in bytes. */
figure_read figure_read_stage_kind;
/* The same from the plan of a cell of `dyno memory`. */
figure_read figure_read_planned_kind;
/* The slowest rank's ms, and GB/s. */
figure_read figure_read_collective_time;
figure_read figure_read_bus_bandwidth;
/* Of `dyno scale`: a step, in ms, hollow where collectives take longer than computing; the most ranks of a way. */
figure_read figure_read_scaled_step;
figure_read figure_read_largest_ranks;

/* Every step in its order, warm-up first. */
void figure_add_steps(figure *f, const results_cell *cell, figure_line *line);
void figure_line_add(figure_line *line, figure_point point);

/* What a device has, in bytes; NAN where the record does not tell. */
double figure_memory_limit(const results *run);

#endif
