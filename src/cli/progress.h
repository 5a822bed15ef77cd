/* progress.h - one line on stderr that says how far a sweep is, only for somebody watching.
 *
 * Work is in any unit in which cells are comparable (predicted FLOPs rather than their number),
 * so that the time left means something. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

#include "base/text.h"

typedef struct progress progress;

/* Shows nothing at all when stderr is not a terminal. */
progress *progress_create(double total_work);
/* Redraws at most ten times a second. `label` says what is being done. */
void progress_update(progress *line, double done_work, const char *label);
/* Erases the line, so that something else may be printed. */
void progress_clear(progress *line);
void progress_destroy(progress *line);

/* " 42 %  3.2 s left  label", cut to `width` columns; without the time while nothing is done. */
void progress_format(text *out, double done, double total, double elapsed_seconds,
                     const char *label, int width);

#endif
