/* ranges.h - ranges of NVTX, which nsys and ncu show when they run around dyno. Without them, a call
 * costs a test of one pointer. */
#ifndef RUNTIME_CUDA_RANGES_H
#define RUNTIME_CUDA_RANGES_H

#include "runtime/device.h"

/* The toolkit may come in parts; one without NVTX's header leaves only the ranges out. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#define CUDA_HAS_RANGES true
#else
#define CUDA_HAS_RANGES false
#endif

/* See device_functions. */
void cuda_push_range(device *d, const char *name);
void cuda_pop_range(device *d);

#endif
