/* driver.h - the functions of libcuda.so.1 that the runtime API lacks: virtual memory management,
 * and loading modules from memory. Found through the runtime; nothing is linked. */
#ifndef RUNTIME_CUDA_DRIVER_H
#define RUNTIME_CUDA_DRIVER_H

#include <cuda.h>

#include "base/status.h"

/* X(field, the function of cuda.h) */
#define FOR_EACH_DRIVER_FUNCTION(X)                                                                \
    X(error_string, cuGetErrorString)                                                              \
    X(address_reserve, cuMemAddressReserve)                                                        \
    X(address_free, cuMemAddressFree)                                                              \
    X(memory_create, cuMemCreate)                                                                  \
    X(memory_release, cuMemRelease)                                                                \
    X(memory_map, cuMemMap)                                                                        \
    X(memory_unmap, cuMemUnmap)                                                                    \
    X(memory_set_access, cuMemSetAccess)                                                           \
    X(memory_granularity, cuMemGetAllocationGranularity)                                           \
    X(module_load, cuModuleLoadData)                                                               \
    X(module_unload, cuModuleUnload)                                                               \
    X(module_function, cuModuleGetFunction)                                                        \
    X(function_set, cuFuncSetAttribute)                                                            \
    X(function_get, cuFuncGetAttribute)                                                            \
    X(launch, cuLaunchKernelEx)

typedef struct driver_functions {
#define FIELD(field, function) __typeof__(&function) field;
    FOR_EACH_DRIVER_FUNCTION(FIELD)
#undef FIELD
} driver_functions;

/* Finds them; there is a driver. */
NODISCARD dyno_status cuda_driver_load(void);
/* NULL before they were loaded. */
const driver_functions *cuda_driver(void);

#endif
