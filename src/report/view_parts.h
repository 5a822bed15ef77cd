/* view_parts.h - what the views of several verbs are put together from. */
#ifndef REPORT_VIEW_PARTS_H
#define REPORT_VIEW_PARTS_H

#include "measure/results.h"
#include "report/document.h"

/* A table wider than this is not for reading; files with more names are not dyno's. */
enum { VIEW_MOST_NAMES = 64 };

typedef struct view_list {
    const char *names[VIEW_MOST_NAMES];
    const char *units[VIEW_MOST_NAMES];
    int count;
} view_list;

/* Adds the name unless it is there or there are too many. */
void view_list_add(view_list *list, const char *name, const char *unit);

/* `names` ends with NULL. */
bool view_is_one_of(const char *name, const char *const *names);

/* Milliseconds in one of `unit`; NAN when it is not a unit of time. */
double view_ms_per_unit(const char *unit);

/* The sizes of a model are in its name; files have them one by one as well. */
bool view_is_in_the_models_name(const results_cell *cell, const char *key);

/* "model small, context 128, pass forward": names a cell in titles. */
void view_describe_cell(const results_cell *cell, text *out);

void view_append_value(text *out, const results_value *value);
/* The next cell of the row; NULL leaves a gap. */
void view_add_value(report_table *table, const results_value *value);
/* The next cell of the row: 3 decimals, and more where it takes them to show three digits. */
void view_add_three_digits(report_table *table, double value);
/* False when either is missing. */
bool view_values_are_equal(const results_value *a, const results_value *b);

/* Every parameter that a cell of the run has, in the order in which they come. */
void view_collect_parameters(const results *run, view_list *list);
/* The run must have a cell. */
bool view_parameter_varies(const results *run, const char *key);
/* Numbers to the right, texts to the left. */
void view_add_parameter_column(const results *run, const char *name, const char *header,
                               report_table *table);
/* The parameters that get a column: those of `always`, and those that vary, or all if the table is
 * full, but none of `never`; both lists end with NULL. The title tells the others. */
void view_choose_parameters(const results *run, bool is_full, const char *const *always,
                            const char *const *never, view_list *chosen, text *title);
/* The cell's status; INCOMPLETE for one that calls itself OK and has no samples of the whole pass,
 * or fewer than the parameter `asked_for` says. `whole` may be NULL. */
results_status view_trusted_status(const results_cell *cell, const results_series *whole,
                                   const char *asked_for);
/* Of the whole pass, or NULL. */
const results_series *view_whole_steps(const results_cell *cell);
results_status view_steps_status(const results_cell *cell);
/* The parameter; "" when there is none, or it is a number. */
const char *view_text(const results_cell *cell, const char *name);
/* NAN when the cell has none of that name. */
double view_metric(const results_cell *cell, const char *name);

/* What the cell's rates are held against, in GFLOP/s: its own peak, that of a GPU in its math; else
 * the environment's, for bf16 where the CPU multiplies it. NAN: none was measured. */
double view_peak_gflops(const results *run, const results_cell *cell);
/* 100 x FLOP / seconds / peak; NAN where one of them is missing or 0. */
double view_utilization(double flops, double seconds, double peak_gflops);
/* Whether a cell has such a peak; a table for people has no columns of MFU and HFU otherwise. */
bool view_has_peak(const results *run);
/* Says below the table what MFU and HFU are, of which time, and what the peak is, or that none was
 * measured. */
void view_note_utilization(const results *run, const char *time, report_table *table);

/* A breakdown with so many keys and columns, or NULL: the file may hold another. */
const results_breakdown *view_breakdown_of_form(const results_cell *cell, const char *name,
                                                int keys, int columns);
/* The largest values alive at the peak, from the cell's breakdown "peak_values". */
report_table *view_create_peak_table(const results_cell *cell, const results_breakdown *values);

/* "needs 12.00 GiB, there is 7.50 GiB", then the reason. */
void view_append_note(text *out, const results_cell *cell);
/* Says below the table how the FLOPs and the time of launches that do work of two phases were
 * divided, if the cell has such. */
void view_note_split_launches(const results_cell *cell, report_table *table);
/* Says that the run did not come to its end, if it did not. */
void view_add_interruption(const results *run, report_document *out);
/* The table of the cells that have the breakdown "memory_stages"; nothing where none has. */
void view_memory_stages(const results *run, report_document *out);
/* The curve of each cell's steps, and its breakdowns as tables and bars. */
void view_add_cells(const results *run, bool is_full, report_document *out);
/* Says below the table that the machine was busy while the run was measured, and what to do, if it
 * was: from the metrics that contention_record leaves in cells (measure/contention.h), and from
 * cores_available and threads of the environment. */
void view_note_contention(const results *run, report_table *table);
/* "bench on AMD EPYC, 2025-01-31T12:00:00Z"; the GPU where there is one that was used. */
void view_append_origin(const results *run, text *out);

#endif
