/* emulated_device.h - a GPU that is none: runs plans for CUDA in the host's memory, generated
 * kernels by the emulator, all others by what their op has for the CPU (emulated_plan.h). Tries
 * plans, and tests of a GPU, where there is no GPU; $DYNO_TEST_DEVICE=emulated. */
#ifndef TESTS_SUPPORT_EMULATED_DEVICE_H
#define TESTS_SUPPORT_EMULATED_DEVICE_H

#include "runtime/device.h"

/* There is one; it needs no closing. */
device *emulated_device(void);

#endif
