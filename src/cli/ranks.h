/* ranks.h - verbs that run on several ranks: the command line starts them. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <stdbool.h>

/* Starts `wanted` ranks of this same command line (argv[0] is the verb) and waits for them; *code is what
 * the program ends with. False when there is nothing to start: one rank is wanted, or this process is a
 * rank already. Called before any thread is made. */
bool cli_start_ranks(int wanted, double timeout_s, int argc, char **argv, int *code);

/* Whether another rank speaks for this one: it prints nothing and draws no progress line. */
bool cli_rank_is_quiet(void);

#endif
