/* program.h - a plan prepared for a GPU, as program.c and capture.c share it. */
#ifndef RUNTIME_CUDA_PROGRAM_H
#define RUNTIME_CUDA_PROGRAM_H

#include <cuda.h>

#include "runtime/cuda/cuda_call.h"
#include "runtime/cuda/cuda_device.h"

struct program {
    cuda_device *device;
    const plan *p;
    CUmodule module;       /* NULL when nothing is generated */
    CUfunction *generated; /* beside plan.generated */
    cuda_run **runs;       /* by launch; NULL for generated ones */
    cudaGraphExec_t graph; /* NULL until it is captured */
    bool
        uses_dependent_launch; /* programmatic dependent launch of generated kernels; see program.c */
    int64_t device_bytes;      /* of code and graph, as the device's free memory shows */
};

/* Enqueues launch `index`. */
NODISCARD dyno_status program_enqueue(program *r, int index, const kernel_args *args,
                                      cudaStream_t stream);

/* Tunes the plan's products before it is captured, without running them. */
NODISCARD dyno_status program_rehearse(program *r, const device_launch *steps, int count);

#endif
