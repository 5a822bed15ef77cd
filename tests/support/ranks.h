/* ranks.h - a function run by several ranks at once, each a process forked from the test. */
#ifndef TESTS_SUPPORT_RANKS_H
#define TESTS_SUPPORT_RANKS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "distributed/communicator.h"
#include "distributed/launch.h"
#include "distributed/world.h"

/* What each rank does; returns its exit code. cmocka's assertions are for the test's own process: in
 * a rank RANK_CHECK says what is wrong and ends it. */
typedef int rank_function(world *w, void *context);

/* Runs it on so many ranks that wait for each other for so long; returns the exit code of the job.
 * Where no rank reported its failure, `*status` is the launcher's and the message is the thread's. */
int ranks_run(int count, double timeout_s, rank_function *run, void *context, dyno_status *status);
/* Fails the test unless all of them end with 0. */
void ranks_expect_ok(int count, rank_function *run, void *context);

#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)
#define RANK_OK(call)                                                                              \
    do {                                                                                           \
        if ((call) != DYNO_OK) {                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, dyno_error_message());              \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

#endif
