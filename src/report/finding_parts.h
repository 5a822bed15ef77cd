/* finding_parts.h - what the sentences of several experiments are put together from. */
#ifndef REPORT_FINDING_PARTS_H
#define REPORT_FINDING_PARTS_H

#include "base/text.h"
#include "measure/results.h"

/* Beyond this many cells no pairs of them are looked for. */
enum { FINDING_MOST_CELLS = 2000 };

/* In ms; NAN where nothing may be derived. */
double finding_median_ms(const results_cell *cell);
/* Measured in a cell that ran, else from its plan; NAN: neither. */
double finding_peak_bytes(const results_cell *cell);
/* "64.00 MiB" */
void finding_append_bytes(double bytes, text *out);

/* Whether the cells are the same measurement but for one parameter (and what follows from it). */
bool finding_differ_only_in(const results_cell *a, const results_cell *b, const char *parameter);

/* Whether the run is about ways to do the same: precisions, modes, warm-up and others. */
bool finding_compares_ways(const results *run);

/* "model small, context 128, pass step": of what varies in the run, and model and pass; without `except`, which
 * ends with NULL and may be NULL. */
void finding_append_cell_name(const results *run, const results_cell *cell,
                              const char *const *except, text *out);

#endif
