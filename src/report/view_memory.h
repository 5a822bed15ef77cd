/* view_memory.h - the parts of verb "memory" that a cell has beyond its row in the grid. */
#ifndef REPORT_VIEW_MEMORY_H
#define REPORT_VIEW_MEMORY_H

#include "measure/results.h"
#include "report/document.h"

/* Each part appends what the cells have recorded of it, a table for each cell; in full tables one for
 * all, whose rows begin with the cell's settings. */
typedef void view_memory_part(const results *run, bool is_full, report_document *out);
view_memory_part view_memory_timeline; /* in view_memory_timeline.c */
view_memory_part view_memory_peak, view_memory_allocations, view_memory_saved, view_memory_blocks,
    view_memory_advice; /* in view_memory_values.c */

/* A table of one cell, or of all (`cell` is NULL), with the columns of the settings, the status and what
 * there is to say of it then. */
report_table *view_memory_begin_table(const results_cell *cell, const char *what);
/* The next row; of a table of all cells with those columns of this one. A cell of which a part has
 * nothing is a row all the same. */
void view_memory_begin_row(report_table *t, const results_cell *cell, bool is_full);
/* "small, context 128, step, eager fp32" */
void view_memory_append_cell(const results_cell *cell, text *out);

/* The number in a column of that name; NAN when there is none. */
double view_memory_value(const results_breakdown *b, int64_t row, const char *column);

#endif
