/* simulate.h - the launches and transfers of a step, replayed against a clock that runs as fast as it is
 * asked to.
 *
 * All ranks do the same at the same time, so that one of them is replayed. How long each launch takes by
 * itself is the caller's to say: from a network (network.h), from a profile, from the rates of a chip.
 *
 *   SIMULATE_HOST     what runtime/executor.c does on a CPU. The host runs launches in order; at one that is on
 *                     PLAN_STREAM_COMMUNICATION it starts a transfer and goes on; before one that shares
 *                     memory with a transfer, at the end of a micro-batch and of the step, it waits.
 *                     Transfers run one after the other on a thread of their own, which takes time from the
 *                     launches where there are fewer cores than threads.
 *   SIMULATE_STREAMS  what a captured step does on a GPU. Transfers are on a stream of their own and begin as
 *                     soon as the launches that they depend on are done (plan/hazards.h). Launches of
 *                     stream 1 share the chip with those of stream 0 and are counted as if on it. */
#ifndef SIMULATE_SIMULATE_H
#define SIMULATE_SIMULATE_H

#include "plan/plan.h"

typedef enum simulate_issue { SIMULATE_HOST, SIMULATE_STREAMS } simulate_issue;

/* The cores that the ranks of a host share; all 0: a core for every thread. */
typedef struct simulated_cores {
    int cores, ranks;
    int threads; /* of each rank, beside the one for transfers */
} simulated_cores;

typedef struct simulate_options {
    /* By launch: how long one run takes. Of a launch that computes, on cores that it has for itself; of a
     * collective, with all ranks in it and nothing else running. */
    const double *launch_ns;
    simulate_issue issue;
    simulated_cores cores; /* SIMULATE_HOST */
} simulate_options;

typedef struct simulated_launch {
    int launch, repetition;
    double begin_ns, end_ns;
} simulated_launch;

typedef struct simulated_step {
    double step_ns;
    double compute_ns;       /* all launches that compute, one after the other and undisturbed */
    double communication_ns; /* all collectives likewise */
    double exposed_ns;       /* of the step: nothing was computed, because launches had to wait */
    simulated_launch *schedule; /* in the order of the plan */
    int count;
} simulated_step;

/* The caller releases *out. */
void simulate_step(const plan *p, const simulate_options *options, simulated_step *out);
void simulated_step_release(simulated_step *step);

#endif
