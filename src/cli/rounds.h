/* rounds.h - two commands run in turns, each round of each leaving a record.
 *
 * A and B alternate who goes first, so that whatever drifts (heat, other users) meets both alike. */
#ifndef CLI_ROUNDS_H
#define CLI_ROUNDS_H

#include "base/status.h"

typedef struct rounds_options {
    const char *commands[2]; /* for the shell; each gets " --out 'DIR'" */
    int count;
    const char *directory; /* NULL: a temporary one, which rounds_release removes */
} rounds_options;

typedef struct rounds {
    char *root, *paths[2]; /* the directories of the two sides, with a directory for each round */
    char *made[2];         /* the first directory that was made for each; NULL: all were there */
    int finished;          /* rounds of both */
    bool is_temporary;
} rounds;

/* DYNO_INTERRUPTED after Ctrl-C: the rounds that are finished are there. The caller releases `out` in
 * any case. */
NODISCARD dyno_status rounds_run(const rounds_options *options, rounds *out);
void rounds_release(rounds *made);

#endif
