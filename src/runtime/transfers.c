/* transfers.c - conflicts are found once, from the plan: two launches conflict where they touch the
 * same bytes of a buffer and one of them writes. Memory that the plan reuses needs no look: a buffer
 * that a collective uses is alive until a launch that waits for it (compiler/lower/lower_overlap.c).
 *
 * A communicator carries collectives out in the order in which they were started, so that waiting for
 * the newest of several is waiting for all. */
#include "runtime/transfers.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "plan/operand.h"

struct transfers {
    const plan *p;
    communicator *c;
    int64_t *handle; /* by launch: of the collective under way, 0 for none */
    /* By launch i: the collectives before it that it waits for are conflicts[start[i] .. start[i+1]). */
    int *start, *conflicts;
    int *async;
    int async_count;
    int64_t exposed_ns, busy_before_ns;
};

static bool is_async(const plan_launch *l) { return l->stream == PLAN_STREAM_COMMUNICATION; }

transfers *transfers_create(const plan *p) {
    bool has_any = false;
    for (int i = 0; i < p->launch_count; i++)
        has_any = has_any || p->launches[i].phase == PHASE_COMMUNICATION;
    if (!has_any)
        return NULL;
    transfers *t = memory_allocate(1, sizeof *t);
    t->p = p;
    t->handle = memory_allocate((size_t)p->launch_count, sizeof *t->handle);
    t->start = memory_allocate((size_t)p->launch_count + 1, sizeof *t->start);
    t->async = memory_allocate((size_t)p->launch_count, sizeof *t->async);
    int count = 0, capacity = 0;
    for (int i = 0; i < p->launch_count; i++) {
        t->start[i] = count;
        for (int j = 0; j < t->async_count; j++)
            if (plan_launches_conflict(p, t->async[j], i)) {
                MEMORY_GROW(t->conflicts, count, capacity);
                t->conflicts[count++] = t->async[j];
            }
        if (is_async(&p->launches[i]))
            t->async[t->async_count++] = i;
    }
    t->start[p->launch_count] = count;
    return t;
}

void transfers_destroy(transfers *t) {
    if (!t)
        return;
    free(t->handle);
    free(t->start);
    free(t->conflicts);
    free(t->async);
    free(t);
}

void transfers_set_communicator(transfers *t, communicator *c) {
    if (t)
        t->c = c;
}

communicator *transfers_communicator(const transfers *t) { return t ? t->c : NULL; }

int64_t *transfers_handle(transfers *t, int launch) {
    return t && is_async(&t->p->launches[launch]) ? &t->handle[launch] : NULL;
}

static dyno_status wait_for(transfers *t, int64_t newest) {
    if (newest == 0)
        return DYNO_OK;
    int64_t begin = clock_now_ns();
    dyno_status status = communicator_wait(t->c, newest);
    t->exposed_ns += clock_now_ns() - begin;
    for (int i = 0; i < t->async_count; i++)
        if (t->handle[t->async[i]] <= newest)
            t->handle[t->async[i]] = 0;
    return status;
}

dyno_status transfers_wait_for(transfers *t, int launch) {
    if (!t)
        return DYNO_OK;
    int64_t newest = 0;
    for (int i = t->start[launch]; i < t->start[launch + 1]; i++)
        if (t->handle[t->conflicts[i]] > newest)
            newest = t->handle[t->conflicts[i]];
    return wait_for(t, newest);
}

void transfers_note(transfers *t, int launch, int64_t ns) {
    if (t && t->p->launches[launch].phase == PHASE_COMMUNICATION)
        t->exposed_ns += ns;
}

dyno_status transfers_wait_for_all(transfers *t) {
    if (!t)
        return DYNO_OK;
    int64_t newest = 0;
    for (int i = 0; i < t->async_count; i++)
        if (t->handle[t->async[i]] > newest)
            newest = t->handle[t->async[i]];
    return wait_for(t, newest);
}

void transfers_take_times(transfers *t, int64_t *exposed_ns, int64_t *busy_ns) {
    *exposed_ns = *busy_ns = 0;
    if (!t || !t->c)
        return;
    int64_t busy = communicator_busy_ns(t->c);
    /* NCCL's collectives run on streams: the host's time is what launching them takes. */
    if (communicator_kind_of(t->c) != COMMUNICATOR_NCCL) {
        *exposed_ns = t->exposed_ns;
        *busy_ns = busy - t->busy_before_ns;
    }
    /* A wait ends when the waiting thread runs again, which is later than the collective's end. What that takes
     * is part of communicating, and no more time can be exposed than communicating takes. */
    if (*busy_ns < *exposed_ns)
        *busy_ns = *exposed_ns;
    t->exposed_ns = 0;
    t->busy_before_ns = busy;
}
