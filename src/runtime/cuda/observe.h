/* observe.h - while a program is observed, CUPTI records when each of its launches ran.
 *
 * One program of the process at a time. Without an observation, nothing here has an effect. */
#ifndef RUNTIME_CUDA_OBSERVE_H
#define RUNTIME_CUDA_OBSERVE_H

#include <cuda_runtime.h>

#include "profile/launch_log.h"
#include "runtime/device.h"

/* See device_functions. */
NODISCARD dyno_status cuda_observe_begin(program *r);
NODISCARD dyno_status cuda_observe_end(program *r, launch_log *out);

/* During capture: nodes that are now added to the graph belong to this launch; -1: to none. */
void cuda_observe_captured(const program *r, int launch);
/* The same: they belong to the launch that `node` belongs to. */
void cuda_observe_captured_like(cudaGraphNode_t node);
/* Around a launch that is not part of a graph. */
void cuda_observe_launch_begin(const program *r, int launch, bool begins_step);
void cuda_observe_launch_end(const program *r);

#endif
