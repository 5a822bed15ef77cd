/* launch_log.c - sorts records by step and launch, then sweeps over the time of each step. */
#include "profile/launch_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void launch_log_add(launch_log *log, const launch_record *record) {
    MEMORY_GROW(log->records, log->count, log->capacity);
    log->records[log->count++] = *record;
}

void launch_log_reserve(launch_log *log, int64_t more) {
    if (log->capacity - log->count >= more)
        return;
    int64_t twice = 2 * log->capacity;
    log->capacity = log->count + more > twice ? log->count + more : twice;
    log->records = memory_resize(log->records, (size_t)log->capacity, sizeof *log->records);
}

void launch_log_add_step(launch_log *log, logged_step step) {
    MEMORY_GROW(log->steps, log->step_count, log->step_capacity);
    log->steps[log->step_count++] = step;
}

const char *launch_log_name(launch_log *log, const char *name) {
    int found = name_table_find(&log->names, name);
    if (found >= 0)
        return log->texts[found];
    MEMORY_GROW(log->texts, log->text_count, log->text_capacity);
    log->texts[log->text_count] = memory_copy_string(name);
    name_table_set(&log->names, log->texts[log->text_count], log->text_count);
    return log->texts[log->text_count++];
}

void launch_log_release(launch_log *log) {
    free(log->records);
    free(log->steps);
    for (int i = 0; i < log->text_count; i++)
        free(log->texts[i]);
    free(log->texts);
    name_table_release(&log->names);
    *log = (launch_log){0};
}

void launch_log_append(launch_log *to, const launch_log *from, int first_step) {
    int before = to->step_count;
    for (int64_t i = 0; i < from->count; i++) {
        launch_record r = from->records[i];
        if (r.step < first_step)
            continue;
        r.step += before - first_step;
        const char **texts[] = {&r.recorded, &r.kernel, &r.op,       &r.class_name,
                                &r.scope,    &r.phase,  &r.host_call};
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            *texts[j] = *texts[j] ? launch_log_name(to, *texts[j]) : NULL;
        launch_log_add(to, &r);
    }
    for (int i = first_step; i < from->step_count; i++)
        launch_log_add_step(to, from->steps[i]);
    to->dropped += from->dropped;
}

static int compare(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* By step and micro-batch, then in plan order, then in time. */
static int by_launch(const void *a, const void *b) {
    const launch_record *x = a, *y = b;
    int order = compare(x->step, y->step);
    order = order ? order : compare(x->repetition, y->repetition);
    order = order ? order : compare(x->launch, y->launch);
    return order ? order : compare(x->begin_ns, y->begin_ns);
}

static int by_begin(const void *a, const void *b) {
    const launch_record *x = *(launch_record *const *)a, *y = *(launch_record *const *)b;
    return compare(x->begin_ns, y->begin_ns);
}

static int by_moment(const void *a, const void *b) {
    return compare(*(const int64_t *)a, *(const int64_t *)b);
}

/* ---- is everything there? ---- */

static dyno_status check(const launch_log *a, const launch_log_question *asked) {
    if (a->dropped)
        return dyno_fail(DYNO_CORRUPT,
                         "%lld of the device's records were dropped; trace fewer steps",
                         (long long)a->dropped);
    for (int64_t i = 0; i < a->count; i++) {
        const launch_record *r = &a->records[i];
        if (r->launch < LAUNCH_UNKNOWN || r->launch >= asked->launch_count ||
            r->end_ns < r->begin_ns)
            return dyno_fail(DYNO_CORRUPT,
                             "a record of the device is of launch %d of %d, %lld ns long",
                             r->launch, asked->launch_count, (long long)(r->end_ns - r->begin_ns));
    }
    return DYNO_OK;
}

/* Every step runs the same launches, so a record that only some steps have was lost in the others.
 * */
static dyno_status compare_steps(const launch_record *records, int64_t count,
                                 const launch_log_question *asked, int step,
                                 int64_t *first_pieces) {
    int64_t *pieces = memory_allocate((size_t)asked->launch_count, sizeof *pieces);
    for (int64_t i = 0; i < count; i++)
        if (records[i].launch != LAUNCH_UNKNOWN)
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
static void cut_waiting(launch_record *records, int64_t count, const launch_log_question *asked) {
    int streams = 1;
    for (int i = 0; i < asked->launch_count; i++)
        streams = asked->stream[i] >= streams ? asked->stream[i] + 1 : streams;
    int64_t *last_end = memory_allocate((size_t)streams, sizeof *last_end);
    for (int i = 0; i < streams; i++)
        last_end[i] = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        launch_record *r = &records[i];
        if (r->launch == LAUNCH_UNKNOWN)
            continue;
        int64_t *last = &last_end[asked->stream[r->launch]];
        r->begin_ns = r->begin_ns > *last ? r->begin_ns : *last;
        r->end_ns = r->end_ns > r->begin_ns ? r->end_ns : r->begin_ns;
        *last = r->end_ns;
    }
    free(last_end);
}

/* Sweeps over all begins and ends, with the set of records that run in between. */
static void sweep(launch_record *records, int64_t count, launch_log_sums *out) {
    int64_t *moments = memory_allocate((size_t)count * 2, sizeof *moments);
    launch_record **order = memory_allocate((size_t)count, sizeof *order);
    launch_record **active = memory_allocate((size_t)count, sizeof *active);
    for (int64_t i = 0; i < count; i++) {
        records[i].share_ns = 0;
        order[i] = &records[i];
        moments[2 * i] = records[i].begin_ns;
        moments[2 * i + 1] = records[i].end_ns;
    }
    qsort(order, (size_t)count, sizeof *order, by_begin);
    qsort(moments, (size_t)count * 2, sizeof *moments, by_moment);
    int64_t next = 0, running = 0;
    for (int64_t i = 0; i + 1 < 2 * count; i++) {
        int64_t now = moments[i], ns = moments[i + 1] - now, still = 0;
        while (next < count && order[next]->begin_ns <= now)
            active[running++] = order[next++];
        for (int64_t j = 0; j < running; j++)
            if (active[j]->end_ns > now)
                active[still++] = active[j];
        running = still;
        out->busy_ns += running ? ns : 0;
        for (int64_t j = 0; j < running; j++)
            active[j]->share_ns += (double)ns / (double)running;
    }
    for (int64_t i = 0; i < count; i++)
        out->unknown_ns += records[i].launch == LAUNCH_UNKNOWN ? records[i].share_ns : 0;
    free(moments);
    free(order);
    free(active);
}

/* The records of one step, in the order of by_launch. *last_end is that of the step before, and
 * then of this one. */
static void settle_step(launch_record *records, int64_t count, const launch_log_question *asked,
                        bool is_first, int64_t *last_end, launch_log_sums *out) {
    int64_t begin = records[0].begin_ns, end = records[0].end_ns;
    for (int64_t i = 1; i < count; i++) {
        begin = records[i].begin_ns < begin ? records[i].begin_ns : begin;
        end = records[i].end_ns > end ? records[i].end_ns : end;
    }
    out->span_ns += end - begin;
    out->between_ns += is_first ? 0 : begin - *last_end;
    *last_end = end;
    cut_waiting(records, count, asked);
    sweep(records, count, out);
}

/* The records of a launch in a step, in order of time, are those of its repetitions: as many each. */
static void find_repetitions(launch_log *log, const launch_log_question *asked) {
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        const launch_record *first = &log->records[begin];
        for (end = begin + 1; end < log->count; end++)
            if (log->records[end].step != first->step || log->records[end].launch != first->launch)
                break;
        int times = first->launch == LAUNCH_UNKNOWN ? 1 : asked->times[first->launch];
        for (int64_t i = begin; i < end; i++)
            log->records[i].repetition =
                times == 1 ? asked->repetitions - 1 : (int)((i - begin) * times / (end - begin));
    }
}

/* Only the steps that were asked for, numbered from 0, and in order. */
static void keep_steps(launch_log *log, const launch_log_question *asked) {
    int64_t kept = 0;
    int end = asked->first_step + asked->step_count, steps = 0;
    for (int64_t i = 0; i < log->count; i++)
        if (log->records[i].step >= asked->first_step && log->records[i].step < end) {
            log->records[kept] = log->records[i];
            log->records[kept].repetition = 0;
            log->records[kept++].step -= asked->first_step;
        }
    log->count = kept;
    for (int i = asked->first_step; i < log->step_count && i < end; i++)
        log->steps[steps++] = log->steps[i];
    log->step_count = steps;
    if (!kept)
        return;
    qsort(log->records, (size_t)kept, sizeof *log->records, by_launch);
    if (asked->times && asked->repetitions > 1) {
        find_repetitions(log, asked);
        qsort(log->records, (size_t)kept, sizeof *log->records, by_launch);
    }
}

dyno_status launch_log_settle(launch_log *log, const launch_log_question *asked,
                              launch_log_sums *out) {
    *out = (launch_log_sums){0};
    RETURN_IF_FAILED(check(log, asked));
    keep_steps(log, asked);
    int64_t *first_pieces = memory_allocate((size_t)asked->launch_count, sizeof *first_pieces);
    dyno_status status = DYNO_OK;
    int64_t at = 0, last_end = 0;
    for (int step = 0; step < asked->step_count && status == DYNO_OK; step++) {
        int64_t begin = at;
        while (at < log->count && log->records[at].step == step)
            at++;
        status = compare_steps(log->records + begin, at - begin, asked, step, first_pieces);
        if (status == DYNO_OK)
            settle_step(log->records + begin, at - begin, asked, step == 0, &last_end, out);
    }
    for (int i = 0; i < asked->launch_count; i++)
        out->unseen += first_pieces[i] == 0;
    free(first_pieces);
    if (status == DYNO_OK && out->unknown_ns > (double)out->busy_ns / 100)
        status =
            dyno_fail(DYNO_CORRUPT, "%.1f %% of the device's time belongs to no launch of the plan",
                      100 * out->unknown_ns / (double)out->busy_ns);
    if (status != DYNO_OK)
        *out = (launch_log_sums){0};
    return status;
}
