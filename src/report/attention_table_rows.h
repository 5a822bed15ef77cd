/* attention_table_rows.h - the record of `dyno attention` as rows, and what is derived from them.
 *
 * A row is a point of the grid. It has up to two cells, of the pass "forward" and of
 * "forward+backward", which follow one another and agree in all parameters but the pass and what
 * depends on it. Each has a status of its own: a forward that fits says nothing of a backward that
 * does not. Times that were not measured, or not to the end, are NAN. */
#ifndef REPORT_ATTENTION_TABLE_ROWS_H
#define REPORT_ATTENTION_TABLE_ROWS_H

#include "measure/results.h"
#include "measure/statistics.h"

typedef struct attention_table_row {
    const results_cell *forward, *whole; /* either may be NULL, not both */
} attention_table_row;

typedef struct attention_table_rows {
    attention_table_row *rows;
    int64_t count;
} attention_table_rows;

/* Borrows the run's cells; released by attention_table_rows_release. */
attention_table_rows attention_table_rows_of(const results *run);
void attention_table_rows_release(attention_table_rows *all);

/* The three times that are measured. */
enum { ATTENTION_FORWARD, ATTENTION_BACKWARD, ATTENTION_END_TO_END, ATTENTION_TIME_COUNT };
/* "forward", "backward", "end-to-end" */
const char *attention_time_name(int which);
/* Whether some row was asked for this time. */
bool attention_table_rows_have_time(const attention_table_rows *all, int which);

/* A cell with the row's parameters. */
const results_cell *attention_table_row_cell(const attention_table_row *row);
bool attention_cell_has_text(const results_cell *cell, const char *key, const char *wanted);

/* Whether flash ran in fp32 on a GPU: its products are split into three of tf32, so that its rate can be above the
 * peak of fp32 (docs/decisions/0018). */
bool attention_has_split_products(const results *run);

/* Whether the runs of both passes had another tile forward than the row's: the sweep over all tiles
 * gives a tile to one pass and leaves the other its own. Their end-to-end time is no tile's. */
bool attention_table_row_is_mixed(const attention_table_row *row);

/* Whether all parameters of the two are the same but those of `except` (ends with NULL); pass,
 * repetitions and the tiles that were used never count. */
bool attention_table_rows_agree(const attention_table_row *a, const attention_table_row *b,
                                const char *const *except);

/* INCOMPLETE when the cell has fewer samples than repetitions. */
results_status attention_status(const results_cell *cell);
/* False for NULL. */
bool attention_is_ok(const results_cell *cell);

/* In ms; the mean and the extremes are left as they are. End-to-end it is NAN of a mixed row. */
statistics attention_table_row_time(const attention_table_row *row, int which);
/* For every implementation: 4 N^2 d for each head, half of it under a causal mask; the backward 2.5
 * times that. */
double attention_table_row_tflops(const attention_table_row *row, int which);

/* How a time grows along the curve of a row: the rows that differ from it in the length only. */
typedef struct attention_growth {
    int64_t lengths;  /* rows that have the time */
    double fit;       /* k of the c seq^k that fits them best; NAN below two different lengths */
    double at_end;    /* k between the two longest of them, ... */
    int64_t from, to; /* ... which are these */
} attention_growth;
attention_growth attention_growth_of(const attention_table_rows *all,
                                     const attention_table_row *row, int which);

#endif
