/* threads.h - a pool of threads behind two functions, so that kernels see ranges and nothing else.
 *
 * The number of threads never changes a result: callers either write disjoint outputs, or reduce
 * over chunks whose bounds they chose themselves. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stdint.h>

#include "base/status.h"

/* Work on [begin, end). */
typedef void threads_range(void *context, int64_t begin, int64_t end);

/* Threads used from now on; 0 means all that the process may run on. */
void threads_set_count(int count);
int threads_count(void);
/* DYNO_INVALID where the system does not allow so many at once, with how many it allows. */
NODISCARD dyno_status threads_check(int count);
/* This process is one of so many on this machine that share the cores evenly: its part is from now on
 * what a count of 0 means. */
void threads_share_cores(int processes);
/* OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY make OpenMP bind the program's first thread to one place, and
 * threads that OpenMP did not start inherit that. This gives the calling thread all places again. It is called before the
 * first thread is started. */
void threads_unbind(void);
/* Cores this process may run on. */
int threads_available(void);

/* Splits [0, count) into one even range for each thread, each a multiple of `grain` long (the last
 * one excepted). Runs on the calling thread alone when there is at most one grain of work. */
void threads_for(int64_t count, int64_t grain, threads_range *run, void *context);

/* Schedules [i, i+1) dynamically, for few tasks of uneven or noisy cost. A library that uses
 * OpenMP, called from a task, runs on that thread alone. Once the user has asked to stop
 * (base/stop.h), tasks that have not begun are left out: what they compute is not to be used. */
void threads_for_each(int64_t count, threads_range *run, void *context);

/* A task waits a moment for another task that runs. `turn` counts its waits: the first ones only pause the core, later
 * ones give it to whoever wants it. */
void threads_wait(int turn);

#endif
