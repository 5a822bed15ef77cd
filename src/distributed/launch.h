/* launch.h - starts the ranks of a job on this host and looks after them.
 *
 * Each rank is a process of its own, started from the same program with the same arguments; its
 * environment says which rank it is. The launcher is none of them: it waits, passes Ctrl-C on to rank
 * 0, and when a rank dies or fails it tells the others through the shared segment and ends what does
 * not end by itself. Ranks do not outlive it. */
#ifndef DISTRIBUTED_LAUNCH_H
#define DISTRIBUTED_LAUNCH_H

#include "base/status.h"

/* What a rank finds in its environment. */
#define LAUNCH_RANK_VARIABLE "DYNO_RANK"
#define LAUNCH_COUNT_VARIABLE "DYNO_RANKS"
#define LAUNCH_FILE_VARIABLE "DYNO_RANKS_FILE"

typedef struct launch_options {
    int ranks;
    const char *program;          /* its path; NULL: this process's own */
    const char *const *arguments; /* argv, the last one NULL */
    /* In place of a program: each rank is a fork of this process, which should have one thread, and
     * ends with the exit code that this returns. */
    int (*run)(void *context);
    void *context;
    double timeout_s; /* for ranks to end once one has failed; 0: 30 */
} launch_options;

/* Returns when all have ended. *exit_code is 0 when all have ended with 0; else that of the first
 * failure, 128 and the signal's number when the user stopped it. DYNO_RANK_FAILED, with a message that
 * names the rank, its host and what it was doing, where no rank has reported the failure itself. */
NODISCARD dyno_status launch_ranks(const launch_options *options, int *exit_code);

#endif
