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
} world_place;
/* Fails where the environment contradicts itself: a rank that is no number, or not below the count. */
NODISCARD dyno_status world_find_place(world_place *out);

/* Joins the job: waits until all of its ranks are there. A process joins once; whoever opens again
 * gets the same world. On failure *out is NULL. */
NODISCARD dyno_status world_open(const world_options *options, world **out);
/* Leaves it: the last one to leave ends MPI. NULL is allowed. */
void world_close(world *w);

int world_rank(const world *w);
int world_count(const world *w);
const char *world_host(const world *w, int rank);
int world_process(const world *w, int rank);
double world_timeout_s(const world *w);
/* Ranks of this rank's host, and which of them this one is, from 0. */
int world_host_count(const world *w);
int world_host_rank(const world *w);
/* The cores of this rank's host divided among its ranks, at least 1. */
int world_threads(const world *w);

/* What this rank does from now on, for whoever has to name it: "start-up", "writing results". */
void world_set_phase(world *w, const char *phase);

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

/* This rank cannot go on: every other one that waits for it fails with this thread's message. */
void world_fail(world *w);

#endif
