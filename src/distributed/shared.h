/* shared.h - collectives of ranks on one host, through memory that they share. */
#ifndef DISTRIBUTED_SHARED_H
#define DISTRIBUTED_SHARED_H

#include "distributed/communicator.h"
#include "distributed/host_group.h"

/* As communicator_create, for the kind `shared`. All ranks of the world are on one host. */
NODISCARD dyno_status shared_create(struct world *w, int ranks, communicator **out);

/* [begin, end) of `count` elements: the part of rank `index` of `parts`, in whole cache lines. */
typedef struct shared_range {
    int64_t begin, end;
} shared_range;
shared_range shared_part(int64_t count, int index, int parts);

/* Copies and sums, by the pool of threads where `threads` is more than 1. */
void shared_copy(void *to, const void *from, int64_t bytes, int threads);
/* To memory that other ranks read next (sums.h). */
void shared_copy_through(void *to, const void *from, int64_t bytes, int threads);

#endif
