/* ranks.h - what experiments of several ranks have in common. */
#ifndef EXPERIMENTS_RANKS_H
#define EXPERIMENTS_RANKS_H

#include "base/flags.h"
#include "compiler/passes/parallel.h"
#include "distributed/world.h"
#include "measure/results.h"
#include "runtime/device.h"

/* How many ranks the settings ask for: the most of --ranks; 1 where there is no such setting. Where
 * --ranks is a list that is not given, 2. */
int ranks_wanted(const flags_verb *verb, const flags *given);
double ranks_timeout_s(const flags_verb *verb, const flags *given);

/* Joins the job and compares what its ranks were started with: version, arguments. A rank that differs
 * is named, with what differs. `given` has TIMEOUT_FLAG. */
NODISCARD dyno_status ranks_open(const flags *given, world **out);
/* The communicator of all ranks for steps on this device: NCCL between GPUs, MPI between hosts, else
 * shared memory. Collective. */
NODISCARD dyno_status ranks_create_communicator(world *w, device *d, communicator **out);
/* Sets the parameters ranks and parallel; the latter is "none" with one rank. */
void ranks_describe(int64_t ranks, const parallel_options *how, results_cell *cell);
/* DYNO_INVALID where the job has fewer ranks than that, with how to start more. */
NODISCARD dyno_status ranks_check_count(const world *w, int64_t ranks);
/* `status` is DYNO_OK or DYNO_INTERRUPTED; where it is the latter on rank 0, it is everybody's.
 * Collective. */
NODISCARD dyno_status ranks_agree_to_go_on(world *w, dyno_status status);

#endif
