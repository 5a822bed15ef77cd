/* rank_faults.h - rank VICTIM of a job dies, is stopped, runs out of memory or fails: every other rank
 * ends in time, one message names the rank, its host and what it was doing, and nothing is left. */
#ifndef TESTS_SUPPORT_RANK_FAULTS_H
#define TESTS_SUPPORT_RANK_FAULTS_H

#include "support/ranks.h"

enum { RANK_FAULT_RANKS = 3, RANK_FAULT_VICTIM = 1 };
#define RANK_FAULT_TIMEOUT_S 0.6 /* where a fault does not say */

typedef enum rank_death {
    DEATH_KILLED,
    DEATH_STOPPED,
    DEATH_OUT_OF_MEMORY,
    DEATH_FAILED,
    DEATH_LEFT,
    DEATH_COUNT
} rank_death;

typedef struct rank_fault {
    rank_death how;
    const char *phase; /* that the message is to name */
    double timeout_s;  /* 0: RANK_FAULT_TIMEOUT_S */
    bool is_early;     /* the victim never joins: its host is not known, nor what it says */
    int messages;      /* a file that all ranks append to, made by rank_fault_run */
} rank_fault;

/* In the victim: the death. OUT_OF_MEMORY and FAILED are a failure that the rank reports. */
void rank_fault_die(world *w, const rank_fault *f);
/* The failure that such a death reports, for those who return it. */
dyno_status rank_fault_status(const rank_fault *f);
/* Ends the rank as a verb does, unless all is well. */
void rank_fault_prove(world *w, const rank_fault *f, dyno_status status);

/* In the test: `run` is what each rank does, from before it joins the job. */
void rank_fault_run(rank_fault *f, int (*run)(void *context), void *context);

/* Joins the job as `run` may; ends the rank where that fails. */
world *rank_fault_join(const rank_fault *f);

#endif
