/* table_layout.h - which columns of a table a terminal shows, and how wide each is.
 *
 * Settings that are the same in every row go into a heading. If the rest is too wide, headers and texts
 * are wrapped inside their columns; then what is the same in every row goes into the heading, too; then
 * columns are left out, the least important first. The most important one always stays. */
#ifndef REPORT_TABLE_LAYOUT_H
#define REPORT_TABLE_LAYOUT_H

#include "base/text.h"
#include "report/table.h"

typedef struct table_layout {
    int *columns; /* those that are shown, in the order of the table ... */
    int *widths;  /* ... and the columns of the screen that each has */
    int count;
    text heading;  /* "model small, context 128"; empty: nothing */
    text left_out; /* "std ms, min ms"; empty: nothing */
} table_layout;

enum { TABLE_GAP = 2, TABLE_NARROWEST = 40 };

/* `columns` is the width of the terminal, TABLE_NARROWEST at the least; 0: all columns in full, no
 * heading. The caller releases the layout. */
table_layout table_layout_create(const report_table *table, int columns);
void table_layout_release(table_layout *layout);

/* What stands in a column of a row, -1 being the header. Replaces what `shown` holds. */
void table_layout_show(const report_table *table, int row, int column, text *shown);

#endif
