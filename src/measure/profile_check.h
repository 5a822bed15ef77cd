/* profile_check.h - what must be true of every profile, derived from its cell: measuring refuses a
 * cell of which it is not, and reports print the numbers. */
#ifndef MEASURE_PROFILE_CHECK_H
#define MEASURE_PROFILE_CHECK_H

#include "measure/results.h"

#define PROFILE_LEAST_COVERAGE 0.99
/* Of host and device clock over a step. */
#define PROFILE_CLOCK_TOLERANCE 0.02

typedef struct profile_check {
    double coverage;       /* of the time that devices ran: attributed to launches, from 0 to 1 */
    double largest_part;   /* the longest group, phase or scope over the step that it is part of */
    double span_over_host; /* of a step by the device's clock, over the host's; NAN: not timed */
    double share_sum;      /* of the breakdown whose shares are farthest from 1 */
    double uneven;         /* kinds of launches that some step has more of than another */
    double unseen;         /* launches of the plan that left no record: their phase is incomplete */
    double overhead;       /* traced over untraced step, less 1; NAN where it was not measured */
} profile_check;

/* NAN where the cell does not have what it takes. */
profile_check profile_check_cell(const results_cell *cell);

/* DYNO_CORRUPT with the number, the limit and what it means, for the first that is not true. */
NODISCARD dyno_status profile_check_enforce(const profile_check *check);

#endif
