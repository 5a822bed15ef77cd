/* interval_set.c - new intervals are collected, and merged into the sorted ones when there are as
 * many: each is moved a number of times that grows with the logarithm of all. */
#include "profile/interval_set.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

enum { LEAST_FRESH = 1024 };

static int by_begin(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Appends to a list in order of begins, joining what touches. */
static void append(interval_set *set, interval next) {
    interval *last = set->merged_count ? &set->merged[set->merged_count - 1] : NULL;
    if (last && next.begin <= last->end) {
        last->end = next.end > last->end ? next.end : last->end;
        return;
    }
    MEMORY_GROW(set->merged, set->merged_count, set->merged_capacity);
    set->merged[set->merged_count++] = next;
}

static void merge(interval_set *set) {
    interval *before = set->merged;
    int64_t count = set->merged_count, i = 0, j = 0;
    if (!set->fresh_count)
        return;
    qsort(set->fresh, (size_t)set->fresh_count, sizeof *set->fresh, by_begin);
    set->merged = NULL;
    set->merged_count = set->merged_capacity = 0;
    while (i < count || j < set->fresh_count) {
        bool is_old =
            j == set->fresh_count || (i < count && before[i].begin <= set->fresh[j].begin);
        append(set, is_old ? before[i++] : set->fresh[j++]);
    }
    free(before);
    set->fresh_count = 0;
}

void interval_set_add(interval_set *set, int64_t begin, int64_t end) {
    int64_t most = set->merged_count > LEAST_FRESH ? set->merged_count : LEAST_FRESH;
    if (set->fresh_count >= most)
        merge(set);
    MEMORY_GROW(set->fresh, set->fresh_count, set->fresh_capacity);
    set->fresh[set->fresh_count++] = (interval){begin, end};
}

void interval_set_add_all(interval_set *set, interval_set *more) {
    merge(more);
    for (int64_t i = 0; i < more->merged_count; i++)
        interval_set_add(set, more->merged[i].begin, more->merged[i].end);
}

void interval_set_release(interval_set *set) {
    free(set->merged);
    free(set->fresh);
    *set = (interval_set){0};
}

interval_sums interval_set_sum(interval_set *set, value_counts *gaps) {
    interval_sums sums = {0};
    merge(set);
    for (int64_t i = 0; i < set->merged_count; i++) {
        const interval *now = &set->merged[i];
        sums.busy += now->end - now->begin;
        if (i == 0)
            continue;
        int64_t gap = now->begin - set->merged[i - 1].end;
        sums.gaps += gap;
        sums.gap_count++;
        if (gaps)
            value_counts_add(gaps, gap);
    }
    if (set->merged_count) {
        sums.begin = set->merged[0].begin;
        sums.end = set->merged[set->merged_count - 1].end;
    }
    return sums;
}

/* The first merged interval that ends later than `at`. */
static int64_t find_later(const interval_set *set, int64_t at) {
    int64_t low = 0, high = set->merged_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (set->merged[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

interval_sums interval_set_sum_within(interval_set *set, int64_t begin, int64_t end,
                                      value_counts *gaps) {
    merge(set);
    interval_sums sums = {.begin = begin, .end = end, .busy = end - begin};
    int64_t at = begin;
    for (int64_t i = find_later(set, begin); i < set->merged_count && at < end; i++) {
        const interval *now = &set->merged[i];
        int64_t until = now->begin < end ? now->begin : end;
        if (until > at) {
            sums.gaps += until - at;
            sums.gap_count++;
            value_counts_add(gaps, until - at);
        }
        at = now->end;
    }
    sums.busy -= sums.gaps;
    return sums;
}
