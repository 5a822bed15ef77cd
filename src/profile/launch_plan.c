#include "profile/launch_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *launch_plan_name(launch_log *log, const plan_launch *l) {
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", l->kernel_name, l->variant ? " " : "",
             l->variant ? l->variant : "");
    return launch_log_name(log, name);
}

/* The texts of a plan's launches, which a record of every step refers to. */
typedef struct launch_texts {
    const char *kernel, *op, *class_name, *scope;
} launch_texts;

static launch_texts *take_texts(launch_log *log, const plan *p) {
    launch_texts *texts = memory_allocate((size_t)p->launch_count, sizeof *texts);
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        texts[i] = (launch_texts){launch_plan_name(log, l), launch_log_name(log, l->op_name),
                                  launch_log_name(log, l->class_name),
                                  launch_log_name(log, p->scopes[l->scope])};
    }
    return texts;
}

/* `part`: of what the launch costs. */
static void describe(launch_record *r, const plan_launch *l, const launch_texts *texts,
                     double part) {
    r->kernel = texts->kernel;
    r->op = texts->op;
    r->class_name = texts->class_name;
    r->scope = texts->scope;
    r->phase = phase_name(l->phase);
    r->backward_part = l->phase == PHASE_BACKWARD ? 0 : plan_launch_share(l, PHASE_BACKWARD);
    r->has_cost = true;
    r->flops = part * l->flops;
    r->bytes = part * (l->bytes_read + l->bytes_written);
}

/* Records of one launch in one repetition of one step: [begin, end). */
static int64_t end_of_launch(const launch_log *log, int64_t begin) {
    int64_t end = begin + 1;
    while (end < log->count && log->records[end].step == log->records[begin].step &&
           log->records[end].repetition == log->records[begin].repetition &&
           log->records[end].launch == log->records[begin].launch)
        end++;
    return end;
}

/* ---- launches that left several records ---- */

enum { MOST_PARTS = 64 }; /* records of a launch that are told apart */

/* What the records of a launch take, in their order of time. Launches that do the same work have one answer for
 * all of them and for all steps, so that every step, and every layer, has the same rows. */
typedef struct record_parts {
    int *alike;    /* by launch: the first one that does the same work */
    int *count;    /* records of a launch, at most MOST_PARTS */
    double *times; /* [launch][MOST_PARTS], summed up over those that are alike */
} record_parts;

static bool do_the_same(const plan_launch *a, const plan_launch *b) {
    return strcmp(a->kernel_name, b->kernel_name) == 0 && strcmp(a->op_name, b->op_name) == 0 &&
           a->phase == b->phase && a->flops == b->flops && a->bytes_read == b->bytes_read &&
           a->bytes_written == b->bytes_written;
}

static void find_alike(const plan *p, record_parts *parts) {
    for (int i = 0; i < p->launch_count; i++) {
        parts->alike[i] = i;
        for (int j = 0; j < i && parts->count[i] > 1 && parts->alike[i] == i; j++)
            if (parts->alike[j] == j && parts->count[j] == parts->count[i] &&
                do_the_same(&p->launches[i], &p->launches[j]))
                parts->alike[i] = j;
    }
}

static void count_records(const launch_log *log, record_parts *parts) {
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        int launch = log->records[begin].launch;
        end = end_of_launch(log, begin);
        int count = end - begin < MOST_PARTS ? (int)(end - begin) : MOST_PARTS;
        if (launch != LAUNCH_UNKNOWN && count > parts->count[launch])
            parts->count[launch] = count;
    }
}

static record_parts find_parts(const launch_log *log, const plan *p) {
    size_t launches = (size_t)p->launch_count;
    record_parts parts = {.alike = memory_allocate(launches, sizeof *parts.alike),
                          .count = memory_allocate(launches, sizeof *parts.count),
                          .times = memory_allocate(launches, MOST_PARTS * sizeof *parts.times)};
    count_records(log, &parts);
    find_alike(p, &parts);
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        int launch = log->records[begin].launch;
        end = end_of_launch(log, begin);
        for (int64_t i = begin; launch != LAUNCH_UNKNOWN && i < end && i - begin < MOST_PARTS; i++)
            parts.times[(int64_t)parts.alike[launch] * MOST_PARTS + i - begin] +=
                (double)(log->records[i].end_ns - log->records[i].begin_ns);
    }
    return parts;
}

static void parts_release(record_parts *parts) {
    free(parts->alike);
    free(parts->count);
    free(parts->times);
}

/* The record that stands for the launch: the one that runs longest. */
static int longest_part(const double *times) {
    int longest = 0;
    for (int i = 1; i < MOST_PARTS; i++)
        if (times[i] > times[longest])
            longest = i;
    return longest;
}

/* The record's part of the time of all of the launch's. */
static double part_of_time(const double *times, int64_t record) {
    double all = 0;
    for (int i = 0; i < MOST_PARTS; i++)
        all += times[i];
    if (all <= 0)
        return record == 0;
    return record < MOST_PARTS ? times[record] / all : 0;
}

void launch_plan_describe(launch_log *log, const plan *p) {
    launch_texts *texts = take_texts(log, p);
    record_parts parts = find_parts(log, p);
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        int launch = log->records[begin].launch;
        end = end_of_launch(log, begin);
        if (launch == LAUNCH_UNKNOWN)
            continue;
        const double *times = parts.times + (int64_t)parts.alike[launch] * MOST_PARTS;
        int longest = longest_part(times);
        for (int64_t i = begin; i < end; i++) {
            log->records[i].is_further = i - begin != longest;
            describe(&log->records[i], &p->launches[launch], &texts[launch],
                     end - begin == 1 ? 1 : part_of_time(times, i - begin));
        }
    }
    parts_release(&parts);
    free(texts);
}
