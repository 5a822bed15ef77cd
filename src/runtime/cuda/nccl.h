/* nccl.h - the functions of NCCL, NVIDIA's collectives between GPUs, loaded at run time.
 *
 * They are declared by hand, because a machine that builds the module need not have NCCL's header. All
 * are part of its stable interface since version 2. */
#ifndef RUNTIME_CUDA_NCCL_H
#define RUNTIME_CUDA_NCCL_H

#include <cuda_runtime.h>

#include "runtime/device.h"

typedef struct nccl_comm *nccl_comm; /* ncclComm_t */

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };                                /* ncclResult_t */
enum { NCCL_UINT8 = 1, NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9 }; /* ncclDataType_t */
enum { NCCL_SUM = 0 };                                                          /* ncclRedOp_t */

typedef struct nccl_functions {
    int (*get_version)(int *version);
    int (*get_unique_id)(nccl_id *id);
    int (*init_rank)(nccl_comm *comm, int count, nccl_id id, int rank);
    int (*destroy)(nccl_comm comm);
    int (*abort)(nccl_comm comm);
    int (*async_error)(nccl_comm comm, int *result);
    const char *(*error_string)(int result);
    const char *(*last_error)(nccl_comm comm);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int operation,
                      nccl_comm comm, cudaStream_t stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int operation,
                          nccl_comm comm, cudaStream_t stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, nccl_comm comm,
                      cudaStream_t stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, nccl_comm comm,
                     cudaStream_t stream);
} nccl_functions;

/* DYNO_UNSUPPORTED where it is not there. */
NODISCARD dyno_status nccl_load(const nccl_functions **out);
/* `comm` may be NULL. */
NODISCARD dyno_status nccl_status(int result, nccl_comm comm, const char *what);

/* device_functions.nccl_id and nccl_join. */
dyno_status cuda_nccl_id(device *d, nccl_id *out);
dyno_status cuda_nccl_join(device *d, const nccl_join *how, communicator **out);

#endif
