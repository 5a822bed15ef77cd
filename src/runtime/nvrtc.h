/* nvrtc.h - generated CUDA C, compiled by NVRTC and kept in a cache. Needs no GPU.
 *
 * The cache is that of jit.h: one file for each content hash of source, options and version of the
 * library. Files are written beside their place and renamed, so that processes compiling the same
 * at once do not meet; one that is damaged is made again. */
#ifndef RUNTIME_NVRTC_H
#define RUNTIME_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct nvrtc_target {
    int toolkit;      /* major version of the library: 13 */
    int major, minor; /* compute capability: 9, 0 */
} nvrtc_target;

typedef struct nvrtc_code {
    char *bytes; /* a cubin; PTX where the chip is newer than the library */
    size_t size;
    bool was_compiled; /* else it was in the cache */
} nvrtc_code;

/* Floating point is IEEE's, and nothing is contracted, since the generator writes every fused
 * multiply-add itself, unless the first line of the source says "fmad=true". Fails with
 * DYNO_UNSUPPORTED when there is no NVRTC, and DYNO_IO, with what it said, when the source does not
 * compile. */
NODISCARD dyno_status nvrtc_compile(const char *source, const nvrtc_target *target,
                                    nvrtc_code *out);
void nvrtc_code_release(nvrtc_code *code);

#endif
