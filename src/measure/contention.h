/* contention.h - whether this process got the cores that it measured with.
 *
 * Where other processes keep cores busy, threads wait for a core, and threads that have one wait
 * for those at barriers: the time is then that of the scheduler, not of the kernel. The system
 * counts how long each thread was runnable and did not run; that is read before and after a
 * measurement, never during it. */
#ifndef MEASURE_CONTENTION_H
#define MEASURE_CONTENTION_H

#include "measure/results.h"

/* What happened between two readings. */
typedef struct contention {
    int64_t watched_ns;  /* by the clock */
    int64_t own_cpu_ns;  /* of all threads of this process */
    int64_t all_cpu_ns;  /* of everybody, on the cores that this process may use, with what a
                            hypervisor took away; -1: the system does not tell */
    int64_t waited_ns;   /* for a core, by the thread that waited longest; -1: likewise */
    int64_t preemptions; /* times that a thread was made to leave its core */
} contention;

typedef struct contention_watch contention_watch;

/* Reads below `proc`, which is "/proc". Nothing here fails: what cannot be read is -1. */
contention_watch *contention_begin(const char *proc);
/* Takes the watch. */
contention contention_end(contention_watch *watch);

/* As the cell's metrics watched_ns, own_cpu_ns, all_cpu_ns, waited_ns and preemptions, without what
 * the system does not tell. */
void contention_record(const contention *seen, results_cell *cell);

#endif
