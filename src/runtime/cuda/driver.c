#include "runtime/cuda/driver.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/cuda/cuda_status.h"

static driver_functions functions;
static bool is_loaded;

/* The interface of CUDA 12.0 is the oldest that has them all as they are used here. */
enum { DRIVER_INTERFACE = 12000 };

static dyno_status find(const char *symbol, void *function) {
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult answer;
    RETURN_IF_FAILED(cuda_status(cudaGetDriverEntryPointByVersion(symbol, &found, DRIVER_INTERFACE,
                                                                  cudaEnableDefault, &answer),
                                 symbol));
    if (answer != cudaDriverEntryPointSuccess || !found)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "the CUDA driver has no %s; install a newer NVIDIA driver", symbol);
    memcpy(function, &found, sizeof found);
    return DYNO_OK;
}

dyno_status cuda_driver_load(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    dyno_status status = DYNO_OK;
    pthread_mutex_lock(&lock);
    if (!is_loaded) {
#define FIND(field, function)                                                                      \
    if (status == DYNO_OK)                                                                         \
        status = find(#function, &functions.field);
        FOR_EACH_DRIVER_FUNCTION(FIND)
#undef FIND
        is_loaded = status == DYNO_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

const driver_functions *cuda_driver(void) { return is_loaded ? &functions : NULL; }
