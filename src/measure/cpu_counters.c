/* cpu_counters.c - a group of three counters for each thread, read together. */
#define _GNU_SOURCE
#include "measure/cpu_counters.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

enum { CYCLES, INSTRUCTIONS, CACHE_MISSES, COUNTERS };

struct cpu_counters {
    int (*threads)[COUNTERS]; /* descriptors; the first reads the whole group */
    int count, capacity;
};

static int open_counter(pid_t thread, int which, int group) {
    static const uint64_t EVENTS[COUNTERS] = {[CYCLES] = PERF_COUNT_HW_CPU_CYCLES,
                                              [INSTRUCTIONS] = PERF_COUNT_HW_INSTRUCTIONS,
                                              [CACHE_MISSES] = PERF_COUNT_HW_CACHE_MISSES};
    struct perf_event_attr asked = {.type = PERF_TYPE_HARDWARE,
                                    .size = sizeof asked,
                                    .config = EVENTS[which],
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1,
                                    .read_format = PERF_FORMAT_GROUP |
                                                   PERF_FORMAT_TOTAL_TIME_ENABLED |
                                                   PERF_FORMAT_TOTAL_TIME_RUNNING};
    return (int)syscall(SYS_perf_event_open, &asked, thread, -1, group, PERF_FLAG_FD_CLOEXEC);
}

/* False, with errno, when one of them cannot be had. */
static bool open_thread(cpu_counters *c, pid_t thread) {
    MEMORY_GROW(c->threads, c->count, c->capacity);
    int *counters = c->threads[c->count++];
    for (int i = 0; i < COUNTERS; i++)
        counters[i] = -1;
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = open_counter(thread, i, i ? counters[0] : -1);
        if (counters[i] < 0)
            return false;
    }
    return true;
}

static dyno_status explain(int error) {
    const char *way = error == EACCES || error == EPERM
                          ? "; as root `sysctl kernel.perf_event_paranoid=2` permits it, and a "
                            "container needs the capability PERFMON"
                      : error == ENOENT || error == EOPNOTSUPP || error == ENODEV
                          ? "; a virtual machine often has no counters"
                          : "";
    return dyno_fail(DYNO_UNSUPPORTED,
                     "cycles, instructions and cache misses are not counted: perf_event_open "
                     "says %s%s",
                     strerror(error), way);
}

dyno_status cpu_counters_open(cpu_counters **out) {
    cpu_counters *c = memory_allocate(1, sizeof *c);
    *out = NULL;
    DIR *tasks = opendir("/proc/self/task");
    int error = tasks ? 0 : errno;
    for (const struct dirent *task; !error && (task = readdir(tasks));) {
        int thread = atoi(task->d_name);
        errno = 0;
        if (thread > 0 && !open_thread(c, thread) && errno != ESRCH) /* it has ended meanwhile */
            error = errno;
    }
    if (tasks)
        closedir(tasks);
    if (error) {
        cpu_counters_close(c);
        return explain(error);
    }
    *out = c;
    return DYNO_OK;
}

launch_counters cpu_counters_read(const cpu_counters *c) {
    double sums[COUNTERS] = {0};
    for (int i = 0; i < c->count; i++) {
        struct {
            uint64_t count, enabled, running, values[COUNTERS];
        } now = {0};
        if (c->threads[i][0] < 0 || read(c->threads[i][0], &now, sizeof now) != sizeof now)
            continue;
        double scale = now.running ? (double)now.enabled / (double)now.running : 0;
        for (int j = 0; j < COUNTERS; j++)
            sums[j] += (double)now.values[j] * scale;
    }
    return (launch_counters){(int64_t)sums[CYCLES], (int64_t)sums[INSTRUCTIONS],
                             (int64_t)sums[CACHE_MISSES]};
}

void cpu_counters_close(cpu_counters *c) {
    if (!c)
        return;
    for (int i = 0; i < c->count; i++)
        for (int j = 0; j < COUNTERS; j++)
            if (c->threads[i][j] >= 0)
                close(c->threads[i][j]);
    free(c->threads);
    free(c);
}
