#include "profile/launch_plan.h"

#include <stdio.h>
#include <stdlib.h>

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

static void describe(launch_record *r, const plan_launch *l, const launch_texts *texts) {
    r->kernel = texts->kernel;
    r->op = texts->op;
    r->class_name = texts->class_name;
    r->scope = texts->scope;
    r->phase = phase_name(l->phase);
    r->backward_part = l->phase == PHASE_BACKWARD ? 0 : plan_launch_share(l, PHASE_BACKWARD);
    r->has_cost = true;
    r->flops = r->is_further ? 0 : l->flops;
    r->bytes = r->is_further ? 0 : l->bytes_read + l->bytes_written;
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

/* Of each launch, which of its records, in order of time, runs longest over all steps: one answer
 * for all of them, so that every step has the same rows. */
static int *find_longest(const launch_log *log, int launch_count) {
    enum { MOST = 64 }; /* records of a launch that are told apart */
    double *sums = memory_allocate((size_t)launch_count, MOST * sizeof *sums);
    int *longest = memory_allocate((size_t)launch_count, sizeof *longest);
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        int launch = log->records[begin].launch;
        end = end_of_launch(log, begin);
        for (int64_t i = begin; launch != LAUNCH_UNKNOWN && i < end && i - begin < MOST; i++)
            sums[(int64_t)launch * MOST + i - begin] +=
                (double)(log->records[i].end_ns - log->records[i].begin_ns);
    }
    for (int i = 0; i < launch_count; i++)
        for (int j = 1; j < MOST; j++)
            if (sums[(int64_t)i * MOST + j] > sums[(int64_t)i * MOST + longest[i]])
                longest[i] = j;
    free(sums);
    return longest;
}

void launch_plan_describe(launch_log *log, const plan *p) {
    launch_texts *texts = take_texts(log, p);
    int *longest = find_longest(log, p->launch_count);
    for (int64_t begin = 0, end; begin < log->count; begin = end) {
        int launch = log->records[begin].launch;
        end = end_of_launch(log, begin);
        for (int64_t i = begin; launch != LAUNCH_UNKNOWN && i < end; i++) {
            log->records[i].is_further = i - begin != longest[launch];
            describe(&log->records[i], &p->launches[launch], &texts[launch]);
        }
    }
    free(longest);
    free(texts);
}
