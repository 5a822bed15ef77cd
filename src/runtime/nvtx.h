/* nvtx.h - ranges of NVTX, which nsys and ncu show when they run around dyno, on any device.
 *
 * Such a tool names a library of its own in the environment's NVTX_INJECTION64_PATH. */
#ifndef RUNTIME_NVTX_H
#define RUNTIME_NVTX_H

#include "runtime/scope_ranges.h"

/* The tool, in the domain "dyno", so that ranges of libraries (cuBLAS has some) can be told apart. Its
 * library is loaded at the first call. NULL where there is none; one that cannot be loaded, or
 * refuses, is none, as for every program with NVTX. */
const range_listener *nvtx_listener(void);

#endif
