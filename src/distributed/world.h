/* world.h - the ranks of this job: who started them, where each is, and what became of it.
 *
 * A job's ranks were started by `dyno ... --ranks N` (distributed/launch.h), by mpirun or by srun; a
 * process that nobody started so is a world of one rank. Ranks of one host share a segment of memory
 * (distributed/segment.h), in which each says what it is doing. */
#ifndef DISTRIBUTED_WORLD_H
#define DISTRIBUTED_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct world world;

enum { WORLD_MOST_RANKS = 1024, WORLD_HOST_BYTES = 64, WORLD_PHASE_BYTES = 80 };

typedef struct world_options {
    double timeout_s; /* how long a rank that does nothing is waited for; 0: 30 */
} world_options;

/* Whether this process was started as one of several ranks, as far as its environment says. Opens
 * nothing. */
typedef enum world_starter { WORLD_ALONE, WORLD_DYNO, WORLD_MPI } world_starter;
typedef struct world_place {
    world_starter starter;
    const char *evidence; /* "OMPI_COMM_WORLD_SIZE"; NULL when alone */
    int rank, count;      /* 0 and 1 when alone */
    /* Among the ranks of this host; -1 where the starter does not say. */
    int host_rank, host_count;
} world_place;
/* Fails where the environment contradicts itself: a rank that is no number, or not below the count. */
NODISCARD dyno_status world_find_place(world_place *out);

/* This host's name: the environment's DYNO_HOST, else the system's. */
void world_find_host(char name[WORLD_HOST_BYTES]);

/* Joins the job: waits until all of its ranks are there. A process joins once; whoever opens again
 * gets the same world. On failure *out is NULL. */
NODISCARD dyno_status world_open(const world_options *options, world **out);
/* Leaves it: the last one to leave ends MPI. NULL is allowed. */
void world_close(world *w);

int world_rank(const world *w);
int world_count(const world *w);
const char *world_host(const world *w, int rank);
double world_timeout_s(const world *w);
/* The same inside a host. Where there are several it is shorter: a host sees what its ranks do and names
 * the one at fault, before other hosts give up the whole of it. */
double world_host_timeout_s(const world *w);
/* Whether so many ranks of this host have a core each: only then whoever waits may spin. */
bool world_has_core_for(const world *w, int ranks);
/* Ranks of this rank's host, and which of them this one is, from 0. */
int world_host_count(const world *w);
int world_host_rank(const world *w);
/* Where dyno started the ranks and there are as many cores as `ranks`: the first so many ranks of the
 * host run each on cores of their own from now on, and so do the threads that they make later. It is
 * called for all ranks when the world is opened. mpirun and srun have their own ways of doing so. */
void world_bind_cores(world *w, int ranks);

/* What this rank does from now on, for whoever has to name it: "start-up", "writing results". */
void world_set_phase(world *w, const char *phase);

/* The collective_op that it is in, -1 for none: named together with the phase. */
void world_set_collective(world *w, int op);

/* Small messages: `bytes` from every rank, in the order of ranks, to every rank. Collective. */
NODISCARD dyno_status world_exchange(world *w, const void *mine, void *all, size_t bytes);
/* A status of which the worst is everybody's: where a rank has failed, every rank gets its code and
 * message, the latter with "rank 2 on host: " before it. Collective. */
NODISCARD dyno_status world_agree(world *w, dyno_status mine);

/* What all ranks must have alike. Where one differs from rank 0, the message names the fact, both
 * values and the rank. Collective. */
typedef struct world_fact {
    const char *name; /* "seed" */
    const char *value;
} world_fact;
NODISCARD dyno_status world_compare(world *w, const world_fact *facts, int count);

/* What a rank's work ends with. Where it failed by itself, the other ranks fail with its message and
 * with this rank's name; where another one failed, this thread's message is that rank's. Returns the
 * status. `w` may be NULL, for work that ended before there was a world. */
NODISCARD dyno_status world_conclude(world *w, dyno_status status);
/* The world that this process has joined, or NULL. */
world *world_current(void);
/* Of all ranks of a host that end with the same failure, one reports it: the first that asks. */
bool world_may_report(void);

/* ---- for the transports ---- */

struct segment;
struct mpi_job;
/* NULL in a world of one rank; in that of one host there is no MPI. */
struct segment *world_segment(const world *w);
struct mpi_job *world_mpi(const world *w);
/* Ranks are numbered host by host: those of this host are `first` and the following. False where the
 * starter has dealt them out otherwise: then each rank counts as a host of its own. */
int world_first_of_host(const world *w);
int world_host_of(const world *w, int rank); /* hosts are numbered from 0 */
int world_hosts(const world *w);

#endif
