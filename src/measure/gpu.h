/* gpu.h - what is known and measured of the GPU a run uses, by way of its module. */
#ifndef MEASURE_GPU_H
#define MEASURE_GPU_H

#include "measure/results.h"
#include "runtime/cuda/module.h"

/* The file that the module was loaded from; "" where the system does not tell. */
const char *gpu_module_path(const cuda_module *module);

/* The GPU's name, memory and driver into the run's environment. `d` is one of TARGET_CUDA, here and
 * below. */
NODISCARD dyno_status gpu_describe(const device *d, results *run);

/* Its measured rates, there and in *rates. Takes about a second the first time. */
NODISCARD dyno_status gpu_measure(device *d, results *run, cuda_rates *rates);

/* The metric device_used_bytes, what is in use on the whole GPU now, tensors and all else, and
 * the metrics "device.WHAT" with what the module says of all else. */
NODISCARD dyno_status gpu_record_memory(device *d, results_cell *cell);

#endif
