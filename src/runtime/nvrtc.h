/* nvrtc.h - generated CUDA C, compiled by NVRTC and cached. Needs no GPU.
 *
 * The cache is that of jit.h: one file for each content hash of source, options and version of the
 * library. Files are written under a temporary name and renamed, so that concurrent processes do
 * not conflict; a damaged one is compiled again. */
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

/* Floating point follows IEEE 754, and nothing is contracted, since the generator writes every
 * fused multiply-add itself, unless the first line of the source says "fmad=true". Fails with
 * DYNO_UNSUPPORTED when there is no NVRTC, and DYNO_IO, with its log, when the source does not
 * compile. */
NODISCARD dyno_status nvrtc_compile(const char *source, const nvrtc_target *target,
                                    nvrtc_code *out);
void nvrtc_code_release(nvrtc_code *code);

#endif
