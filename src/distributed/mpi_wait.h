/* mpi_wait.h - waiting for MPI with a timeout, and for what goes on in the host meanwhile. */
#ifndef DISTRIBUTED_MPI_WAIT_H
#define DISTRIBUTED_MPI_WAIT_H

#include "distributed/mpi_module.h"
#include "distributed/world.h"

/* Until the transfer is complete; `peer` is the rank at its other end, or -1 for all. NULL is complete.
 * Fails when the timeout has passed without an end, or a rank of this host has failed. */
NODISCARD dyno_status mpi_wait(world *w, mpi_transfer **transfer, int peer);

#endif
