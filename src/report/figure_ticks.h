/* figure_ticks.h - where an axis has its numbers. */
#ifndef REPORT_FIGURE_TICKS_H
#define REPORT_FIGURE_TICKS_H

#include "report/figure.h"

enum { FIGURE_MOST_TICKS = 16 };

/* Round numbers inside of the range (powers of two for binary bytes), at least two; returns how many. */
int figure_ticks(const figure_axis *axis, figure_range range, double *ticks);

#endif
