/* cuda_status.h - translates the status codes of CUDA. */
#ifndef RUNTIME_CUDA_CUDA_STATUS_H
#define RUNTIME_CUDA_CUDA_STATUS_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/status.h"

/* DYNO_OK for success; else fails with "`what`: CUDA's name and text". Clears the runtime's last
 * error, so that the next call does not find it again. */
NODISCARD dyno_status cuda_status(cudaError_t error, const char *what);
NODISCARD dyno_status cuda_status_of_driver(CUresult result, const char *what);

#endif
