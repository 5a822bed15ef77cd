/* interval_set.h - the union of intervals of time: when a device was busy, whichever of its streams
 * ran, and the gaps in between. */
#ifndef PROFILE_INTERVAL_SET_H
#define PROFILE_INTERVAL_SET_H

#include <stdint.h>

#include "profile/value_counts.h"

typedef struct interval {
    int64_t begin, end;
} interval;

/* Zero is empty. */
typedef struct interval_set {
    interval *merged; /* in order, neither touching nor overlapping */
    int64_t merged_count, merged_capacity;
    interval *fresh; /* not merged yet, in any order */
    int64_t fresh_count, fresh_capacity;
} interval_set;

/* Intervals come in any order; one without a length counts for the begin and end of the whole. */
void interval_set_add(interval_set *set, int64_t begin, int64_t end);
/* Adds those of another set, which it merges. */
void interval_set_add_all(interval_set *set, interval_set *more);
void interval_set_release(interval_set *set);

typedef struct interval_sums {
    int64_t begin, end; /* of the whole; both 0 when it is empty */
    int64_t busy;       /* covered by at least one interval */
    int64_t gaps;       /* between, and how many */
    int64_t gap_count;
} interval_sums;

/* The gaps between two times that intervals begin and end at; `busy` is the rest. Merges what was added. */
interval_sums interval_set_sum_within(interval_set *set, int64_t begin, int64_t end,
                                      value_counts *gaps);

/* Merges what was added; `gaps`, where it is not NULL, gets the length of each gap. */
interval_sums interval_set_sum(interval_set *set, value_counts *gaps);

#endif
