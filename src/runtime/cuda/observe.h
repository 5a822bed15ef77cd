/* observe.h - while a program is observed, CUPTI records when each of its launches ran.
 *
 * One program of the process at a time. In between, everything here does nothing. */
#ifndef RUNTIME_CUDA_OBSERVE_H
#define RUNTIME_CUDA_OBSERVE_H

#include <cuda_runtime.h>

#include "profile/activity.h"
#include "runtime/device.h"

/* See device_functions. */
NODISCARD dyno_status cuda_observe_begin(program *r);
NODISCARD dyno_status cuda_observe_end(program *r, activity *out);

/* While a step is captured: what is put into the graph now is of this launch; -1: of none. */
void cuda_observe_captured(const program *r, int launch);
/* The same: what is put into the graph now is of the launch that `node` is of. */
void cuda_observe_captured_like(cudaGraphNode_t node);
/* Around a launch that runs by itself. Launch 0 begins a step. */
void cuda_observe_launch_begin(const program *r, int launch);
void cuda_observe_launch_end(const program *r);

#endif
