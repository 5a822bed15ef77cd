/* cuda_status.c - base/status.h for the module: messages are handed to the program that loaded it,
 * where the caller looks; a copy stays here for dyno_fail_within. */
#include "runtime/cuda/cuda_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/driver.h"

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];
static const cuda_host *current_host;

void cuda_status_set_host(const cuda_host *host) { current_host = host; }

const char *dyno_error_message(void) { return message; }

dyno_status dyno_fail(dyno_status code, const char *format, ...) {
    /* Formatted aside first: an argument may point into `message`. */
    char formatted[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(formatted, sizeof formatted, format, arguments);
    va_end(arguments);
    memcpy(message, formatted, sizeof formatted);
    return current_host ? current_host->fail(code, message) : code;
}

dyno_status dyno_fail_within(dyno_status code, const char *format, ...) {
    char context[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    char inner[MESSAGE_BYTES];
    memcpy(inner, message, sizeof inner);
    inner[MESSAGE_BYTES - sizeof context - 4] = '\0';
    return dyno_fail(code, "%s: %s", context, inner);
}

/* What a caller can act on has a code of its own; the rest is a device that failed. */
static dyno_status code_of(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation:
        return DYNO_OUT_OF_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorNotSupported:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return DYNO_UNSUPPORTED;
    default:
        return DYNO_IO;
    }
}

dyno_status cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return DYNO_OK;
    (void)cudaGetLastError();
    return dyno_fail(code_of(error), "%s: %s (%s)", what, cudaGetErrorString(error),
                     cudaGetErrorName(error));
}

dyno_status cuda_status_of_driver(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return DYNO_OK;
    const char *words = NULL;
    const driver_functions *driver = cuda_driver();
    if (!driver || driver->error_string(result, &words) != CUDA_SUCCESS || !words)
        words = "an error the driver has no words for";
    /* The runtime's codes and the driver's are the same numbers. */
    return dyno_fail(code_of((cudaError_t)result), "%s: %s (CUDA error %d)", what, words,
                     (int)result);
}
