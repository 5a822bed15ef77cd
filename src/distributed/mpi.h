/* mpi.h - collectives between hosts through MPI, inside a host through shared memory. */
#ifndef DISTRIBUTED_MPI_H
#define DISTRIBUTED_MPI_H

#include "distributed/communicator.h"

/* As communicator_create, for the kind `mpi`. */
NODISCARD dyno_status mpi_create(struct world *w, int ranks, communicator **out);

#endif
