/* allreduce_row.h - one collective of one size among so many ranks, timed over several transports by
 * turns.
 *
 * Every rank runs this. What it measured is exchanged, so that every rank has the same record; only
 * that of rank 0 is kept and shown. */
#ifndef EXPERIMENTS_ALLREDUCE_ROW_H
#define EXPERIMENTS_ALLREDUCE_ROW_H

#include "distributed/communicator.h"
#include "distributed/mpi_module.h"
#include "distributed/world.h"
#include "experiments/experiment.h"
#include "runtime/device.h"

/* A way to carry out collectives: a communicator, or the MPI library's own functions. */
typedef struct allreduce_way {
    const char *transport;    /* "shared", "mpi", "nccl", "mpi-library" */
    bool is_in_shared_memory; /* the operands */
    communicator *communicator;
    const mpi_module *library; /* in place of a communicator */
    device *device;            /* where the operands are; NULL: in the host's memory */
    char why_not[512];         /* "" when it is there */
} allreduce_way;

enum { ALLREDUCE_MOST_WAYS = 8 };

/* What the rows of one number of ranks share. */
typedef struct allreduce_group {
    world *world;
    communicator *control; /* for times and decisions; NULL on ranks that take no part */
    int ranks;
    allreduce_way ways[ALLREDUCE_MOST_WAYS];
    int way_count;
} allreduce_group;

typedef struct allreduce_row {
    collective_op op;
    dtype type;
    const char *type_name; /* "fp32" */
    int64_t bytes;
    int64_t warmup, least_reps, most_reps;
    double seconds; /* for each way, between the least and the most repetitions */
} allreduce_row;

/* Adds a cell for each way to the run. Ends with DYNO_INTERRUPTED on all ranks when rank 0 was asked
 * to stop. On ranks that take no part it returns at once. */
NODISCARD dyno_status allreduce_row_run(const allreduce_group *group, const allreduce_row *row,
                                        const experiment_context *context, results *run);

#endif
