/* value_counts.c - an open-addressed table, at most three quarters full.
 *
 * Kernels of one name take times from a small range: a clock of nanoseconds gives a few thousand
 * different ones, however long the trace. */
#include "profile/value_counts.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

/* Multiplication by a large odd number spreads neighbours over the whole table. */
static size_t place_of(int64_t value, size_t capacity) {
    uint64_t mixed = (uint64_t)value * 0x9e3779b97f4a7c15u;
    return (size_t)(mixed ^ mixed >> 32) & (capacity - 1);
}

static value_count *find(value_count *entries, size_t capacity, int64_t value) {
    size_t at = place_of(value, capacity);
    while (entries[at].count && entries[at].value != value)
        at = (at + 1) & (capacity - 1);
    return &entries[at];
}

static void grow(value_counts *counts) {
    size_t capacity = counts->capacity ? 2 * counts->capacity : 16;
    value_count *entries = memory_allocate(capacity, sizeof *entries);
    for (size_t i = 0; i < counts->capacity; i++)
        if (counts->entries[i].count)
            *find(entries, capacity, counts->entries[i].value) = counts->entries[i];
    free(counts->entries);
    counts->entries = entries;
    counts->capacity = capacity;
}

void value_counts_add(value_counts *counts, int64_t value) {
    if (4 * (counts->used + 1) > 3 * counts->capacity)
        grow(counts);
    value_count *entry = find(counts->entries, counts->capacity, value);
    counts->used += entry->count == 0;
    entry->value = value;
    entry->count++;
}

void value_counts_release(value_counts *counts) {
    free(counts->entries);
    *counts = (value_counts){0};
}

static int by_value(const void *a, const void *b) {
    int64_t x = ((const value_count *)a)->value, y = ((const value_count *)b)->value;
    return (x > y) - (x < y);
}

/* The value at this place, from 0, when all are sorted. */
static int64_t value_at(const value_count *sorted, int64_t place) {
    size_t at = 0;
    while (place >= sorted[at].count)
        place -= sorted[at++].count;
    return sorted[at].value;
}

value_summary value_counts_summarize(const value_counts *counts) {
    value_summary s = {.std = NAN};
    if (!counts->used)
        return s;
    value_count *sorted = memory_allocate(counts->used, sizeof *sorted);
    size_t used = 0;
    for (size_t i = 0; i < counts->capacity; i++)
        if (counts->entries[i].count)
            sorted[used++] = counts->entries[i];
    qsort(sorted, used, sizeof *sorted, by_value);
    long double total = 0;
    for (size_t i = 0; i < used; i++) {
        s.count += sorted[i].count;
        total += (long double)sorted[i].count * (long double)sorted[i].value;
    }
    s.total = (double)total;
    s.min = sorted[0].value;
    s.max = sorted[used - 1].value;
    s.mean = (double)(total / (long double)s.count);
    s.median =
        ((double)value_at(sorted, (s.count - 1) / 2) + (double)value_at(sorted, s.count / 2)) / 2;
    long double squares = 0, mean = total / (long double)s.count;
    for (size_t i = 0; i < used; i++) {
        long double off = (long double)sorted[i].value - mean;
        squares += (long double)sorted[i].count * off * off;
    }
    if (s.count > 1)
        s.std = (double)sqrtl(squares / (long double)(s.count - 1));
    free(sorted);
    return s;
}
