/* refusals.h - cells of a grid that cannot be run as asked.
 *
 * Such a cell is a row with the status SKIP and the reason; the others are measured. Nothing else is
 * measured under its name. A grid in which every cell is refused fails with the first reason. */
#ifndef EXPERIMENTS_REFUSALS_H
#define EXPERIMENTS_REFUSALS_H

#include <stdbool.h>

#include "measure/results.h"

typedef struct refusals {
    int64_t count;
    dyno_status status; /* of the first, with its message */
    char reason[1024];
} refusals;

/* Whether a failure of planning a cell says that it cannot be as asked, rather than that something
 * broke. */
bool refusals_are_of(dyno_status status);
/* Counts the cell whose planning has just failed, and keeps the first one's message. */
void refusals_add(refusals *r, dyno_status status);
/* Makes the cell whose planning has just failed a row that says why. */
void refusals_record(results_cell *cell);
/* Fails where all of so many cells were refused. */
NODISCARD dyno_status refusals_conclude(const refusals *r, int64_t cells);

#endif
