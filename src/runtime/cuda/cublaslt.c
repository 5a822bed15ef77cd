#include "runtime/cuda/cublaslt.h"

#include <pthread.h>
#include <stdbool.h>

#include "runtime/cuda_library.h"

static cublaslt_functions functions;
static bool is_loaded;

dyno_status cublaslt_load(const cublaslt_functions **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    dyno_status status = DYNO_OK;
    *out = &functions;
    pthread_mutex_lock(&lock);
    if (!is_loaded) {
        void *handle;
        /* The version that was compiled against must be the one that is loaded. */
        status = cuda_library_open("cublasLt", CUBLAS_VER_MAJOR, &handle);
#define FIND(field, function)                                                                      \
    if (status == DYNO_OK)                                                                         \
        status = cuda_library_find(handle, #function, &functions.field);
        FOR_EACH_CUBLASLT_FUNCTION(FIND)
#undef FIND
        is_loaded = status == DYNO_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

dyno_status cublaslt_status(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS)
        return DYNO_OK;
    dyno_status code =
        status == CUBLAS_STATUS_ALLOC_FAILED ? DYNO_OUT_OF_MEMORY
        : status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH
            ? DYNO_UNSUPPORTED
            : DYNO_DEVICE_FAILED;
    return dyno_fail(code, "%s: cuBLASLt says %s", what,
                     is_loaded ? functions.status_string(status) : "nothing");
}
