/* profile_rows.h - what the tables of a profile read from a cell's breakdowns, and derive: shares,
 * rates and floors.
 *
 * The floor of a launch is the least time it could take here: its bytes over the measured bandwidth of
 * a copy, or its FLOPs over the measured peak of its math, whichever is more. A file may lack any
 * breakdown or column: what depends on it is then NAN, and shows as a gap. */
#ifndef REPORT_PROFILE_ROWS_H
#define REPORT_PROFILE_ROWS_H

#include "measure/results.h"
#include "report/document.h"

/* A breakdown of a cell, and what its rows are held against. */
typedef struct profile_rows {
    const results_breakdown *of; /* NULL: the cell has none; row_count is 0 then */
    int64_t count;
    double peak_flops, bandwidth; /* a second; NAN: not measured */
} profile_rows;

profile_rows profile_rows_find(const results *run, const results_cell *cell, const char *breakdown);

/* The column's value in ns, FLOP, B or as it is; NAN when there is none. */
double profile_rows_number(const profile_rows *rows, int64_t row, const char *column);
/* The text of a key; "" when there is none. */
const char *profile_rows_text(const profile_rows *rows, int64_t row, const char *key);
double profile_rows_sum(const profile_rows *rows, const char *column);
/* ns a step; NAN where the row's cost or the machine's rates are not known. The launches of the row
 * must be alike (BREAKDOWN_KINDS, BREAKDOWN_BY_LAUNCH). */
double profile_rows_floor(const profile_rows *rows, int64_t row);
/* Whether memory decides the floor. */
bool profile_rows_is_bound_by_memory(const profile_rows *rows, int64_t row);

/* The sum of floors of all kinds of launches whose `key` is this. */
double profile_rows_floor_of(const profile_rows *kinds, const char *key, const char *value);

/* The texts that kinds have under one key, among those whose `key` is `value`: the one that takes most
 * time, and how many there are. */
typedef struct profile_main {
    const char *text; /* "" when there is none */
    int count;
} profile_main;
profile_main profile_rows_main(const profile_rows *kinds, const char *key, const char *value,
                               const char *wanted);

/* Of a cell, "forward" and so on; NAN when it has none. ns a step. */
double profile_phase_ns(const results *run, const results_cell *cell, const char *phase);

/* The cell's device is the CPU, where host and device are the same. */
bool profile_is_on_cpu(const results_cell *cell);
/* Median of an untraced step by the host's clock, in ns; NAN where it was not timed. */
double profile_host_ns(const results_cell *cell);
/* The whole device's value of a column of BREAKDOWN_DEVICES, summed over devices. */
double profile_device_number(const results *run, const results_cell *cell, const char *column);
/* A GPU is idle for more of the untraced step than PROFILE_IDLE_LIMIT: it waits for the host. */
#define PROFILE_IDLE_LIMIT 0.10
bool profile_is_host_bound(const results *run, const results_cell *cell);
/* Whether the cell was traced and its profile can be shown. */
bool profile_is_shown(const results_cell *cell);
/* What became of the cell: one that was timed and not traced is INCOMPLETE, and the note says so. */
const char *profile_status_name(const results_cell *cell);
void profile_append_note(const results_cell *cell, text *out);

/* What was asked to be shown. */
const char *profile_shown_by(const results *run); /* NULL: everything */
int64_t profile_shown_number(const results *run, const char *key, int64_t fallback);
bool profile_shows_tree(const results *run); /* also in files: its depth was asked for */

/* The parts of the view, each a function of its own file. `is_full`: for a file, all rows, every row
 * with its cell's parameters. */
void profile_add_groups(const results *run, const results_cell *cell, const char *by,
                        report_document *out);
/* The same of all cells in one table, for a file. */
void profile_add_all_groups(const results *run, const char *by, report_document *out);
void profile_add_next(const results *run, const results_cell *cell, bool is_full,
                      report_document *out);
/* The first row of that table as a sentence; nothing where no launch is above its floor. */
void profile_append_next(const results *run, const results_cell *cell, text *out);
void profile_add_classes(const results *run, const results_cell *cell, bool is_full,
                         report_document *out);
void profile_add_attention(const results *run, const results_cell *cell, bool is_full,
                           report_document *out);
void profile_add_products(const results *run, report_document *out);
void profile_add_scopes(const results *run, const results_cell *cell, bool is_full,
                        report_document *out);
/* The tree of all cells in one table, for a file. */
void profile_add_all_scopes(const results *run, report_document *out);

/* Whether the cell is of another program's trace; such a run is shown in its own way. */
bool profile_is_foreign(const results_cell *cell);
void view_profile_from(const results *run, bool is_full, report_document *out);

/* A table of one cell: for people the title says which, for files columns do, and what became of it. */
report_table *profile_create_table(const results *run, const results_cell *cell, const char *title,
                                   bool is_full);
/* The model, context and pass of a cell, and what else tells it from others of the run. */
void profile_append_cell(const results *run, const results_cell *cell, text *out);
/* The next row; in a table for files with those columns. */
void profile_add_row(const results_cell *cell, bool is_full, report_table *table);

/* A table of every cell of a run, for a file: the columns behind those of the cell, and the rows of one
 * that was profiled. One that was not is a row all the same. */
typedef struct profile_part profile_part;
struct profile_part {
    const results *run;
    const char *title;
    const void *context; /* of the functions */
    void (*add_columns)(const profile_part *part, report_table *table);
    void (*add_rows)(const profile_part *part, const results_cell *cell, report_table *table);
};
void profile_add_every_cell(const results *run, const profile_part *part, report_document *out);

#endif
