/* silent.h - a communicator in one process that stands for many ranks, all of which have what this one has.
 *
 * Collectives cost next to nothing and send nothing: an all-gather repeats this rank's part, a reduce-scatter
 * takes it, an all-reduce leaves its operand alone. So the launches of a rank's plan can be timed without
 * the other ranks. */
#ifndef DISTRIBUTED_SILENT_H
#define DISTRIBUTED_SILENT_H

#include "distributed/communicator.h"

/* Rank 0 of so many. `w` is the world of this process. communicator_destroy destroys it. */
communicator *silent_create(struct world *w, int ranks);

#endif
