/* activity.c - sorts records by step and launch, then sweeps over the time of each step. */
#include "profile/activity.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void activity_add(activity *a, activity_record record) {
    if (a->count == a->capacity) {
        a->capacity = a->capacity ? 2 * a->capacity : 1024;
        a->records = memory_resize(a->records, (size_t)a->capacity, sizeof *a->records);
    }
    a->records[a->count++] = record;
}

int activity_add_name(activity *a, const char *name) {
    for (int i = 0; i < a->name_count; i++)
        if (strcmp(a->names[i], name) == 0)
            return i;
    MEMORY_GROW(a->names, a->name_count, a->name_capacity);
    a->names[a->name_count] = memory_copy_string(name);
    return a->name_count++;
}

void activity_release(activity *a) {
    free(a->records);
    for (int i = 0; i < a->name_count; i++)
        free(a->names[i]);
    free(a->names);
    *a = (activity){0};
}

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* By step, then in plan order, then in time. */
static int by_launch(const void *a, const void *b) {
    const activity_record *x = a, *y = b;
    int order = compare(x->step, y->step);
    order = order ? order : compare(x->launch, y->launch);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_begin(const void *a, const void *b) {
    const activity_record *x = a, *y = b;
    return compare(x->begin_ns, y->begin_ns);
}

static int by_moment(const void *a, const void *b) {
    return compare(*(const int64_t *)a, *(const int64_t *)b);
}

/* ---- is everything there? ---- */

static dyno_status check(const activity *a, const activity_question *asked) {
    if (a->dropped)
        return dyno_fail(DYNO_CORRUPT,
                         "%lld of the device's records were dropped; trace fewer steps",
                         (long long)a->dropped);
    for (int64_t i = 0; i < a->count; i++) {
        const activity_record *r = &a->records[i];
        if (r->launch < ACTIVITY_NOBODY || r->launch >= asked->launch_count ||
            r->end_ns < r->begin_ns)
            return dyno_fail(DYNO_CORRUPT,
                             "a record of the device is of launch %d of %d, %lld ns long",
                             r->launch, asked->launch_count, (long long)(r->end_ns - r->begin_ns));
    }
    return DYNO_OK;
}

/* Every step runs the same launches, so a record that only some steps have was lost in the others.
 * */
static dyno_status compare_steps(const activity_record *records, int64_t count,
                                 const activity_question *asked, int step, int64_t *first_pieces) {
    int64_t *pieces = memory_allocate((size_t)asked->launch_count, sizeof *pieces);
    for (int64_t i = 0; i < count; i++)
        if (records[i].launch != ACTIVITY_NOBODY)
            pieces[records[i].launch]++;
    dyno_status status = DYNO_OK;
    if (count == 0)
        status = dyno_fail(DYNO_CORRUPT, "the device has no record of traced step %d", step);
    for (int i = 0; i < asked->launch_count && status == DYNO_OK; i++) {
        if (step == 0)
            first_pieces[i] = pieces[i];
        else if (first_pieces[i] != pieces[i])
            status = dyno_fail(DYNO_CORRUPT,
                               "the device has %lld records of launch %d in traced step %d, %lld "
                               "in the first: some were lost",
                               (long long)pieces[i], i, step, (long long)first_pieces[i]);
    }
    free(pieces);
    return status;
}

/* ---- one step ---- */

/* Subtracts the time that a launch waited on the device for the previous one on its stream. */
static void cut_waiting(activity_record *records, int64_t count, const activity_question *asked) {
    int streams = 1;
    for (int i = 0; i < asked->launch_count; i++)
        streams = asked->stream[i] >= streams ? asked->stream[i] + 1 : streams;
    int64_t *last_end = memory_allocate((size_t)streams, sizeof *last_end);
    for (int i = 0; i < streams; i++)
        last_end[i] = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        activity_record *r = &records[i];
        if (r->launch == ACTIVITY_NOBODY)
            continue;
        int64_t *last = &last_end[asked->stream[r->launch]];
        r->begin_ns = r->begin_ns > *last ? r->begin_ns : *last;
        r->end_ns = r->end_ns > r->begin_ns ? r->end_ns : r->begin_ns;
        *last = r->end_ns;
    }
    free(last_end);
}

static void add_share(const activity_record *r, double ns, activity_times *out) {
    if (r->launch == ACTIVITY_NOBODY)
        out->unknown_ns += ns;
    else
        out->share_ns[r->launch] += ns;
}

/* Sweeps over all begins and ends, with the set of launches that run in between. */
static void sweep(activity_record *records, int64_t count, activity_times *out) {
    int64_t *moments = memory_allocate((size_t)count * 2, sizeof *moments);
    const activity_record **active = memory_allocate((size_t)count, sizeof *active);
    qsort(records, (size_t)count, sizeof *records, by_begin);
    for (int64_t i = 0; i < count; i++) {
        moments[2 * i] = records[i].begin_ns;
        moments[2 * i + 1] = records[i].end_ns;
    }
    qsort(moments, (size_t)count * 2, sizeof *moments, by_moment);
    int64_t next = 0, running = 0;
    for (int64_t i = 0; i + 1 < 2 * count; i++) {
        int64_t now = moments[i], ns = moments[i + 1] - now, still = 0;
        while (next < count && records[next].begin_ns <= now)
            active[running++] = &records[next++];
        for (int64_t j = 0; j < running; j++)
            if (active[j]->end_ns > now)
                active[still++] = active[j];
        running = still;
        out->busy_ns += running ? ns : 0;
        for (int64_t j = 0; j < running; j++)
            add_share(active[j], (double)ns / (double)running, out);
    }
    free(moments);
    free(active);
}

/* The records of one step, in the order of by_launch. *last_end is that of the step before, and
 * then of this one. */
static void add_step(activity_record *records, int64_t count, const activity_question *asked,
                     bool is_first, int64_t *last_end, activity_times *out) {
    int64_t begin = records[0].begin_ns, end = records[0].end_ns;
    for (int64_t i = 1; i < count; i++) {
        begin = records[i].begin_ns < begin ? records[i].begin_ns : begin;
        end = records[i].end_ns > end ? records[i].end_ns : end;
    }
    out->span_ns += end - begin;
    out->between_ns += is_first ? 0 : begin - *last_end;
    *last_end = end;
    cut_waiting(records, count, asked);
    for (int64_t i = 0; i < count; i++)
        if (records[i].launch != ACTIVITY_NOBODY) {
            out->running_ns[records[i].launch] += records[i].end_ns - records[i].begin_ns;
            out->pieces[records[i].launch]++;
        }
    sweep(records, count, out);
}

dyno_status activity_analyse(const activity *a, const activity_question *asked,
                             activity_times *out) {
    *out = (activity_times){0};
    RETURN_IF_FAILED(check(a, asked));
    size_t launches = (size_t)asked->launch_count;
    out->running_ns = memory_allocate(launches, sizeof *out->running_ns);
    out->share_ns = memory_allocate(launches, sizeof *out->share_ns);
    out->pieces = memory_allocate(launches, sizeof *out->pieces);
    int64_t *first_pieces = memory_allocate(launches, sizeof *first_pieces);
    activity_record *sorted = memory_allocate((size_t)a->count, sizeof *sorted);
    if (a->count)
        memcpy(sorted, a->records, (size_t)a->count * sizeof *sorted);
    qsort(sorted, (size_t)a->count, sizeof *sorted, by_launch);
    dyno_status status = DYNO_OK;
    int64_t at = 0, last_end = 0;
    for (int step = 0; step < asked->step_count && status == DYNO_OK; step++) {
        while (at < a->count && sorted[at].step < asked->first_step + step)
            at++;
        int64_t begin = at;
        while (at < a->count && sorted[at].step == asked->first_step + step)
            at++;
        status = compare_steps(sorted + begin, at - begin, asked, step, first_pieces);
        if (status == DYNO_OK)
            add_step(sorted + begin, at - begin, asked, step == 0, &last_end, out);
    }
    for (size_t i = 0; i < launches; i++)
        out->unseen += first_pieces[i] == 0;
    if (status == DYNO_OK && out->unknown_ns > (double)out->busy_ns / 100)
        status =
            dyno_fail(DYNO_CORRUPT, "%.1f %% of the device's time belongs to no launch of the plan",
                      100 * out->unknown_ns / (double)out->busy_ns);
    free(first_pieces);
    free(sorted);
    if (status != DYNO_OK)
        activity_times_release(out);
    return status;
}

void activity_times_release(activity_times *times) {
    free(times->running_ns);
    free(times->share_ns);
    free(times->pieces);
    *times = (activity_times){0};
}
