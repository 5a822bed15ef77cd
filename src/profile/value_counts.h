/* value_counts.h - how often each of many whole numbers occurred: all that the statistics of a set of
 * durations need, exactly, in memory that grows with the different durations and not with their
 * number. */
#ifndef PROFILE_VALUE_COUNTS_H
#define PROFILE_VALUE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct value_count {
    int64_t value, count; /* count 0: the entry is free */
} value_count;

/* Zero is empty. */
typedef struct value_counts {
    value_count *entries;
    size_t used, capacity; /* the capacity is a power of two */
} value_counts;

void value_counts_add(value_counts *counts, int64_t value);
void value_counts_release(value_counts *counts);

/* Of all that was added. With nothing every number is 0; the standard deviation is that of a sample
 * (divided by count - 1), and NAN of fewer than two. */
typedef struct value_summary {
    int64_t count, min, max;
    double total, mean, median, std;
} value_summary;

value_summary value_counts_summarize(const value_counts *counts);

#endif
