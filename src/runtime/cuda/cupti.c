#include "runtime/cuda/cupti.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdbool.h>

#include "runtime/cuda_library.h"

static cupti_functions functions;
static bool is_loaded;

dyno_status cupti_load(const cupti_functions **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    dyno_status status = DYNO_OK;
    *out = &functions;
    pthread_mutex_lock(&lock);
    if (!is_loaded) {
        void *handle;
        /* The version that was compiled against must be the one that is loaded. */
        status = cuda_library_open("cupti", CUDART_VERSION / 1000, &handle);
#define FIND(field, function)                                                                      \
    if (status == DYNO_OK)                                                                         \
        status = cuda_library_find(handle, #function, &functions.field);
        FOR_EACH_CUPTI_FUNCTION(FIND)
#undef FIND
        is_loaded = status == DYNO_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

dyno_status cupti_status(CUptiResult result, const char *what) {
    if (result == CUPTI_SUCCESS)
        return DYNO_OK;
    const char *words = NULL;
    if (!is_loaded || functions.result_string(result, &words) != CUPTI_SUCCESS || !words)
        words = "an error without words";
    return dyno_fail(DYNO_UNSUPPORTED, "%s: CUPTI says %s (%d)%s", what, words, (int)result,
                     result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                         ? "; another profiler is at work"
                         : "");
}
