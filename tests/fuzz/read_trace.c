#define _GNU_SOURCE
#include "read_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "profile/attention_parts.h"
#include "profile/foreign_trace.h"
#include "profile/host_phases.h"
#include "profile/kernel_groups.h"

static void require(int holds) {
    if (!holds)
        abort();
}

typedef struct sums {
    kernel_groups *groups;
    attention_parts *attention, *own;
    host_phases *phases;
    int64_t records, ranges;
} sums;

static dyno_status take_record(void *caller, const launch_record *record) {
    sums *s = caller;
    require(record->recorded && record->class_name && record->step >= 0);
    require(record->begin_ns >= 0 && record->end_ns >= record->begin_ns);
    s->records++;
    attention_parts_add(s->attention, record);
    attention_parts_add_own(s->own, record);
    return kernel_groups_add(s->groups, record);
}

static dyno_status take_range(void *caller, const foreign_range *range) {
    sums *s = caller;
    require(range->begin_ns >= 0 && range->end_ns >= range->begin_ns);
    host_phases_add(s->phases, range->phase, range->process, range->begin_ns, range->end_ns);
    s->ranges++;
    return DYNO_OK;
}

/* The process that stands for a phase has no more ranges of it than there are. */
static void check_phases(const sums *s) {
    const host_phase *phases;
    int64_t ranges = host_phases_steps(s->phases).count;
    int count = host_phases_list(s->phases, &phases);
    for (int i = 0; i < count; i++) {
        require(phases[i].count > 0 && phases[i].ns >= 0);
        ranges += phases[i].count;
    }
    require(ranges <= s->ranges);
}

/* SQLite follows links, so that /proc/self/fd would not do: a file of its own, in memory. */
static const char *write_file(const uint8_t *data, size_t size) {
    static char path[64];
    snprintf(path, sizeof path, "/dev/shm/dyno-fuzz-%d", (int)getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(file >= 0 && write(file, data, size) == (ssize_t)size);
    close(file);
    return path;
}

void read_trace(const uint8_t *data, size_t size) {
    static const grouping by[] = {{"phase", {GROUP_PHASE}, 1}, {"scope", {GROUP_SCOPE}, 1}};
    sums s = {kernel_groups_create(by, 2),
              attention_parts_create(),
              attention_parts_create(),
              host_phases_create(),
              0,
              0};
    kernel_classes *classes;
    foreign_trace trace;
    require(kernel_classes_create(NULL, &classes) == DYNO_OK);
    foreign_visitor visitor = {&s, classes, take_record, take_range, NULL};
    const char *path = write_file(data, size);
    dyno_status status = foreign_trace_read(path, &visitor, &trace);
    unlink(path);
    require(status == DYNO_OK || dyno_error_message()[0]);
    int64_t joined = 0;
    for (int i = 0; i < JOIN_COUNT; i++)
        joined += trace.joined[i];
    require(joined == trace.records && trace.records == s.records);
    check_phases(&s);
    kernel_classes_destroy(classes);
    attention_parts_destroy(s.attention);
    attention_parts_destroy(s.own);
    host_phases_destroy(s.phases);
    kernel_groups_destroy(s.groups);
}
