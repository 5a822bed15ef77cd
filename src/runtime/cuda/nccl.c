#include "runtime/cuda/nccl.h"

#include <pthread.h>
#include <stddef.h>

#include "runtime/cuda_library.h"

static nccl_functions functions;
static bool is_loaded;

dyno_status nccl_load(const nccl_functions **out) {
    static const struct {
        const char *name;
        size_t offset;
    } FIELDS[] = {{"ncclGetVersion", offsetof(nccl_functions, get_version)},
                  {"ncclGetUniqueId", offsetof(nccl_functions, get_unique_id)},
                  {"ncclCommInitRank", offsetof(nccl_functions, init_rank)},
                  {"ncclCommDestroy", offsetof(nccl_functions, destroy)},
                  {"ncclCommAbort", offsetof(nccl_functions, abort)},
                  {"ncclCommGetAsyncError", offsetof(nccl_functions, async_error)},
                  {"ncclGetErrorString", offsetof(nccl_functions, error_string)},
                  {"ncclGetLastError", offsetof(nccl_functions, last_error)},
                  {"ncclAllReduce", offsetof(nccl_functions, all_reduce)},
                  {"ncclReduceScatter", offsetof(nccl_functions, reduce_scatter)},
                  {"ncclAllGather", offsetof(nccl_functions, all_gather)},
                  {"ncclBroadcast", offsetof(nccl_functions, broadcast)}};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    dyno_status status = DYNO_OK;
    *out = &functions;
    pthread_mutex_lock(&lock);
    if (!is_loaded) {
        void *handle;
        status = cuda_library_open("nccl", 2, &handle);
        for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS && status == DYNO_OK; i++)
            status =
                cuda_library_find(handle, FIELDS[i].name, (char *)&functions + FIELDS[i].offset);
        is_loaded = status == DYNO_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

dyno_status nccl_status(int result, nccl_comm comm, const char *what) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return DYNO_OK;
    const char *detail = functions.last_error(comm);
    return dyno_fail(DYNO_DEVICE_FAILED, "NCCL: %s: %s%s%s", what, functions.error_string(result),
                     detail && detail[0] ? ": " : "", detail ? detail : "");
}
