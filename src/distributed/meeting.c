/* meeting.c - a counter that the last one resets, and a futex on which the others sleep.
 *
 * Between sleeps of SLICE_NS whoever waits looks for a failure, and now and then at the processes that
 * are missing: /proc tells whether one is dead or stopped, and how much processor time it has used. */
#define _GNU_SOURCE
#include "distributed/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "distributed/segment.h"

enum { SPIN_NS = 50000, SLICE_NS = 50000000 };

/* A rank that used less than this part of the time did nothing but wait itself. */
static const double LEAST_USE = 0.01;

static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
    const struct timespec slice = {.tv_nsec = SLICE_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &slice, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool spin_while(const _Atomic uint32_t *word, uint32_t value) {
    enum { LOOKS = 32 }; /* between two looks at the clock */
    int64_t end = clock_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    } while (clock_now_ns() < end);
    return false;
}

/* ---- what a missing rank does ---- */

typedef struct process_use {
    char state; /* of /proc/PID/stat: R, S, D, T, Z; 'X' when there is no such process */
    int64_t ticks;
} process_use;

static process_use read_use(int process) {
    process_use use = {.state = 'X'};
    char path[32], stat[512];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? use : (process_use){.state = 'S'};
    ssize_t length = file_read(file, stat, sizeof stat - 1);
    close(file);
    stat[length > 0 ? length : 0] = '\0';
    const char *name_end = strrchr(stat, ')'); /* the name may hold anything */
    if (!name_end)
        return use;
    long long user = 0, system = 0;
    if (sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &use.state,
               &user, &system) == 3)
        use.ticks = user + system;
    return use;
}

bool meeting_process_is_stopped(int process) { return read_use(process).state == 'T'; }

/* How long whoever is missing has done nothing. */
typedef struct patience {
    int64_t idle_since_ns, last_slice_ns, last_look_ns;
    int64_t ticks; /* of all that are missing, at the last look */
    bool has_ticks;
} patience;

static bool is_missing(const meeting_place *p, int index, uint32_t epoch) {
    return atomic_load(&p->shared->came_for[index]) != epoch + 1;
}

static dyno_status fail_with(const meeting_place *p, const char *message) {
    segment_fail(p->segment, DYNO_RANK_FAILED, message);
    /* Somebody else's may have been the first. */
    while (atomic_load(&p->segment->header->failed) == 1)
        usleep(1000);
    return segment_check(p->segment);
}

static dyno_status fail_dead(const meeting_place *p, int index, const char *what) {
    char message[SEGMENT_FAILURE_BYTES];
    snprintf(message, sizeof message, "%s %s during %s",
             segment_describe_member(p->segment, index).text, what,
             segment_member_phase(p->segment, index).text);
    return fail_with(p, message);
}

static dyno_status fail_idle(const meeting_place *p, int index) {
    char message[SEGMENT_FAILURE_BYTES];
    int process = atomic_load(&p->segment->members[index].process);
    bool is_stopped = process && meeting_process_is_stopped(process);
    snprintf(message, sizeof message,
             "%s %s and has kept the others waiting for %g s during %s; --timeout sets how long "
             "they wait",
             segment_describe_member(p->segment, index).text,
             is_stopped                                            ? "is stopped (SIGSTOP)"
             : atomic_load(&p->segment->members[index].state) == 0 ? "has not started"
                                                                   : "does nothing",
             p->timeout_s, segment_member_phase(p->segment, index).text);
    return fail_with(p, message);
}

/* Fails for whoever is gone; counts the processor time of the others. */
static dyno_status look(const meeting_place *p, uint32_t epoch, int64_t *ticks, bool *is_busy,
                        int *missing) {
    for (int i = 0; i < p->count; i++) {
        const segment_member *m = &p->segment->members[i];
        if (i == p->index || !is_missing(p, i, epoch))
            continue;
        *missing = i;
        int process = atomic_load(&m->process);
        if (atomic_load(&m->state) == MEMBER_LEFT)
            return fail_dead(p, i, "has ended, while others wait for it,");
        if (!process)
            continue;
        process_use use = read_use(process);
        /* Where dyno started the ranks, the launcher knows more about the death. */
        if (strchr("XZ", use.state) && !p->segment->header->is_launched)
            return fail_dead(p, i, "has died");
        *is_busy = *is_busy || use.state == 'D';
        *ticks += use.ticks;
    }
    return DYNO_OK;
}

static dyno_status check_patience(const meeting_place *p, uint32_t epoch, patience *at) {
    int64_t now = clock_now_ns();
    /* A slice that took seconds: this process was stopped itself. */
    if (now - at->last_slice_ns > 20 * (int64_t)SLICE_NS)
        at->idle_since_ns = at->last_look_ns = now;
    at->last_slice_ns = now;
    double window_s = p->timeout_s / 4 < 1 ? p->timeout_s / 4 : 1;
    double elapsed_s = (double)(now - at->last_look_ns) * 1e-9;
    if (at->has_ticks && elapsed_s < window_s)
        return DYNO_OK;
    int64_t ticks = 0;
    bool is_busy = false;
    int missing = -1;
    RETURN_IF_FAILED(look(p, epoch, &ticks, &is_busy, &missing));
    double used_s = (double)(ticks - at->ticks) / (double)sysconf(_SC_CLK_TCK);
    if (is_busy || missing < 0 ||
        (at->has_ticks && ticks > at->ticks && used_s >= LEAST_USE * elapsed_s))
        at->idle_since_ns = now;
    at->ticks = ticks;
    at->has_ticks = true;
    at->last_look_ns = now;
    if ((double)(now - at->idle_since_ns) * 1e-9 >= p->timeout_s)
        return fail_idle(p, missing);
    return DYNO_OK;
}

static dyno_status sleep_until(const meeting_place *p, uint32_t epoch) {
    meeting *m = p->shared;
    int64_t now = clock_now_ns();
    patience at = {.idle_since_ns = now, .last_slice_ns = now, .last_look_ns = now};
    dyno_status status = DYNO_OK;
    atomic_fetch_add(&m->sleepers, 1);
    while (status == DYNO_OK && atomic_load(&m->epoch) == epoch) {
        sleep_while(&m->epoch, epoch);
        if (atomic_load(&m->epoch) != epoch)
            break;
        status = segment_check(p->segment);
        if (status == DYNO_OK)
            status = check_patience(p, epoch, &at);
    }
    atomic_fetch_sub(&m->sleepers, 1);
    return status;
}

dyno_status meeting_wait(const meeting_place *p) {
    meeting *m = p->shared;
    uint32_t epoch = atomic_load(&m->epoch);
    if (p->count == 1)
        return DYNO_OK;
    atomic_store(&m->came_for[p->index], epoch + 1);
    if (atomic_fetch_add(&m->arrived, 1) + 1 == (uint32_t)p->count) {
        atomic_store(&m->arrived, 0);
        atomic_fetch_add(&m->epoch, 1);
        if (atomic_load(&m->sleepers) > 0)
            wake_all(&m->epoch);
        return DYNO_OK;
    }
    if (p->spins && spin_while(&m->epoch, epoch))
        return DYNO_OK;
    return sleep_until(p, epoch);
}
