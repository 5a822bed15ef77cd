/* contention.c - /proc/stat, /proc/self/task/N/schedstat and getrusage.
 *
 * /proc/stat counts in ticks of some milliseconds: of a short cell it says little, of a sum over
 * cells enough. schedstat counts nanoseconds, thread by thread. */
#define _GNU_SOURCE
#include "measure/contention.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "measure/keys.h"

typedef struct thread_wait {
    long id;
    int64_t ns;
} thread_wait;

typedef struct reading {
    int64_t now_ns, own_cpu_ns, all_cpu_ns, preemptions;
    thread_wait *waits;
    int wait_count, wait_capacity;
} reading;

struct contention_watch {
    char proc[256];
    reading before;
};

static int64_t read_own_cpu_ns(void) {
    struct timespec used = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static int64_t count_preemptions(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* Ticks that core `*core` was not idle, from a line such as "cpu0 12 0 3 99 0 0 1 0"; a guest's
 * time is in user time. False for other lines. */
static bool parse_core(const char *line, int *core, int64_t *ticks) {
    long long user, nice, system, idle, waiting, interrupts, softly, stolen;
    if (sscanf(line, "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", core, &user, &nice, &system,
               &idle, &waiting, &interrupts, &softly, &stolen) != 9)
        return false;
    *ticks = user + nice + system + interrupts + softly + stolen;
    return true;
}

static int64_t read_all_cpu_ns(const char *proc) {
    char path[320], line[512];
    cpu_set_t allowed;
    long ticks_a_second = sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "%s/stat", proc);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || ticks_a_second <= 0)
        return -1;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    int64_t total = 0, ticks;
    int core, found = 0;
    while (fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0)
        if (parse_core(line, &core, &ticks) && core >= 0 && core < CPU_SETSIZE &&
            CPU_ISSET((size_t)core, &allowed)) {
            total += ticks;
            found++;
        }
    fclose(file);
    return found ? total * (1000000000 / ticks_a_second) : -1;
}

/* A thread that ends meanwhile has no file any more, and no matter. */
static void read_waits(const char *proc, reading *r) {
    char path[320], file_path[640];
    snprintf(path, sizeof path, "%s/self/task", proc);
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        long long running, waiting;
        snprintf(file_path, sizeof file_path, "%s/%s/schedstat", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(file_path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%lld %lld", &running, &waiting) == 2) {
            MEMORY_GROW(r->waits, r->wait_count, r->wait_capacity);
            r->waits[r->wait_count++] =
                (thread_wait){strtol(entry->d_name, NULL, 10), (int64_t)waiting};
        }
        fclose(file);
    }
    if (folder)
        closedir(folder);
}

/* A watch begins with the files and then reads the clock, and ends the other way round: the time of
 * reading is not in what is watched. */
static void read_files(const char *proc, reading *r) {
    r->all_cpu_ns = read_all_cpu_ns(proc);
    read_waits(proc, r);
}

static void read_clocks(reading *r) {
    r->preemptions = count_preemptions();
    r->own_cpu_ns = read_own_cpu_ns();
    r->now_ns = clock_now_ns();
}

contention_watch *contention_begin(const char *proc) {
    contention_watch *watch = memory_allocate(1, sizeof *watch);
    snprintf(watch->proc, sizeof watch->proc, "%s", proc);
    read_files(proc, &watch->before);
    read_clocks(&watch->before);
    return watch;
}

/* A thread that began in between has waited all its time. */
static int64_t longest_wait(const reading *before, const reading *after) {
    int64_t longest = after->wait_count ? 0 : -1;
    for (int i = 0; i < after->wait_count; i++) {
        int64_t waited = after->waits[i].ns;
        for (int j = 0; j < before->wait_count; j++)
            if (before->waits[j].id == after->waits[i].id)
                waited -= before->waits[j].ns;
        longest = waited > longest ? waited : longest;
    }
    return longest;
}

contention contention_end(contention_watch *watch) {
    const reading *before = &watch->before;
    reading after = {0};
    read_clocks(&after);
    read_files(watch->proc, &after);
    bool knows_all = before->all_cpu_ns >= 0 && after.all_cpu_ns >= before->all_cpu_ns;
    contention seen = {.watched_ns = after.now_ns - before->now_ns,
                       .own_cpu_ns = after.own_cpu_ns - before->own_cpu_ns,
                       .all_cpu_ns = knows_all ? after.all_cpu_ns - before->all_cpu_ns : -1,
                       .waited_ns = longest_wait(before, &after),
                       .preemptions = after.preemptions - before->preemptions};
    free(after.waits);
    free(watch->before.waits);
    free(watch);
    return seen;
}

void contention_record(const contention *seen, results_cell *cell) {
    cell_set_metric(cell, METRIC_WATCHED_NS, "ns", seen->watched_ns);
    cell_set_metric(cell, METRIC_OWN_CPU_NS, "ns", seen->own_cpu_ns);
    if (seen->all_cpu_ns >= 0)
        cell_set_metric(cell, METRIC_ALL_CPU_NS, "ns", seen->all_cpu_ns);
    if (seen->waited_ns >= 0)
        cell_set_metric(cell, METRIC_WAITED_NS, "ns", seen->waited_ns);
    cell_set_metric(cell, METRIC_PREEMPTIONS, "", seen->preemptions);
}
