#define _GNU_SOURCE
#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/stop.h"

static int chosen_count;

int threads_available(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return omp_get_num_procs();
    int count = CPU_COUNT(&allowed);
    return count > 0 ? count : 1;
}

void threads_set_count(int count) { chosen_count = count; }

int threads_count(void) { return chosen_count > 0 ? chosen_count : threads_available(); }

void threads_for(int64_t count, int64_t grain, threads_range *run, void *context) {
    if (count <= 0)
        return;
    int64_t grains = (count + grain - 1) / grain;
    int threads = threads_count();
    if (threads > grains)
        threads = (int)grains;
    if (threads <= 1) {
        run(context, 0, count);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
        int64_t begin = grains * me / all * grain, end = grains * (me + 1) / all * grain;
        if (end > count)
            end = count;
        if (begin < end)
            run(context, begin, end);
    }
}

/* The tasks that one thread begins with. Whoever has done its own helps the others, so that a thread
 * that lost its core holds nobody up; while nobody has, a thread does the same tasks each time, and
 * finds what it wrote the last time in its own cache. */
typedef struct task_share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} task_share;
enum { MOST_SHARES = 256 };

/* The question belongs to the calling thread, which is the first of a parallel region; the others
 * learn the answer from it. */
static bool is_to_stop(atomic_bool *is_stopped) {
    if (omp_get_thread_num() == 0 && stop_is_requested())
        atomic_store_explicit(is_stopped, true, memory_order_relaxed);
    return atomic_load_explicit(is_stopped, memory_order_relaxed);
}

/* `is_stopped`: NULL where nobody asks whether to stop. */
static void take_tasks(task_share *share, threads_range *run, void *context,
                       atomic_bool *is_stopped) {
    int64_t i;
    while ((i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed)) < share->end)
        if (!is_stopped || !is_to_stop(is_stopped))
            run(context, i, i + 1);
}

void threads_for_each(int64_t count, threads_range *run, void *context) {
    int threads = threads_count();
    if (threads > count)
        threads = (int)count;
    if (threads <= 1) {
        /* Inside a parallel region a library notices that and starts no threads of its own. Here it
         * must be limited explicitly, or its results would depend on the number of cores. */
        int outside = omp_get_max_threads();
        omp_set_num_threads(1);
        for (int64_t i = 0; i < count && !stop_is_requested(); i++)
            run(context, i, i + 1);
        omp_set_num_threads(outside);
        return;
    }
    task_share shares[MOST_SHARES];
    int count_of_shares = threads < MOST_SHARES ? threads : MOST_SHARES;
    for (int i = 0; i < count_of_shares; i++) {
        atomic_init(&shares[i].next, count * i / count_of_shares);
        shares[i].end = count * (i + 1) / count_of_shares;
    }
    bool is_asked = stop_is_asked();
    atomic_bool is_stopped = false;
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        for (int i = 0; i < count_of_shares; i++)
            take_tasks(&shares[(me + i) % count_of_shares], run, context,
                       is_asked ? &is_stopped : NULL);
    }
}
