/* bench_ranks.h - a benchmark on several ranks: all measure the same cells at the same time, and rank 0
 * keeps what each of them saw. With one rank nothing here does anything. */
#ifndef EXPERIMENTS_BENCH_RANKS_H
#define EXPERIMENTS_BENCH_RANKS_H

#include "base/stop.h"
#include "experiments/ranks.h"
#include "experiments/sweep.h"
#include "measure/results.h"

typedef struct bench_ranks {
    world *world;
    communicator *communicator; /* NULL: there is one rank */
    int rank, count;
    stop_question *stop; /* what was asked before */
    bool asks_nobody;
    /* A rank could not be asked, or failed at what others wait for: there is nothing more to measure. */
    dyno_status broken;
    char why[512];
} bench_ranks;

/* Joins the job that this process is of. Before anything is opened. */
NODISCARD dyno_status bench_ranks_join(bench_ranks *r, const flags *given);
/* With the sweep's device: makes the communicator, and settles the memory that a rank may use: what is
 * free is divided among the ranks of a host. */
NODISCARD dyno_status bench_ranks_prepare(bench_ranks *r, sweep *s);
void bench_ranks_leave(bench_ranks *r);

/* What this rank does from now on, for the message of another that waits for it. */
void bench_ranks_set_phase(const bench_ranks *r, const char *doing);
/* Whether rank 0 was asked to stop. Every rank asks before every step, so that all end with the same
 * one. True where a rank does not answer: bench_ranks_conclude then says so. */
bool bench_ranks_should_stop(bench_ranks *r, sweep *s);
/* `status` is that of steps that all ranks took together. A failure of them, or one that was found while
 * asking, breaks the ranks: what each does next is no longer the same. */
NODISCARD dyno_status bench_ranks_conclude(bench_ranks *r, dyno_status status);
/* What became of something that each rank did by itself: the worst is everybody's. */
NODISCARD dyno_status bench_ranks_agree(bench_ranks *r, dyno_status status);
/* What the other ranks measured in a cell that is finished. */
NODISCARD dyno_status bench_ranks_record(const bench_ranks *r, results_cell *cell);

#endif
