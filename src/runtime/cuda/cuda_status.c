#include "runtime/cuda/cuda_status.h"

#include "runtime/cuda/driver.h"

/* Codes that a caller can act on have a status of their own; the others mean a failed device. */
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
        return DYNO_DEVICE_FAILED;
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
