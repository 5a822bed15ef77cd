/* cuda_status.h - the one translator of CUDA's codes. */
#ifndef RUNTIME_CUDA_CUDA_STATUS_H
#define RUNTIME_CUDA_CUDA_STATUS_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/status.h"

/* DYNO_OK for success; else fails with "`what`: CUDA's name and words". The runtime's memory of the
 * error is cleared, so that it is not found again by the next call. */
NODISCARD dyno_status cuda_status(cudaError_t error, const char *what);
NODISCARD dyno_status cuda_status_of_driver(CUresult result, const char *what);

#endif
