/* mpi_module.h - the interface between the shared module libdyno_mpi.so and the program that loads it.
 *
 * The module is built where mpicc is found; `dyno` itself links nothing of MPI. It offers what dyno
 * needs of MPI: transfers that are started and tested, so that every wait has a timeout, and the
 * library's own collectives for comparison. */
#ifndef DISTRIBUTED_MPI_MODULE_H
#define DISTRIBUTED_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "distributed/communicator.h"

enum { MPI_MODULE_ABI = (2 << 16) + (int)sizeof(collective) };

typedef struct mpi_host {
    int abi;
    const char *version; /* DYNO_VERSION */
    dyno_status (*fail)(dyno_status code, const char *message);
} mpi_host;

/* The ranks that mpirun or srun has started, of which this is one. */
typedef struct mpi_job mpi_job;
/* Something that MPI carries out; it is freed by the test that finds it complete. */
typedef struct mpi_transfer mpi_transfer;

typedef struct mpi_module {
    int abi;
    const char *version;
    const char *(*library)(void); /* "Open MPI 4.1.4"; needs no job */
    /* Waits for all ranks, for so long at most. */
    dyno_status (*open)(double timeout_s, mpi_job **out, int *rank, int *count);
    /* Without `is_clean` MPI is left as it is, because ending it waits for all ranks. */
    void (*close)(mpi_job *job, bool is_clean);
    dyno_status (*start_gather)(mpi_job *job, const void *mine, void *all, size_t bytes,
                                mpi_transfer **out);
    dyno_status (*start_send)(mpi_job *job, int to, int tag, const void *data, size_t bytes,
                              mpi_transfer **out);
    dyno_status (*start_receive)(mpi_job *job, int from, int tag, void *data, size_t bytes,
                                 mpi_transfer **out);
    /* Frees the transfer and sets it to NULL when it is complete. */
    dyno_status (*test)(mpi_transfer **transfer, bool *is_complete);
    /* The library's own collective among the first `ranks` ranks, for comparison: it waits without a
     * timeout, and the order of its sums is its own. The count is that of communicator.h. */
    dyno_status (*run_library)(mpi_job *job, int ranks, const collective *what);
} mpi_module;

/* The module's only symbol, "dyno_mpi_module". NULL when the host is of another version. */
typedef const mpi_module *mpi_module_function(const mpi_host *host);

/* In the host: the module, loaded at the first call; fails saying where it was looked for. */
NODISCARD dyno_status mpi_module_load(const mpi_module **out);

#endif
